//! Opens libibverbs at run time and says why there is none.
//!
//! fabbench starts on hosts without rdma-core: nothing is linked. The library is opened once, its
//! symbols are looked up with their version first (another version would have another layout) and
//! without it as a fallback, and it stays open until the process ends.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use super::ffi;

/// Names the library's file instead of `libibverbs.so.1`.
pub const PATH_VARIABLE: &str = "FABBENCH_LIBIBVERBS";

const DEFAULT_PATH: &str = "libibverbs.so.1";

/// Why there are no verbs on this host; each text ends with the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The library is not installed.
    #[error("no RDMA: {path} cannot be opened ({reason}): apt install rdma-core ibverbs-providers")]
    LibraryAbsent {
        /// What was opened.
        path: String,
        /// What the loader says.
        reason: String,
    },
    /// The file that was opened is no libibverbs that fabbench can use.
    #[error(
        "no RDMA: {path} lacks {symbol}: it is no libibverbs or too old a one; \
         install rdma-core 17 or newer, or let {PATH_VARIABLE} name the right file"
    )]
    LibraryUnusable {
        /// What was opened.
        path: String,
        /// First required symbol that is missing.
        symbol: &'static str,
    },
    /// The kernel offers no verbs to user space.
    #[error("no RDMA: the kernel has no verbs for user space ({missing} is missing): {next}")]
    KernelAbsent {
        /// Path that should be there.
        missing: String,
        /// What to do.
        next: &'static str,
    },
    /// The kernel has devices that no installed provider drives.
    #[error(
        "no RDMA: the kernel has {devices} but libibverbs has no provider for it: \
         apt install ibverbs-providers (IBV_SHOW_WARNINGS=1 shows what was tried)"
    )]
    ProviderAbsent {
        /// Names of the kernel's devices.
        devices: String,
    },
    /// All is installed, and there is no device.
    #[error(
        "no RDMA: no device; lspci shows whether an HCA is there, then load its driver \
         (e.g. modprobe mlx5_ib), or make a Soft-RoCE device: fabbench softroce up"
    )]
    NoDevice,
}

impl Unavailable {
    /// Stable name: `library-absent`, `library-unusable`, `kernel-absent`, `provider-absent`,
    /// `no-device`.
    pub fn kind(&self) -> &'static str {
        match self {
            Unavailable::LibraryAbsent { .. } => "library-absent",
            Unavailable::LibraryUnusable { .. } => "library-unusable",
            Unavailable::KernelAbsent { .. } => "kernel-absent",
            Unavailable::ProviderAbsent { .. } => "provider-absent",
            Unavailable::NoDevice => "no-device",
        }
    }

    /// Why the library lists no device, from what the kernel shows under `root` (`/` on a live
    /// machine).
    pub fn explain_empty_list(root: &Path) -> Unavailable {
        let devices = names(&root.join("sys/class/infiniband"));
        if !root.join("sys/class/infiniband_verbs").is_dir() {
            let next = if devices.is_empty() {
                "modprobe ib_uverbs and the HCA's driver (e.g. mlx5_ib), or fabbench softroce up; \
                 kernels of hosted machines keep them in a linux-modules-extra package"
            } else {
                "modprobe ib_uverbs"
            };
            let missing = "/sys/class/infiniband_verbs".into();
            return Unavailable::KernelAbsent { missing, next };
        }
        if devices.is_empty() {
            return Unavailable::NoDevice;
        }
        if names(&root.join("dev/infiniband")).iter().all(|name| !name.starts_with("uverbs")) {
            let next = "udevadm trigger; in a container pass --device=/dev/infiniband";
            let missing = "/dev/infiniband/uverbs*".into();
            return Unavailable::KernelAbsent { missing, next };
        }
        Unavailable::ProviderAbsent { devices: devices.join(", ") }
    }
}

/// libibverbs, opened.
pub struct Library {
    symbols: Symbols,
    file: String,
}

impl Library {
    /// The library of this process, opened at the first call; every later call gives the same
    /// answer.
    pub fn get() -> Result<&'static Library, Unavailable> {
        static LIBRARY: OnceLock<Result<Library, Unavailable>> = OnceLock::new();
        LIBRARY
            .get_or_init(|| match std::env::var(PATH_VARIABLE) {
                Ok(path) if !path.is_empty() => Library::open(&path),
                _ => Library::open(DEFAULT_PATH),
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Opens the library at `path`, found as the dynamic loader finds it.
    fn open(path: &str) -> Result<Library, Unavailable> {
        let absent = |reason: String| Unavailable::LibraryAbsent { path: path.into(), reason };
        let name = CString::new(path).map_err(|error| absent(error.to_string()))?;
        // SAFETY: the name is a C string; constructors of a library that the user names may run.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            let reason = loader_error();
            let said = reason.strip_prefix(path).and_then(|rest| rest.strip_prefix(": "));
            let said = said.unwrap_or(&reason);
            let missing = path == DEFAULT_PATH && said.ends_with("No such file or directory");
            return Err(absent(if missing { "it is not installed" } else { said }.into()));
        }
        let symbols = Symbols::load(handle)
            .map_err(|symbol| Unavailable::LibraryUnusable { path: path.into(), symbol })?;
        let file = file_of(symbols.ibv_open_device as *const c_void).unwrap_or(path.into());
        Ok(Library { symbols, file })
    }

    /// The library's functions.
    pub(super) fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The file, links resolved: its name ends in rdma-core's version, `…so.1.14.44.0`.
    pub fn file(&self) -> &str {
        &self.file
    }
}

/// Declares the table of functions: those that must be there, with the version that they have had
/// since rdma-core 17, and those of later releases.
macro_rules! symbols {
    (required { $($name:ident: $version:literal,)* } optional { $($later:ident: $since:literal,)* }) => {
        /// Functions of libibverbs.
        pub(super) struct Symbols {
            $(pub $name: ffi::$name,)*
            $(pub $later: Option<ffi::$later>,)*
        }

        impl Symbols {
            /// Looks all up in an open library; the name of the first required one missing, else.
            fn load(handle: *mut c_void) -> Result<Symbols, &'static str> {
                Ok(Symbols {
                    $($name: {
                        let symbol = lookup(handle, concat!(stringify!($name), "\0"), concat!($version, "\0"));
                        // SAFETY: the type is generated from the declaration of this very function.
                        unsafe { symbol.map(|s| std::mem::transmute::<*mut c_void, ffi::$name>(s)) }
                            .ok_or(stringify!($name))?
                    },)*
                    $($later: {
                        let symbol = lookup(handle, concat!(stringify!($later), "\0"), concat!($since, "\0"));
                        // SAFETY: as above.
                        unsafe { symbol.map(|s| std::mem::transmute::<*mut c_void, ffi::$later>(s)) }
                    },)*
                })
            }
        }
    };
}

symbols! {
    required {
        ibv_get_device_list: "IBVERBS_1.1",
        ibv_free_device_list: "IBVERBS_1.1",
        ibv_get_device_name: "IBVERBS_1.1",
        ibv_open_device: "IBVERBS_1.1",
        ibv_close_device: "IBVERBS_1.1",
        ibv_get_async_event: "IBVERBS_1.1",
        ibv_ack_async_event: "IBVERBS_1.1",
        ibv_query_device: "IBVERBS_1.1",
        ibv_query_port: "IBVERBS_1.1",
        ibv_alloc_pd: "IBVERBS_1.1",
        ibv_dealloc_pd: "IBVERBS_1.1",
        ibv_reg_mr: "IBVERBS_1.1",
        ibv_dereg_mr: "IBVERBS_1.1",
        ibv_create_comp_channel: "IBVERBS_1.0",
        ibv_destroy_comp_channel: "IBVERBS_1.0",
        ibv_create_cq: "IBVERBS_1.1",
        ibv_destroy_cq: "IBVERBS_1.1",
        ibv_get_cq_event: "IBVERBS_1.1",
        ibv_ack_cq_events: "IBVERBS_1.1",
        ibv_create_qp: "IBVERBS_1.1",
        ibv_modify_qp: "IBVERBS_1.1",
        ibv_destroy_qp: "IBVERBS_1.1",
        ibv_create_srq: "IBVERBS_1.1",
        ibv_destroy_srq: "IBVERBS_1.1",
        ibv_create_ah: "IBVERBS_1.1",
        ibv_destroy_ah: "IBVERBS_1.1",
    }
    optional {
        ibv_qp_to_qp_ex: "IBVERBS_1.6",
        ibv_reg_mr_iova2: "IBVERBS_1.8",
        _ibv_query_gid_table: "IBVERBS_1.11",
        ibv_reg_dmabuf_mr: "IBVERBS_1.12",
    }
}

/// The symbol of that version, or of the default one where the library has no versions.
fn lookup(handle: *mut c_void, name: &'static str, version: &'static str) -> Option<*mut c_void> {
    let name: *const c_char = name.as_ptr().cast();
    // SAFETY: both strings end in a zero byte, and the handle is that of an open library.
    let symbol = unsafe { libc::dlvsym(handle, name, version.as_ptr().cast()) };
    if !symbol.is_null() {
        return Some(symbol);
    }
    // SAFETY: as above.
    let symbol = unsafe { libc::dlsym(handle, name) };
    (!symbol.is_null()).then_some(symbol)
}

fn loader_error() -> String {
    // SAFETY: dlerror gives null or a string that lives until this thread's next loader call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".into();
    }
    // SAFETY: not null, see above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The file that holds the code at `address`, links resolved.
fn file_of(address: *const c_void) -> Option<String> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for; the structure is written when the answer is not 0.
    let found: c_int = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: zeroed bytes are a valid value of this structure of pointers, written or not.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a C string that lives as long as the library stays open, which is for good.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_str().ok()?;
    Some(std::fs::canonicalize(path).ok()?.to_string_lossy().into_owned())
}

/// Names in a directory, sorted; none when it cannot be read.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(path: &str) -> Unavailable {
        match Library::open(path) {
            Ok(library) => panic!("{path} opened as {}", library.file()),
            Err(error) => error,
        }
    }

    #[test]
    fn a_missing_file_is_an_absent_library() {
        let error = error("/nonexistent/libibverbs.so.1");
        assert_eq!(error.kind(), "library-absent");
        let text = error.to_string();
        assert!(text.contains("/nonexistent/libibverbs.so.1"), "{text}");
        assert!(text.ends_with("apt install rdma-core ibverbs-providers"), "{text}");
    }

    #[test]
    fn a_file_that_is_no_library_is_an_absent_library() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "not a library ".repeat(1000)).unwrap();
        let error = error(file.path().to_str().unwrap());
        assert_eq!(error.kind(), "library-absent");
        assert!(error.to_string().contains("invalid ELF header"), "{error}");
    }

    #[test]
    fn another_library_is_unusable_and_the_symbol_is_named() {
        let error = error("libc.so.6");
        let symbol = "ibv_get_device_list";
        assert_eq!(error, Unavailable::LibraryUnusable { path: "libc.so.6".into(), symbol });
    }

    #[test]
    fn a_path_with_a_zero_byte_is_refused() {
        assert_eq!(error("lib\0ibverbs.so").kind(), "library-absent");
    }

    #[test]
    fn symbols_are_found_by_version_and_by_default() {
        let libm = c"libm.so.6";
        // SAFETY: libm is glibc's own.
        let handle = unsafe { libc::dlopen(libm.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        assert!(lookup(handle, "cos\0", "NO_SUCH_VERSION\0").is_some());
        assert!(lookup(handle, "no_such_function\0", "GLIBC_2.2.5\0").is_none());
        // glibc 2.29 gave `exp` a second version: the old one is reached by its version only.
        if cfg!(target_arch = "x86_64") {
            let old = lookup(handle, "exp\0", "GLIBC_2.2.5\0");
            assert_ne!(old, lookup(handle, "exp\0", "GLIBC_2.29\0"));
        }
    }

    fn root(paths: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for path in paths {
            std::fs::create_dir_all(root.path().join(path)).unwrap();
        }
        root
    }

    #[test]
    fn an_empty_list_is_explained_by_what_the_kernel_shows() {
        let kind = |paths: &[&str]| Unavailable::explain_empty_list(root(paths).path());
        assert_eq!(kind(&[]).kind(), "kernel-absent");
        let text = kind(&["sys/class/infiniband/rxe0"]).to_string();
        assert!(text.ends_with(": modprobe ib_uverbs"), "{text}");

        let loaded = root(&["sys/class/infiniband", "sys/class/infiniband_verbs"]);
        assert_eq!(Unavailable::explain_empty_list(loaded.path()), Unavailable::NoDevice);

        let bare = ["sys/class/infiniband/rxe0", "sys/class/infiniband_verbs/uverbs0"];
        let text = kind(&bare).to_string();
        assert!(text.contains("/dev/infiniband/uverbs* is missing"), "{text}");
        let with_node = [bare[0], bare[1], "dev/infiniband/uverbs0"];
        let devices = "rxe0".into();
        assert_eq!(kind(&with_node), Unavailable::ProviderAbsent { devices });
    }
}
