//! Native ibverbs binding, loaded at run time; the only home of `unsafe` for RDMA.

pub mod ffi;
