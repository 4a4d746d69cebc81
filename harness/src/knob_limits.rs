//! What was asked for against what the devices say of themselves, before anything runs.

use crate::plan::Tuning;
use crate::snapshot::{VerbsDevice, VerbsPort};

/// Knobs as typed; none where nothing was, which fabbench then fits to the device by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Queue pairs.
    pub qps: u32,
    /// Threads.
    pub threads: u32,
    /// Sends outstanding per QP.
    pub tx_depth: Option<u32>,
    /// Receives posted per QP.
    pub rx_depth: Option<u32>,
    /// Path MTU in bytes.
    pub mtu: Option<u32>,
    /// UDP source ports were asked for.
    pub udp_sport: bool,
    /// Extended reliable connections were asked for.
    pub xrc: bool,
    /// The rest.
    pub tuning: Tuning,
}

/// One end of a rail as its device sees itself.
#[derive(Debug, Clone, Copy)]
pub struct LimitedEnd<'a> {
    /// `host/dev:port`.
    pub label: &'a str,
    /// Device.
    pub device: &'a VerbsDevice,
    /// Port.
    pub port: &'a VerbsPort,
    /// A software device.
    pub soft: bool,
    /// Packets carry a global route header.
    pub grh: bool,
    /// Packets travel in UDP (RoCE v2).
    pub udp: bool,
}

/// Refuses what an end of the rail cannot do, with the limit by its name.
///
/// # Errors
/// A sentence: flag, value, limit, object.
pub fn check(asked: &Asked, ends: &[LimitedEnd]) -> Result<(), String> {
    ends.iter().try_for_each(|end| {
        if asked.xrc {
            return Err(no_xrc(end));
        }
        queues(asked, end)?;
        path(asked, end)
    })
}

/// `IBV_DEVICE_XRC` of `device_cap_flags`.
const XRC: u32 = 1 << 20;

/// Why there are no extended reliable connections: the device lacks them, or fabbench does.
fn no_xrc(end: &LimitedEnd) -> String {
    let on = end.label;
    match end.device.capabilities {
        Some(flags) if flags & XRC == 0 => format!(
            "--transport xrc: {on} offers no XRC (IBV_DEVICE_XRC is not in its device_cap_flags, \
             {flags:#010x}); use --transport rc, with --srq for shared receives"
        ),
        _ => format!(
            "--transport xrc: fabbench moves nothing over XRC, whatever {on} offers; use \
             --transport rc, with --srq for shared receives"
        ),
    }
}

/// A limit that is 0 was not told by the device.
fn at_most(flag: &str, wanted: u64, limit: &str, most: u64, on: &str) -> Result<(), String> {
    match most > 0 && wanted > most {
        true => Err(format!("{flag} {wanted}: {limit} {most} on {on}")),
        false => Ok(()),
    }
}

fn queues(asked: &Asked, end: &LimitedEnd) -> Result<(), String> {
    let (device, on) = (end.device, end.label);
    let limit = |flag: &str, wanted: u64, name: &str, most: u32| {
        at_most(flag, wanted, name, u64::from(most), on)
    };
    limit("--qps", asked.qps.into(), "max_qp", device.max_qp)?;
    let depths = [("--tx-depth", asked.tx_depth), ("--rx-depth", asked.rx_depth)];
    for (flag, depth) in depths {
        limit(flag, depth.unwrap_or(0).into(), "max_qp_wr", device.max_qp_wr)?;
    }
    let each = u64::from(asked.tx_depth.unwrap_or(0)) + u64::from(asked.rx_depth.unwrap_or(0));
    let lanes = u64::from(asked.qps.div_ceil(asked.threads.max(1)));
    if device.max_cqe > 0 && each * lanes > u64::from(device.max_cqe) {
        let typed = depths.iter().filter_map(|(flag, depth)| Some(format!("{flag} {}", (*depth)?)));
        return Err(format!(
            "--qps {} with {}: {} completions of a thread's {lanes} QPs, max_cqe {} on {on}",
            asked.qps,
            typed.collect::<Vec<_>>().join(" and "),
            each * lanes,
            device.max_cqe
        ));
    }
    if asked.tuning.srq {
        shared_receives(asked, end)?;
    }
    let reads = asked.tuning.outstanding_reads.unwrap_or(0).into();
    limit("--outstanding-reads", reads, "max_qp_init_rd_atom", device.max_qp_init_rd_atom)?;
    limit("--outstanding-reads", reads, "max_qp_rd_atom", device.max_qp_rd_atom)
}

/// Fewest receives of a shared queue for each QP that takes from it.
pub const SHARED_RECEIVES: u32 = 64;

/// Each thread has a shared receive queue for its QPs.
fn shared_receives(asked: &Asked, end: &LimitedEnd) -> Result<(), String> {
    let on = end.label;
    let queues = asked.threads.max(1);
    match end.device.max_srq {
        Some(0) => {
            return Err(format!(
                "--srq: max_srq 0 on {on}, it offers no shared receive queue; leave --srq away"
            ));
        }
        Some(most) if queues > most => {
            return Err(format!("--srq with --threads {queues}: max_srq {most} on {on}"));
        }
        _ => {}
    }
    let lanes = u64::from(asked.qps.div_ceil(queues));
    let each = u64::from(asked.rx_depth.unwrap_or(0).max(SHARED_RECEIVES));
    match end.device.max_srq_wr.map(u64::from) {
        Some(most) if each * lanes > most => Err(format!(
            "--srq with --qps {} of {each} receives each: {} receives in a queue, max_srq_wr {most} \
             on {on}",
            asked.qps,
            each * lanes
        )),
        _ => Ok(()),
    }
}

fn path(asked: &Asked, end: &LimitedEnd) -> Result<(), String> {
    let on = end.label;
    let active = if end.port.active_mtu == 0 { 0 } else { 128_u64 << end.port.active_mtu };
    at_most("--mtu", asked.mtu.unwrap_or(0).into(), "active_mtu", active, on)?;
    if let Some(index) = asked.tuning.pkey_index {
        let entries = end.port.pkey_tbl_len;
        if entries > 0 && index >= entries {
            return Err(format!(
                "--pkey-index {index}: pkey_tbl_len {entries} on {on}, so 0 to {}",
                entries - 1
            ));
        }
    }
    if asked.tuning.flow_labels.is_empty() {
        return Ok(());
    }
    let flag = if asked.udp_sport { "--udp-sport" } else { "--flow-label" };
    if !end.grh {
        return Err(format!(
            "{flag}: packets of {on} go by LID, without the global route header that carries it"
        ));
    }
    if asked.udp_sport && !end.udp {
        return Err(format!("{flag}: packets of {on} are not in UDP; only RoCE v2 has a port"));
    }
    match end.soft {
        true => Err(format!(
            "{flag}: the driver of {on} takes the source port from each QP's number and ignores \
             flow labels; more --qps give more ports"
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> VerbsDevice {
        VerbsDevice {
            max_qp: 1000,
            max_qp_wr: 16_384,
            max_cqe: 32_767,
            max_qp_init_rd_atom: 16,
            max_qp_rd_atom: 8,
            max_srq: Some(2),
            max_srq_wr: Some(1024),
            ..VerbsDevice::default()
        }
    }

    fn asked() -> Asked {
        Asked { qps: 2, threads: 1, ..Asked::default() }
    }

    /// What is said of an end like this; none when all is well.
    fn said(asked: &Asked, change: impl Fn(&mut LimitedEnd, &mut VerbsPort)) -> Option<String> {
        let device = device();
        let mut port = VerbsPort { active_mtu: 3, pkey_tbl_len: 1, ..VerbsPort::default() };
        let copy = port.clone();
        let label = "a/mlx5_0:1";
        let mut end =
            LimitedEnd { label, device: &device, port: &copy, soft: false, grh: true, udp: true };
        change(&mut end, &mut port);
        check(asked, &[LimitedEnd { port: &port, ..end }]).err()
    }

    fn plain(asked: &Asked) -> Option<String> {
        said(asked, |_, _| ())
    }

    #[test]
    fn what_fits_is_let_through() {
        let tuning = Tuning {
            outstanding_reads: Some(8),
            pkey_index: Some(0),
            flow_labels: vec![1, 2],
            ..Tuning::default()
        };
        let depths = (Some(8192), Some(8191));
        let all =
            Asked { tx_depth: depths.0, rx_depth: depths.1, mtu: Some(1024), tuning, ..asked() };
        assert_eq!(plain(&all), None);
    }

    #[test]
    fn a_limit_is_named_with_its_value_and_its_device() {
        let over = |change: fn(&mut Asked)| {
            let mut one = asked();
            change(&mut one);
            plain(&one).unwrap()
        };
        assert_eq!(
            over(|a| a.tx_depth = Some(20_000)),
            "--tx-depth 20000: max_qp_wr 16384 on a/mlx5_0:1"
        );
        assert_eq!(over(|a| a.qps = 1001), "--qps 1001: max_qp 1000 on a/mlx5_0:1");
        assert_eq!(over(|a| a.mtu = Some(4096)), "--mtu 4096: active_mtu 1024 on a/mlx5_0:1");
        assert_eq!(
            over(|a| a.tuning.outstanding_reads = Some(9)),
            "--outstanding-reads 9: max_qp_rd_atom 8 on a/mlx5_0:1"
        );
        assert_eq!(
            over(|a| a.tuning.pkey_index = Some(1)),
            "--pkey-index 1: pkey_tbl_len 1 on a/mlx5_0:1, so 0 to 0"
        );
        let cqe = over(|a| (a.tx_depth, a.rx_depth) = (Some(16_000), Some(16_000)));
        assert!(cqe.contains("64000 completions") && cqe.contains("max_cqe 32767"), "{cqe}");
        assert!(cqe.starts_with("--qps 2 with --tx-depth 16000 and --rx-depth 16000: "), "{cqe}");
        let sends = over(|a| (a.qps, a.tx_depth) = (3, Some(16_000)));
        assert!(sends.starts_with("--qps 3 with --tx-depth 16000: 48000 completions"), "{sends}");
    }

    #[test]
    fn a_shared_receive_queue_has_limits_of_its_own() {
        let shared = Asked { tuning: Tuning { srq: true, ..Tuning::default() }, ..asked() };
        assert_eq!(plain(&shared), None);
        let with = |change: fn(&mut Asked)| {
            let mut one = shared.clone();
            change(&mut one);
            plain(&one)
        };
        assert_eq!(with(|a| a.rx_depth = Some(512)), None);
        assert_eq!(
            with(|a| a.rx_depth = Some(513)).unwrap(),
            "--srq with --qps 2 of 513 receives each: 1026 receives in a queue, max_srq_wr 1024 on \
             a/mlx5_0:1"
        );
        assert!(with(|a| a.qps = 17).unwrap().contains("1088 receives in a queue"));
        assert_eq!(with(|a| (a.qps, a.threads) = (17, 2)), None, "a queue for each thread");
        assert_eq!(
            with(|a| (a.qps, a.threads) = (3, 3)).unwrap(),
            "--srq with --threads 3: max_srq 2 on a/mlx5_0:1"
        );
        let (port, lacking) =
            (VerbsPort::default(), VerbsDevice { max_srq: Some(0), ..VerbsDevice::default() });
        let (label, device) = ("a/rxe0:1", &lacking);
        let end = LimitedEnd { label, device, port: &port, soft: true, grh: true, udp: true };
        let text = check(&shared, &[end]).unwrap_err();
        assert!(text.starts_with("--srq: max_srq 0 on a/rxe0:1, it offers no shared"), "{text}");
    }

    #[test]
    fn extended_connections_are_refused_with_who_lacks_them() {
        let asked = Asked { xrc: true, ..asked() };
        let with = |flags| {
            let device = VerbsDevice { capabilities: flags, ..device() };
            let port = VerbsPort::default();
            let (label, device) = ("a/rxe0:1", &device);
            let end = LimitedEnd { label, device, port: &port, soft: true, grh: true, udp: true };
            check(&asked, &[end]).unwrap_err()
        };
        let lacking = with(Some(0x0022_3c76));
        assert!(lacking.contains("not in its device_cap_flags, 0x00223c76"), "{lacking}");
        assert!(lacking.starts_with("--transport xrc: a/rxe0:1 offers no XRC"), "{lacking}");
        assert!(lacking.ends_with("use --transport rc, with --srq for shared receives"));
        for flags in [None, Some(1 << 20)] {
            assert!(with(flags).contains("fabbench moves nothing over XRC"));
        }
    }

    #[test]
    fn a_source_port_needs_a_header_that_carries_it_and_a_driver_that_takes_it() {
        let tuning = Tuning { flow_labels: vec![7], ..Tuning::default() };
        let labelled = Asked { tuning, ..asked() };
        let ported = Asked { udp_sport: true, ..labelled.clone() };
        assert!(said(&labelled, |end, _| end.grh = false).unwrap().contains("go by LID"));
        assert_eq!(said(&labelled, |end, _| end.udp = false), None);
        assert!(said(&ported, |end, _| end.udp = false).unwrap().contains("only RoCE v2"));
        let soft = said(&ported, |end, _| end.soft = true).unwrap();
        assert!(soft.starts_with("--udp-sport: the driver of a/mlx5_0:1 takes"), "{soft}");
    }

    #[test]
    fn a_limit_that_no_device_told_limits_nothing() {
        let (device, port) = (VerbsDevice::default(), VerbsPort::default());
        let end = LimitedEnd {
            label: "x",
            device: &device,
            port: &port,
            soft: false,
            grh: true,
            udp: true,
        };
        let much = Asked { tx_depth: Some(32_768), mtu: Some(4096), qps: 1024, ..asked() };
        assert_eq!(check(&much, &[end]), Ok(()));
    }
}
