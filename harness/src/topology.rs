//! Does every HCA share a PCIe switch with the GPUs it serves?
//!
//! [`read`] turns any capture into one [`model::Topology`]; [`judge`] tells the class of every
//! GPU–HCA path, pairs GPUs with HCAs fairly and gives verdicts. Nothing here opens a file.

mod assign;
pub mod bdf;
pub mod capture;
pub mod changes;
pub mod devices;
pub mod distance;
pub mod expect;
mod findings;
mod import;
mod judge;
pub mod model;
pub mod nvml;
pub mod report;
mod scene;
pub mod stand_in;
pub mod view;
pub mod visible;

pub use import::sysfs::{config_text, read as read_snapshot};
pub use import::{INPUT_LIMIT, ImportError, read};
pub use judge::{Assessment, GpuVerdict, Rules, judge};
pub use scene::{Adapter, GpuView, Scene};
