//! NVIDIA GPUs as their management library (NVML) tells them; loaded when it is there, never needed.

use std::sync::mpsc;
use std::time::Duration;

use fabbench_harness::snapshot::{NvmlFacts, NvmlGpu};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

/// A driver in trouble may answer never; starting the library on eight idle GPUs takes 2 s.
const DEADLINE: Duration = Duration::from_secs(8);

/// What `libnvidia-ml.so.1` says; none on a host without it.
pub fn facts() -> Option<NvmlFacts> {
    let (send, receive) = mpsc::sync_channel(1);
    let ask = move || {
        let _ = send.send(ask());
    };
    std::thread::Builder::new().name("nvml".into()).spawn(ask).ok()?;
    receive.recv_timeout(DEADLINE).unwrap_or_else(|_| {
        let problem = format!("no answer within {} s", DEADLINE.as_secs());
        Some(NvmlFacts { problem: Some(problem), ..NvmlFacts::default() })
    })
}

fn ask() -> Option<NvmlFacts> {
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(NvmlError::LibloadingError(_)) => return None,
        Err(error) => return Some(failed(&error)),
    };
    let count = match nvml.device_count() {
        Ok(count) => count,
        Err(error) => return Some(failed(&error)),
    };
    let gpus = (0..count).filter_map(|index| gpu(&nvml.device_by_index(index).ok()?));
    Some(NvmlFacts { driver: nvml.sys_driver_version().ok(), problem: None, gpus: gpus.collect() })
}

fn failed(error: &NvmlError) -> NvmlFacts {
    NvmlFacts { problem: Some(error.to_string()), ..NvmlFacts::default() }
}

/// A GPU; none without its address, by which it is found again.
fn gpu(device: &Device) -> Option<NvmlGpu> {
    Some(NvmlGpu {
        pci: device.pci_info().ok()?.bus_id,
        uuid: device.uuid().ok(),
        name: device.name().ok(),
        link_generation: device.current_pcie_link_gen().ok(),
        link_width: device.current_pcie_link_width().ok(),
        max_link_generation: device.max_pcie_link_gen().ok(),
        max_link_width: device.max_pcie_link_width().ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_the_library_is_no_error() {
        match facts() {
            None => {}
            Some(facts) => assert!(facts.problem.is_some() || facts.driver.is_some(), "{facts:?}"),
        }
    }
}
