//! Native ibverbs binding, loaded at run time; the only home of `unsafe` for RDMA.
//!
//! One file per verbs object. Objects keep their parents alive (context ← protection domain ←
//! memory region, queue pair; context ← completion channel ← completion queue ← queue pair), so
//! they can be dropped in any order; a Drop that fails says so on stderr and goes on.

pub mod ah;
pub mod cq;
pub mod device;
pub mod error;
mod extended;
pub mod ffi;
mod gid;
pub mod library;
pub mod mr;
pub mod pd;
pub mod qp;
pub mod quirks;
pub mod rc;
pub mod srq;
