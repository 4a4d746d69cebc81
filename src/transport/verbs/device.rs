//! Devices: what there is, opening one, and what it says about itself and its ports.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use fabbench_harness::snapshot::{VerbsDevice, VerbsFacts, VerbsPort, VerbsProblem};

use super::error::{AsyncEvent, CallError, Error, Operation, Result, last_errno};
use super::ffi;
use super::library::{Library, Symbols, Unavailable};
use super::quirks::Quirks;

/// What the verbs library says about this host: never fails, since "nothing" is an answer too.
pub fn facts() -> VerbsFacts {
    let mut facts = VerbsFacts::default();
    let problem = |error: &Unavailable| {
        Some(VerbsProblem { kind: error.kind().into(), text: error.to_string() })
    };
    match Library::get() {
        Ok(library) => {
            let name = Path::new(library.file()).file_name().unwrap_or_default();
            facts.library = name.to_string_lossy().into_owned();
        }
        Err(error) => facts.problem = problem(&error),
    }
    match names() {
        Ok(names) => facts.devices = names.iter().map(|name| device_facts(name)).collect(),
        Err(error) => facts.problem = problem(&error),
    }
    facts
}

/// Names of the devices, in the library's order; never empty.
pub fn names() -> std::result::Result<Vec<String>, Unavailable> {
    let list = DeviceList::read(Library::get()?)?;
    Ok(list.devices().map(|device| list.name(device)).collect())
}

fn device_facts(name: &str) -> VerbsDevice {
    let context = match Context::open(name) {
        Ok(context) => context,
        Err(error) => {
            let errno = if let Error::Call(call) = &error { call.errno } else { libc::ENODEV };
            let open_error = Some((errno, error.to_string()));
            return VerbsDevice { name: name.into(), open_error, ..VerbsDevice::default() };
        }
    };
    let limits = context.limits();
    VerbsDevice {
        name: name.into(),
        open_error: None,
        node_guid: limits.node_guid,
        firmware: limits.firmware.clone(),
        vendor_id: limits.vendor_id,
        max_qp: limits.max_qp,
        max_qp_wr: limits.max_qp_wr,
        max_cqe: limits.max_cqe,
        max_mr_size: limits.max_mr_size,
        max_srq: Some(limits.max_srq),
        max_srq_wr: Some(limits.max_srq_wr),
        max_qp_init_rd_atom: limits.max_qp_init_rd_atom,
        max_qp_rd_atom: limits.max_qp_rd_atom,
        atomic_cap: Some(limits.atomic_cap),
        capabilities: Some(limits.capabilities),
        ports: (1..=limits.ports)
            .filter_map(|port| {
                let attributes = context.query_port(port).ok()?;
                // A table that cannot be read is an empty one: choosing a GID then says so.
                let gids = context.gids(port).unwrap_or_default();
                Some(VerbsPort { gids, ..attributes })
            })
            .collect(),
    }
}

/// An open device. Clones share it; it is closed when the last object made from it is gone.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    raw: NonNull<ffi::ibv_context>,
    symbols: &'static Symbols,
    name: String,
    limits: Limits,
}

// SAFETY: libibverbs allows every verb on a context from any thread at any time.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// What a device can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Node GUID in host order.
    pub node_guid: u64,
    /// Firmware version.
    pub firmware: String,
    /// Vendor id.
    pub vendor_id: u32,
    /// Largest number of queue pairs.
    pub max_qp: u32,
    /// Work requests a queue can hold.
    pub max_qp_wr: u32,
    /// Completions a queue can hold.
    pub max_cqe: u32,
    /// Largest memory region, bytes.
    pub max_mr_size: u64,
    /// Largest number of shared receive queues; 0 where there is none.
    pub max_srq: u32,
    /// Receives that a shared receive queue can hold.
    pub max_srq_wr: u32,
    /// Outstanding READs and atomics as initiator.
    pub max_qp_init_rd_atom: u32,
    /// Outstanding READs and atomics as responder.
    pub max_qp_rd_atom: u32,
    /// `ibv_atomic_cap`: 0 none, 1 within the device, 2 with the host's CPUs as well.
    pub atomic_cap: u32,
    /// `device_cap_flags`.
    pub capabilities: u32,
    /// Number of ports.
    pub ports: u8,
}

impl Limits {
    /// Atomic operations are offered.
    pub fn has_atomics(&self) -> bool {
        self.atomic_cap > 0
    }
}

impl Context {
    /// Opens the device `name`.
    pub fn open(name: &str) -> Result<Context> {
        let library = Library::get()?;
        let list = DeviceList::read(library)?;
        let Some(device) = list.devices().find(|device| list.name(*device) == name) else {
            let names: Vec<_> = list.devices().map(|device| list.name(device)).collect();
            let present = format!("this host has {}", names.join(", "));
            return Err(Error::Absent { what: "device", object: name.into(), present });
        };
        let symbols = library.symbols();
        // SAFETY: the device is of a list that is not yet freed.
        let raw = NonNull::new(unsafe { (symbols.ibv_open_device)(device) });
        let raw = raw.ok_or_else(|| {
            let errno = last_errno();
            // SAFETY: as above.
            open_error(name, &c_text(unsafe { &(*device).dev_name }), errno)
        })?;
        // SAFETY: just opened.
        let limits = unsafe { query_device(raw, symbols) }
            .map_err(|errno| CallError::new(Operation::QueryDevice, name, errno))
            .inspect_err(|_| {
                // SAFETY: nothing was made from this context.
                unsafe { (symbols.ibv_close_device)(raw.as_ptr()) };
            })?;
        let context = Context(Arc::new(Inner { raw, symbols, name: name.into(), limits }));
        // SAFETY: the context is open.
        set_nonblocking(unsafe { raw.as_ref() }.async_fd)
            .map_err(|errno| CallError::new(Operation::GetAsyncEvent, name, errno))?;
        Ok(context)
    }

    /// Name of the device.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What the device can do.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Where its driver needs other settings than a usual one.
    pub fn quirks(&self) -> &'static Quirks {
        Quirks::of(self.0.limits.vendor_id)
    }

    /// State, addresses and codes of `port`, without its GID table.
    pub fn query_port(&self, port: u8) -> Result<VerbsPort> {
        let object = format!("{}:{port}", self.0.name);
        if port == 0 || port > self.0.limits.ports {
            let present = format!("{} has ports 1 to {}", self.0.name, self.0.limits.ports);
            return Err(Error::Absent { what: "port", object, present });
        }
        // SAFETY: the context is open.
        let attributes = unsafe { query_port(self.0.raw, self.0.symbols.ibv_query_port, port) }
            .map_err(|errno| CallError::new(Operation::QueryPort, object, errno))?;
        Ok(VerbsPort {
            port,
            state: attributes.state,
            active_mtu: attributes.active_mtu,
            max_mtu: attributes.max_mtu,
            lid: attributes.lid,
            sm_lid: attributes.sm_lid,
            lmc: attributes.lmc,
            active_width: attributes.active_width,
            active_speed: attributes.active_speed,
            active_speed_ex: attributes.active_speed_ex,
            link_layer: attributes.link_layer,
            phys_state: attributes.phys_state,
            max_msg_sz: attributes.max_msg_sz,
            pkey_tbl_len: attributes.pkey_tbl_len,
            gids: Vec::new(),
        })
    }

    /// Entries that the GID tables of all ports can hold.
    pub(super) fn gid_capacity(&self) -> usize {
        let ports = 1..=self.0.limits.ports;
        let lengths = ports.filter_map(|port| {
            // SAFETY: the context is open.
            let port = unsafe { query_port(self.0.raw, self.0.symbols.ibv_query_port, port) };
            usize::try_from(port.ok()?.gid_tbl_len).ok()
        });
        lengths.sum()
    }

    /// The next event of the device, if there is one; does not wait.
    pub fn poll_event(&self) -> Result<Option<AsyncEvent>> {
        let mut event = MaybeUninit::<ffi::ibv_async_event>::zeroed();
        // SAFETY: the context is open and its descriptor does not block.
        let status =
            unsafe { (self.0.symbols.ibv_get_async_event)(self.raw(), event.as_mut_ptr()) };
        if status != 0 {
            return match last_errno() {
                libc::EAGAIN | libc::EINTR => Ok(None),
                errno => Err(CallError::new(Operation::GetAsyncEvent, self.name(), errno).into()),
            };
        }
        // SAFETY: the call filled it in.
        let mut event = unsafe { event.assume_init() };
        // SAFETY: it is acknowledged below, so what it points to is still there.
        let number = unsafe { subject(&event) };
        // SAFETY: got from the call above, acknowledged once.
        unsafe { (self.0.symbols.ibv_ack_async_event)(&mut event) };
        Ok(Some(AsyncEvent { kind: event.event_type, number }))
    }

    /// Reads all events that are waiting; an error at the first one that ends a test.
    pub fn check_events(&self) -> Result<()> {
        while let Some(event) = self.poll_event()? {
            if event.is_fatal() {
                return Err(Error::Event { device: self.0.name.clone(), event });
            }
        }
        Ok(())
    }

    pub(super) fn raw(&self) -> *mut ffi::ibv_context {
        self.0.raw.as_ptr()
    }

    pub(super) fn symbols(&self) -> &'static Symbols {
        self.0.symbols
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: every object made from this context holds a clone, so none is left.
        let status = unsafe { (self.symbols.ibv_close_device)(self.raw.as_ptr()) };
        report_leak("close the device", &self.name, status);
    }
}

/// Why the device `name` did not open. The library says "no such file" whenever it could not open
/// the device's node, so the node is tried once more.
fn open_error(name: &str, node: &str, errno: i32) -> CallError {
    let path = format!("/dev/infiniband/{node}");
    let tried = std::fs::File::options().read(true).write(true).open(&path);
    let errno = tried.err().and_then(|error| error.raw_os_error()).unwrap_or(errno);
    CallError::new(Operation::OpenDevice, name, errno).with_detail(path)
}

/// The text in an array that a zero byte ends.
fn c_text(array: &[c_char]) -> String {
    let bytes: Vec<_> = array.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Says on stderr that an object could not be destroyed: a Drop has nobody else to tell.
pub(super) fn report_leak(operation: &str, object: &str, status: c_int) {
    if status != 0 {
        let errno = super::error::errno_text(status.abs());
        eprintln!("fabbench: {object}: could not {operation}: {errno}");
    }
}

/// Makes reads of a descriptor return at once; an errno on failure.
pub(super) fn set_nonblocking(fd: c_int) -> std::result::Result<(), i32> {
    // SAFETY: fcntl with these commands touches no memory.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(last_errno());
    }
    // SAFETY: as above.
    match unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// The library's list of devices, freed on drop.
struct DeviceList {
    symbols: &'static Symbols,
    raw: NonNull<*mut ffi::ibv_device>,
    len: usize,
}

impl DeviceList {
    /// A list with at least one device.
    fn read(library: &'static Library) -> std::result::Result<DeviceList, Unavailable> {
        let symbols = library.symbols();
        let mut len: c_int = 0;
        // SAFETY: the argument is where the count goes.
        let raw = NonNull::new(unsafe { (symbols.ibv_get_device_list)(&mut len) });
        let explain = || Unavailable::explain_empty_list(Path::new("/"));
        let list = DeviceList { symbols, raw: raw.ok_or_else(explain)?, len: len.max(0) as usize };
        if list.len == 0 { Err(explain()) } else { Ok(list) }
    }

    fn devices(&self) -> impl Iterator<Item = *mut ffi::ibv_device> + '_ {
        // SAFETY: the library's array has `len` pointers and lives until it is freed.
        (0..self.len).map(|i| unsafe { *self.raw.as_ptr().add(i) })
    }

    fn name(&self, device: *mut ffi::ibv_device) -> String {
        // SAFETY: a device of this list; its name is a C string inside it.
        let name = unsafe { CStr::from_ptr((self.symbols.ibv_get_device_name)(device)) };
        name.to_string_lossy().into_owned()
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: freed once; contexts opened from it keep their own device.
        unsafe { (self.symbols.ibv_free_device_list)(self.raw.as_ptr()) };
    }
}

/// The structure around `context` that holds the extended verbs, if there is one.
///
/// # Safety
/// `context` is open.
unsafe fn verbs_get_ctx(context: NonNull<ffi::ibv_context>) -> Option<NonNull<ffi::verbs_context>> {
    // The mark of an extended context: a null pointer less one, all ones in 64 bits.
    const EXTENDED: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);
    // SAFETY: open, by contract.
    if unsafe { (*context.as_ptr()).abi_compat } != EXTENDED {
        return None;
    }
    // SAFETY: a marked context is the last field of a `verbs_context`.
    Some(unsafe { context.byte_sub(offset_of!(ffi::verbs_context, context)).cast() })
}

/// An extended verb that the library and the driver both have. The structure grows at its front,
/// and `sz` says how far it reaches there. To be used where the context is known to be open: `sz`
/// is always there, and the verb's place is when `sz` covers it.
macro_rules! extended_verb {
    ($context:expr, $verb:ident) => {
        verbs_get_ctx($context).and_then(|extended| {
            let needed = size_of::<ffi::verbs_context>() - offset_of!(ffi::verbs_context, $verb);
            if (*extended.as_ptr()).sz < needed { None } else { (*extended.as_ptr()).$verb }
        })
    };
}

impl Context {
    /// A completion queue of the extended kind; an errno on failure.
    pub(super) fn create_cq_ex(
        &self,
        request: &mut ffi::ibv_cq_init_attr_ex,
    ) -> std::result::Result<NonNull<ffi::ibv_cq_ex>, i32> {
        // SAFETY: the context is open; what the request points to is alive.
        let raw = unsafe {
            let verb = extended_verb!(self.0.raw, create_cq_ex).ok_or(libc::EOPNOTSUPP)?;
            verb(self.raw(), request)
        };
        NonNull::new(raw).ok_or_else(last_errno)
    }

    /// A queue pair of the extended kind; an errno on failure.
    pub(super) fn create_qp_ex(
        &self,
        request: &mut ffi::ibv_qp_init_attr_ex,
    ) -> std::result::Result<NonNull<ffi::ibv_qp>, i32> {
        // SAFETY: as above.
        let raw = unsafe {
            let verb = extended_verb!(self.0.raw, create_qp_ex).ok_or(libc::EOPNOTSUPP)?;
            verb(self.raw(), request)
        };
        NonNull::new(raw).ok_or_else(last_errno)
    }
}

/// Port attributes by the extended verb, the only one that knows `active_speed_ex`; else by the
/// exported function, which fills the shorter structure of old.
///
/// # Safety
/// `context` is open.
unsafe fn query_port(
    context: NonNull<ffi::ibv_context>,
    exported: ffi::ibv_query_port,
    port: u8,
) -> std::result::Result<ffi::ibv_port_attr, i32> {
    let mut attributes = MaybeUninit::<ffi::ibv_port_attr>::zeroed();
    let raw = attributes.as_mut_ptr();
    // SAFETY: open, by contract; the structure is as long as said, or longer than the old one.
    let status = unsafe {
        match extended_verb!(context, query_port) {
            Some(verb) => verb(context.as_ptr(), port, raw, size_of::<ffi::ibv_port_attr>()),
            None => exported(context.as_ptr(), port, raw.cast()),
        }
    };
    match status {
        // SAFETY: all bytes were zeroed, and the structure holds numbers only.
        0 => Ok(unsafe { attributes.assume_init() }),
        errno => Err(errno.abs()),
    }
}

/// Device attributes by the extended verb, which knows more than 255 ports; else by the exported.
///
/// # Safety
/// `context` is open.
unsafe fn query_device(
    context: NonNull<ffi::ibv_context>,
    symbols: &Symbols,
) -> std::result::Result<Limits, i32> {
    let mut attributes = MaybeUninit::<ffi::ibv_device_attr_ex>::zeroed();
    let raw = attributes.as_mut_ptr();
    let size = size_of::<ffi::ibv_device_attr_ex>();
    // SAFETY: open, by contract; no input means all attributes; the size is that of the structure.
    let mut status = unsafe {
        match extended_verb!(context, query_device_ex) {
            Some(verb) => verb(context.as_ptr(), std::ptr::null(), raw, size),
            None => libc::EOPNOTSUPP,
        }
    };
    if status.abs() == libc::EOPNOTSUPP || status.abs() == libc::ENOSYS {
        // SAFETY: open, by contract; the old structure is the first field of the new one.
        status = unsafe { (symbols.ibv_query_device)(context.as_ptr(), &raw mut (*raw).orig_attr) };
    }
    match status {
        // SAFETY: all bytes were zeroed, and the structure holds numbers only.
        0 => Ok(limits(&unsafe { attributes.assume_init() })),
        errno => Err(errno.abs()),
    }
}

fn limits(attributes: &ffi::ibv_device_attr_ex) -> Limits {
    let old = &attributes.orig_attr;
    let count = |value: c_int| u32::try_from(value).unwrap_or(0);
    Limits {
        node_guid: u64::from_be(old.node_guid),
        firmware: c_text(&old.fw_ver),
        vendor_id: old.vendor_id,
        max_qp: count(old.max_qp),
        max_qp_wr: count(old.max_qp_wr),
        max_cqe: count(old.max_cqe),
        max_mr_size: old.max_mr_size,
        max_srq: count(old.max_srq),
        max_srq_wr: count(old.max_srq_wr),
        max_qp_init_rd_atom: count(old.max_qp_init_rd_atom),
        max_qp_rd_atom: count(old.max_qp_rd_atom),
        atomic_cap: old.atomic_cap,
        capabilities: old.device_cap_flags,
        ports: u8::try_from(attributes.phys_port_cnt_ex).unwrap_or(u8::MAX).max(old.phys_port_cnt),
    }
}

/// Number of the port or queue pair that an event is about; 0 for others.
///
/// # Safety
/// The event is as the library gave it, not yet acknowledged.
unsafe fn subject(event: &ffi::ibv_async_event) -> u32 {
    match event.event_type {
        ffi::IBV_EVENT_QP_FATAL
        | ffi::IBV_EVENT_QP_REQ_ERR
        | ffi::IBV_EVENT_QP_ACCESS_ERR
        | ffi::IBV_EVENT_COMM_EST
        | ffi::IBV_EVENT_SQ_DRAINED
        | ffi::IBV_EVENT_PATH_MIG
        | ffi::IBV_EVENT_PATH_MIG_ERR
        | ffi::IBV_EVENT_QP_LAST_WQE_REACHED => {
            // SAFETY: these events carry a queue pair, which lives until they are acknowledged.
            unsafe { (*event.element.qp).qp_num }
        }
        ffi::IBV_EVENT_PORT_ACTIVE
        | ffi::IBV_EVENT_PORT_ERR
        | ffi::IBV_EVENT_LID_CHANGE
        | ffi::IBV_EVENT_PKEY_CHANGE
        | ffi::IBV_EVENT_SM_CHANGE
        | ffi::IBV_EVENT_CLIENT_REREGISTER
        | ffi::IBV_EVENT_GID_CHANGE => {
            // SAFETY: these events carry a port number.
            u32::try_from(unsafe { event.element.port_num }).unwrap_or(0)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a provider builds: a context inside the structure with the extended verbs.
    fn fake(mark: usize, sz: usize, verb: bool) -> Box<ffi::verbs_context> {
        // SAFETY: pointers, integers, optional functions and a mutex, all valid as zero bytes.
        let mut fake: Box<ffi::verbs_context> = Box::new(unsafe { std::mem::zeroed() });
        fake.context.abi_compat = std::ptr::without_provenance_mut(mark);
        fake.sz = sz;
        fake.query_port = verb.then_some(extended_query_port as _);
        fake
    }

    unsafe extern "C" fn extended_query_port(
        _: *mut ffi::ibv_context,
        port: u8,
        attributes: *mut ffi::ibv_port_attr,
        len: usize,
    ) -> c_int {
        assert_eq!(len, size_of::<ffi::ibv_port_attr>());
        // SAFETY: the caller's structure.
        unsafe { (*attributes).active_speed_ex = 256 + u32::from(port) };
        0
    }

    unsafe extern "C" fn exported_query_port(
        _: *mut ffi::ibv_context,
        port: u8,
        attributes: *mut ffi::_compat_ibv_port_attr,
    ) -> c_int {
        if port > 1 {
            return libc::EINVAL;
        }
        // SAFETY: the caller's structure is at least as long as the old one.
        unsafe { (*attributes.cast::<ffi::ibv_port_attr>()).active_speed = 32 };
        0
    }

    fn context(fake: &mut ffi::verbs_context) -> NonNull<ffi::ibv_context> {
        let whole: *mut ffi::verbs_context = fake;
        // SAFETY: points into the structure, with leave to reach all of it.
        NonNull::new(unsafe { &raw mut (*whole).context }).unwrap()
    }

    fn speeds(fake: &mut ffi::verbs_context, port: u8) -> std::result::Result<(u8, u32), i32> {
        // SAFETY: the fake stands for an open context.
        let attributes = unsafe { query_port(context(fake), exported_query_port, port) }?;
        Ok((attributes.active_speed, attributes.active_speed_ex))
    }

    const WHOLE: usize = size_of::<ffi::verbs_context>();

    #[test]
    fn an_extended_context_is_found_around_the_plain_one() {
        let mut extended = fake(usize::MAX, WHOLE, true);
        let start: *const ffi::verbs_context = &*extended;
        // SAFETY: the fake stands for an open context.
        let found = unsafe { verbs_get_ctx(context(&mut extended)) }.unwrap();
        assert_eq!(found.as_ptr().cast_const(), start);
        assert_eq!(speeds(&mut extended, 1), Ok((0, 257)));
    }

    #[test]
    fn a_mark_of_32_ones_is_not_extended() {
        let mut plain = fake(u32::MAX as usize, WHOLE, true);
        // SAFETY: the fake stands for an open context.
        assert!(unsafe { verbs_get_ctx(context(&mut plain)) }.is_none());
        assert_eq!(speeds(&mut plain, 1), Ok((32, 0)));
    }

    #[test]
    fn a_verb_beyond_the_size_or_missing_falls_back() {
        let needed = WHOLE - offset_of!(ffi::verbs_context, query_port);
        assert_eq!(speeds(&mut fake(usize::MAX, needed, true), 1), Ok((0, 257)));
        assert_eq!(speeds(&mut fake(usize::MAX, needed - 1, true), 1), Ok((32, 0)));
        assert_eq!(speeds(&mut fake(usize::MAX, WHOLE, false), 1), Ok((32, 0)));
        assert_eq!(speeds(&mut fake(usize::MAX, WHOLE, false), 2), Err(libc::EINVAL));
    }

    #[test]
    fn limits_keep_what_the_driver_said() {
        // SAFETY: numbers only.
        let mut attributes: ffi::ibv_device_attr_ex = unsafe { std::mem::zeroed() };
        attributes.orig_attr.node_guid = 0x0102_0304_0506_0708_u64.to_be();
        attributes.orig_attr.fw_ver[0] = b'2' as _;
        attributes.orig_attr.fw_ver[1] = b'8' as _;
        attributes.orig_attr.max_qp = -1;
        attributes.orig_attr.phys_port_cnt = 2;
        let limits = limits(&attributes);
        assert_eq!(limits.node_guid, 0x0102_0304_0506_0708);
        assert_eq!((limits.firmware.as_str(), limits.max_qp, limits.ports), ("28", 0, 2));
    }
}
