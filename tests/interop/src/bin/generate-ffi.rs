//! Writes `src/transport/verbs/ffi.rs` from the headers that the crate `ibverbs-sys` vendors.
//!
//!     apt install libclang-dev libc6-dev-arm64-cross      # on aarch64: libc6-dev-amd64-cross
//!     cargo run --features generate --bin generate-ffi
//!
//! Each architecture is parsed by itself: declarations have to agree, and layout assertions that do
//! not (glibc's mutex has another size on aarch64) are kept apart by `cfg(target_arch)`. Only what
//! [`FUNCTIONS`], [`TYPES`] and [`ENUMS`] name, and what these need, is kept. A function becomes the
//! type of its pointer, since the library is opened at run time.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use quote::{ToTokens, format_ident, quote};
use syn::visit::Visit;
use syn::{Fields, ForeignItem, Item};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const FUNCTIONS: &[&str] = &[
    "_ibv_query_gid_table",
    "ibv_ack_async_event",
    "ibv_ack_cq_events",
    "ibv_alloc_pd",
    "ibv_close_device",
    "ibv_create_ah",
    "ibv_create_comp_channel",
    "ibv_create_cq",
    "ibv_create_qp",
    "ibv_create_srq",
    "ibv_dealloc_pd",
    "ibv_dereg_mr",
    "ibv_destroy_ah",
    "ibv_destroy_comp_channel",
    "ibv_destroy_cq",
    "ibv_destroy_qp",
    "ibv_destroy_srq",
    "ibv_free_device_list",
    "ibv_get_async_event",
    "ibv_get_cq_event",
    "ibv_get_device_list",
    "ibv_get_device_name",
    "ibv_modify_qp",
    "ibv_open_device",
    "ibv_query_device",
    "ibv_qp_to_qp_ex",
    "ibv_query_port",
    "ibv_reg_dmabuf_mr",
    "ibv_reg_mr",
    "ibv_reg_mr_iova2",
];

const TYPES: &[&str] = &[
    "ibv_cq_ex",
    "ibv_cq_init_attr_ex",
    "ibv_poll_cq_attr",
    "ibv_port_attr",
    "ibv_qp_ex",
    "ibv_qp_init_attr_ex",
    "ibv_wc",
    "verbs_context",
];

/// Enumerations whose every value is kept, as a constant: a driver may choose others.
const ENUMS: &[&str] = &[
    "ib_uverbs_access_flags",
    "ibv_access_flags",
    "ibv_create_cq_wc_flags",
    "ibv_event_type",
    "ibv_gid_type",
    "ibv_mtu",
    "ibv_node_type",
    "ibv_port_state",
    "ibv_qp_attr_mask",
    "ibv_qp_create_send_ops_flags",
    "ibv_qp_init_attr_mask",
    "ibv_qp_state",
    "ibv_qp_type",
    "ibv_send_flags",
    "ibv_transport_type",
    "ibv_wc_flags",
    "ibv_wc_opcode",
    "ibv_wc_status",
    "ibv_wr_opcode",
];

/// Values of enumerations without a name, and macros.
const CONSTANTS: &[&str] = &[
    "IBV_LINK_LAYER_ETHERNET",
    "IBV_LINK_LAYER_INFINIBAND",
    "IBV_LINK_LAYER_UNSPECIFIED",
    "IBV_QPF_GRH_REQUIRED",
];

/// Structures used behind a pointer only: declared, not defined.
const OPAQUE: &[&str] = &["ibv_ah", "ibv_mw", "ibv_rwq_ind_table", "ibv_wq", "ibv_xrcd", "verbs_ex_private"];

/// Tables of operations, and the ones that are called; the others keep their place only.
const SLOTS: &[(&str, &[&str])] = &[
    ("ibv_context_ops", &["poll_cq", "req_notify_cq", "post_send", "post_recv", "post_srq_recv"]),
    ("verbs_context", &["query_port", "query_device_ex", "create_cq_ex", "create_qp_ex"]),
    (
        "ibv_cq_ex",
        &[
            "start_poll",
            "next_poll",
            "end_poll",
            "read_opcode",
            "read_vendor_err",
            "read_byte_len",
            "read_imm_data",
            "read_qp_num",
            "read_wc_flags",
        ],
    ),
    (
        "ibv_qp_ex",
        &[
            "wr_atomic_cmp_swp",
            "wr_atomic_fetch_add",
            "wr_rdma_read",
            "wr_rdma_write",
            "wr_rdma_write_imm",
            "wr_send",
            "wr_send_imm",
            "wr_set_ud_addr",
            "wr_set_inline_data",
            "wr_set_sge",
            "wr_set_sge_list",
            "wr_start",
            "wr_complete",
            "wr_abort",
        ],
    ),
];

/// What libc declares with the layout of each architecture.
const FROM_LIBC: &[&str] = &["pthread_cond_t", "pthread_mutex_t"];

/// The headers that the bindings come from; users include the first three as `infiniband/…`.
const HEADERS: &[&str] = &[
    "libibverbs/verbs.h",
    "libibverbs/verbs_api.h",
    "kernel-headers/rdma/ib_user_ioctl_verbs.h",
    "kernel-headers/rdma/ib_user_verbs.h",
];

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let vendored = vendored_rdma_core()?;
    let include = tempdir_with_headers(&vendored)?;
    let x86_64 = parse(&vendored, &include, "x86_64", "/usr/x86_64-linux-gnu/include")?;
    let aarch64 = parse(&vendored, &include, "aarch64", "/usr/aarch64-linux-gnu/include")?;
    std::fs::remove_dir_all(&include)?;
    let items = merge(reduce(x86_64)?, reduce(aarch64)?)?;
    let body = prettyplease::unparse(&syn::File { shebang: None, attrs: vec![], items });
    let body = body.replace("::core::ffi::", "").replace("::core::option::", "");
    let licence = std::fs::read_to_string(vendored.join("COPYING.BSD_MIT"))?;
    let path = root.join("src/transport/verbs/ffi.rs");
    std::fs::write(&path, head(&vendored, &licence)? + &body)?;
    let formatted = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .args([&root, &path])
        .status()?;
    if !formatted.success() {
        return Err("rustfmt failed".into());
    }
    println!("{} written", path.display());
    Ok(())
}

/// The folder of rdma-core inside `ibverbs-sys`, as cargo downloaded it.
fn vendored_rdma_core() -> Result<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--all-features", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let package = packages.iter().find(|package| package["name"] == "ibverbs-sys");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = Path::new(manifest.ok_or("ibverbs-sys is not among the dependencies")?);
    Ok(manifest.with_file_name("vendor/rdma-core"))
}

/// Lays the public headers out as rdma-core's own build does.
fn tempdir_with_headers(vendored: &Path) -> Result<PathBuf> {
    let include = std::env::temp_dir().join(format!("generate-ffi-{}", std::process::id()));
    let infiniband = include.join("infiniband");
    std::fs::create_dir_all(&infiniband)?;
    for header in &HEADERS[..3] {
        let header = vendored.join(header);
        std::fs::copy(&header, infiniband.join(header.file_name().ok_or("no file name")?))?;
    }
    Ok(include)
}

fn parse(vendored: &Path, include: &Path, arch: &str, libc_headers: &str) -> Result<syn::File> {
    let rust_version = bindgen::RustTarget::stable(85, 0).map_err(|error| error.to_string())?;
    let mut builder = bindgen::Builder::default()
        .header(include.join("infiniband/verbs.h").display().to_string())
        .clang_arg(format!("--target={arch}-unknown-linux-gnu"))
        .clang_arg(format!("-I{}", include.display()))
        .clang_arg(format!("-I{}", vendored.join("kernel-headers").display()))
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .generate_comments(false)
        .derive_debug(false)
        .use_core()
        .layout_tests(true)
        .size_t_is_usize(true)
        .disable_header_comment()
        .rust_target(rust_version)
        .rust_edition(bindgen::RustEdition::Edition2024);
    // The machine's own headers do for its own architecture.
    if Path::new(libc_headers).is_dir() {
        builder = builder.clang_arg(format!("-isystem{libc_headers}"));
    } else if arch != std::env::consts::ARCH {
        return Err(format!("{libc_headers} is missing: apt install libc6-dev-*-cross").into());
    }
    for name in FUNCTIONS {
        builder = builder.allowlist_function(name);
    }
    for name in TYPES.iter().chain(ENUMS) {
        builder = builder.allowlist_type(name);
    }
    for name in CONSTANTS {
        builder = builder.allowlist_var(name);
    }
    for name in OPAQUE.iter().chain(FROM_LIBC) {
        builder = builder.blocklist_type(name);
    }
    Ok(syn::parse_file(&builder.generate()?.to_string())?)
}

/// Functions as pointer types, unused slots blanked, and nothing that no root needs.
fn reduce(file: syn::File) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for item in file.items {
        match item {
            Item::ForeignMod(block) => {
                for function in block.items {
                    items.push(pointer_type(function)?);
                }
            }
            Item::Struct(structure) => items.push(Item::Struct(blank_slots(structure))),
            other => items.push(other),
        }
    }
    let kept = reachable(&items);
    items.retain(|item| match name(item) {
        Some(name) => kept.contains(&name),
        None => asserted(item).is_none_or(|name| kept.contains(&name)),
    });
    for item in &mut items {
        if let Some(name) = asserted(item) {
            *item = short_assertion(&name, item)?;
        }
    }
    for name in OPAQUE.iter().filter(|name| kept.contains(**name)) {
        let ident = format_ident!("{name}");
        items.push(syn::parse2(quote! {
            #[repr(C)]
            pub struct #ident {
                _unused: [u8; 0],
            }
        })?);
    }
    Ok(items)
}

fn pointer_type(item: ForeignItem) -> Result<Item> {
    let ForeignItem::Fn(function) = item else {
        return Err("a variable among the functions".into());
    };
    let ident = function.sig.ident;
    let inputs = function.sig.inputs;
    let output = function.sig.output;
    Ok(syn::parse2(quote! { pub type #ident = unsafe extern "C" fn(#inputs) #output; })?)
}

fn blank_slots(mut structure: syn::ItemStruct) -> syn::ItemStruct {
    let Some((_, used)) = SLOTS.iter().find(|(name, _)| structure.ident == name) else {
        return structure;
    };
    if let Fields::Named(fields) = &mut structure.fields {
        for field in &mut fields.named {
            let named = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
            let pointer = field.ty.to_token_stream().to_string().contains("extern \"C\" fn");
            if pointer && !used.contains(&named.as_str()) {
                field.ty = syn::parse_quote!(::core::option::Option<unsafe extern "C" fn()>);
            }
        }
    }
    structure
}

/// Names that the roots lead to. A constant comes along with the type of its enumeration.
fn reachable(items: &[Item]) -> BTreeSet<String> {
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for item in items {
        if let Some(name) = name(item) {
            let mut idents = Idents::default();
            idents.visit_item(item);
            needs.entry(name).or_default().extend(idents.0);
        }
    }
    let mut kept = BTreeSet::new();
    let roots = FUNCTIONS.iter().chain(TYPES).chain(ENUMS).chain(CONSTANTS);
    let mut next: Vec<String> = roots.map(ToString::to_string).collect();
    for item in items {
        if let Item::Const(constant) = item {
            let kind = constant.ty.to_token_stream().to_string();
            if ENUMS.contains(&kind.as_str()) {
                next.push(constant.ident.to_string());
            }
        }
    }
    while let Some(name) = next.pop() {
        if kept.insert(name.clone()) {
            next.extend(needs.get(&name).into_iter().flatten().cloned());
        }
    }
    kept
}

#[derive(Default)]
struct Idents(BTreeSet<String>);

impl Visit<'_> for Idents {
    fn visit_ident(&mut self, ident: &proc_macro2::Ident) {
        self.0.insert(ident.to_string());
    }

    /// An implementation needs its type, and does not make others needed.
    fn visit_item_impl(&mut self, _: &syn::ItemImpl) {}
}

fn name(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) if item.ident != "_" => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        Item::Impl(item) => item.self_ty.to_token_stream().to_string(),
        _ => return None,
    })
}

/// The type whose layout bindgen's `const _` block asserts.
fn asserted(item: &Item) -> Option<String> {
    let text = item.to_token_stream().to_string();
    let (_, rest) = text.split_once("\"Size of ")?;
    Some(rest.split('"').next()?.to_string())
}

/// bindgen's block of assertions as one call of the macro in [`HEAD`].
fn short_assertion(name: &str, item: &Item) -> Result<Item> {
    let text = item.to_token_stream().to_string();
    let mut numbers = Vec::new();
    let mut fields = Vec::new();
    for line in text.split(';').filter(|line| line.contains("usize")) {
        let number = line.rsplit('-').next().and_then(|end| end.trim().split("usize").next());
        let number: proc_macro2::Literal = number.ok_or("no number")?.parse()?;
        match line.split_once(&format!("{name}::")) {
            Some((_, rest)) => {
                let field = format_ident!("{}", rest.split('"').next().ok_or("no field")?);
                fields.push(quote! { (#field, #number) });
            }
            None => numbers.push(number),
        }
    }
    let ident = format_ident!("{name}");
    Ok(syn::parse2(quote! { layout!(#ident, #(#numbers),*, [#(#fields),*]); })?)
}

/// The type of a call made by [`short_assertion`].
fn laid_out(item: &Item) -> Option<String> {
    let Item::Macro(call) = item else { return None };
    call.mac.tokens.clone().into_iter().next().map(|ident| ident.to_string())
}

/// One file for both architectures.
fn merge(x86_64: Vec<Item>, aarch64: Vec<Item>) -> Result<Vec<Item>> {
    if x86_64.len() != aarch64.len() {
        return Err("the architectures differ in what they declare".into());
    }
    let mut merged = Vec::new();
    for (x86_64, aarch64) in x86_64.into_iter().zip(aarch64) {
        if x86_64 == aarch64 {
            merged.push(x86_64);
        } else if laid_out(&x86_64).is_some() && laid_out(&x86_64) == laid_out(&aarch64) {
            merged.push(syn::parse2(quote! { #[cfg(target_arch = "x86_64")] #x86_64 })?);
            merged.push(syn::parse2(quote! { #[cfg(target_arch = "aarch64")] #aarch64 })?);
        } else {
            let text = x86_64.to_token_stream();
            return Err(format!("the architectures differ in {text}").into());
        }
    }
    Ok(merged)
}

fn head(vendored: &Path, licence: &str) -> Result<String> {
    let mut holders = Vec::new();
    for header in HEADERS {
        let text = std::fs::read_to_string(vendored.join(header))?;
        let lines = text.lines().filter(|line| line.starts_with(" * Copyright"));
        holders.extend(lines.map(|line| line.trim_start_matches(" * ").to_string()));
    }
    holders.sort();
    holders.dedup();
    let holders = holders.iter().map(String::as_str);
    let notice = holders.chain([""]).chain(licence.trim().lines()).map(|line| format!("// {line}"));
    let notice: Vec<_> = notice.map(|line| line.trim_end().to_string()).collect();
    Ok(HEAD.replace("{notice}", &notice.join("\n")))
}

const HEAD: &str = r#"//! Bindings to libibverbs, generated from the public headers of rdma-core 55.0; not edited by hand.
//!
//! `tests/interop/src/bin/generate-ffi.rs` writes this file. Values that a driver may choose are
//! constants, functions are the types of their pointers, and layouts are asserted at compile time.

// The headers are rdma-core's, used under its BSD licence (also in LICENSE-rdma-core):
//
{notice}

#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    reason = "generated; names and documentation are rdma-core's"
)]

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use libc::{pthread_cond_t, pthread_mutex_t};

/// Asserts size, alignment and offsets of a structure, in bytes.
macro_rules! layout {
    ($name:ident, $size:literal, $align:literal, [$(($field:ident, $offset:literal)),*]) => {
        const _: () = {
            assert!(size_of::<$name>() == $size);
            assert!(align_of::<$name>() == $align);
            $(assert!(core::mem::offset_of!($name, $field) == $offset);)*
        };
    };
}

"#;
