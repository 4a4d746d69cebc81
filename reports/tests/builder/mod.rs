//! Reports with made-up figures, put together from few words.

use std::collections::BTreeMap;

use fabbench_reports::comparison::{
    Became, COMPARISON_SCHEMA, Change, Comparison, Figure, Run, Unit,
};
use fabbench_reports::model::{
    Ceiling, CeilingTerm, Check, Collective, CollectiveFit, Device, Diagnosis, FitPiece, Gid, Host,
    HostTopology, Latency, Matrix, Measurement, Memory, Method, Named, NotMeasured, PairBandwidth,
    Path, Port, Rail, RankTime, RankWait, Rate, Repeat, Report, SCHEMA, Status, Tool, Verdict,
};
use fabbench_reports::trend::{Line, Step, TREND_SCHEMA, Trend};

const VERSION: &str = "0.1.0 (3f2a91c04d17)";

/// `fabbench pair` of two Soft-RoCE hosts, all well.
pub fn soft_roce_pair() -> Report {
    let hosts = vec![soft_host("node-a", 1), soft_host("node-b", 2)];
    let mut report = pair(hosts, Status::Pass, Status::Pass, Status::Unjudged);
    report.simulated = true;
    report.rails = soft_rails();
    report.checks = vec![
        check("port-state", "node-a", "node-a/rxe0:1", Status::Pass, "ACTIVE"),
        check("port-state", "node-b", "node-b/rxe0:1", Status::Pass, "ACTIVE"),
        check("mtu", "node-b", "node-b/rxe1:1", Status::Pass, "4096 B at both ends"),
        check("memlock", "node-a", "limit", Status::Pass, "unlimited"),
    ];
    let net = Net { rails: &report.rails, gid_type: "RoCE v2", mtu: 4096 };
    let mut all = Vec::new();
    for rail in 0..2 {
        for op in ["send", "write", "read"] {
            all.extend([net.integrity(rail, op, false), net.integrity(rail, op, true)]);
        }
    }
    for rail in 0..2 {
        let shift = rail as f64 * 9e3;
        all.push(net.latency(rail, "write", 553.2e3 + shift));
        all.push(net.latency(rail, "send", 561.7e3 + shift));
        all.push(net.latency(rail, "read", 1_104.0e3 + shift));
    }
    for rail in 0..2 {
        all.push(net.bandwidth(rail, false, 431.2e6));
        all.push(net.bandwidth(rail, true, 425.8e6));
        all.extend(at_once(vec![
            both(net.bandwidth(rail, false, 228.0e6)),
            both(net.bandwidth(rail, true, 224.5e6)),
        ]));
    }
    all.extend(at_once(vec![
        named(net.bandwidth(0, false, 219.4e6), "together"),
        named(net.bandwidth(1, false, 215.9e6), "together"),
    ]));
    for rail in 0..2 {
        all.push(net.tcp_latency(rail, 402.5e3));
        all.push(net.tcp_stream(rail, false, 1.214e9));
    }
    grow(&mut all, "sent_pkts", 118_204);
    grow(&mut all, "rcvd_pkts", 117_950);
    report.measurements = all;
    report.not_measured = vec![
        missing("message rate", "suite quick leaves it out: --suite standard", false),
        missing("topology and GPUDirect", "this version does not look at it", false),
    ];
    report.verdict.reasons =
        vec!["every byte right on 2 rails in both directions, no error counter grew".into()];
    report.verdict.next =
        vec!["fabbench pair node-a node-b --suite standard for the acceptance run".into()];
    report
}

/// `fabbench pair local local` on a machine without RDMA.
pub fn tcp_only() -> Report {
    let why = "this kernel has no RDMA support (/sys/class/infiniband does not exist)";
    let host = |name: &str| Host { rdma_core: why.into(), devices: vec![], ..host(name) };
    let hosts = vec![host("local"), host("local-2")];
    let mut report = pair(hosts, Status::Incomplete, Status::Incomplete, Status::Unjudged);
    let remedy = "load ib_uverbs and the driver of the adapter, or ask for TCP alone with \
                  --transport tcp";
    report.checks = ["local", "local-2"]
        .map(|host| Check {
            wanted: "at least one".into(),
            remedy: remedy.into(),
            ..check("rdma-device", host, "", Status::Unknown, why)
        })
        .to_vec();
    let net = Net { rails: &[], gid_type: "TCP", mtu: 65_535 };
    report.measurements = vec![
        net.tcp_latency(0, 14.21e3),
        net.tcp_stream(0, false, 41.36e9),
        net.tcp_stream(0, true, 40.92e9),
    ];
    report.not_measured = vec![missing("RDMA", &format!("{why}: {remedy}"), true)];
    report.verdict.reasons = vec![format!("local, local-2: {why}")];
    report.verdict.next = vec![remedy.into()];
    report
}

/// The hosts of the ranks.
const RANKS: [&str; 3] = ["node-a", "node-b", "node-c"];

/// `fabbench allreduce` on three machines, a flipped bit at the largest size.
pub fn collective() -> Report {
    let hosts = RANKS.map(host).to_vec();
    let mut report = pair(hosts, Status::Fail, Status::Fail, Status::Unjudged);
    report.command[1] = "allreduce".into();
    report.suite = Named { name: "allreduce".into(), hash: String::new() };
    let sizes = [(8, 61.3e3), (65_536, 402.0e3), (1 << 20, 1.93e6)];
    let places = |(size, ns): (u64, f64)| [reduced(size, false, ns), reduced(size, true, ns * 0.9)];
    report.measurements = sizes.into_iter().flat_map(places).collect();
    report.fits = fits();
    let wrong = "1 of 1572864 elements; first: rank 2, index 174763 (step 2 from rank 1): got \
                 8192, want 24576";
    if let Some(last) = report.measurements.last_mut() {
        last.elements_wrong = Some(1);
        last.data_errors = wrong.into();
        last.status = Some(Status::Fail);
        last.reason = format!("wrong data: {wrong}");
    }
    report.verdict.reasons = vec![format!("wrong data: {wrong}")];
    report.verdict.next = vec!["test the memory of node-b and node-c, then repeat".into()];
    report
}

/// An all-reduce of `size` bytes among three ranks, in `avg` ns.
fn reduced(size: u64, in_place: bool, avg: f64) -> Measurement {
    let algbw = size as f64 * 8e9 / avg;
    let place = if in_place { "in-place" } else { "out-of-place" };
    Measurement {
        id: format!("collective/tcp/all_reduce/ring/f32/sum/n3/{size}/{place}"),
        test: "collective".into(),
        transport: "tcp".into(),
        op: "all_reduce".into(),
        algorithm: "ring".into(),
        ranks: RANKS.map(str::to_owned).to_vec(),
        initiator: "node-a/eth0".into(),
        responder: "node-c/eth0".into(),
        data_from: "node-a/eth0".into(),
        data_to: "node-c/eth0".into(),
        size_bytes: size,
        method: Method {
            requested: BTreeMap::from([("warmup_iterations".to_owned(), 5.into())]),
            ..Method::default()
        },
        bytes_verified: 3 * size,
        elements_wrong: Some(0),
        algbw_bps: Some(algbw),
        busbw_bps: Some(algbw * 4.0 / 3.0),
        collective: Some(Collective {
            data_type: "f32".into(),
            reduction: "sum".into(),
            reduced: true,
            in_place,
            iterations: 20,
            time_ns: RankTime { min: avg * 0.98, avg, max: avg * 1.03, p99: Some(avg * 1.4) },
            messages_sent: vec![4; 3],
            bytes_sent: vec![4 * size / 3; 3],
            reduce_share: Some(0.07),
            waits: vec![RankWait {
                rank: 1,
                waits_for: 0,
                ns: avg * 0.3,
                sender_blocked_ns: Some(avg * 0.02),
            }],
            steps: Some(4),
            pair: Some(PairBandwidth {
                from: "node-c".into(),
                to: "node-b".into(),
                bps: 8.9e9,
                both_directions: true,
                busbw_share: algbw * 4.0 / 3.0 / 8.9e9,
            }),
        }),
        status: Some(Status::Unjudged),
        ..Measurement::default()
    }
}

/// What lines over the sizes say: one that fits, one that was refused.
fn fits() -> Vec<CollectiveFit> {
    let fit = CollectiveFit {
        op: "all_reduce".into(),
        algorithm: "ring".into(),
        transport: "tcp".into(),
        data_type: "f32".into(),
        reduction: "sum".into(),
        reduced: true,
        ranks: 3,
        steps: Some(4),
        wire_factor: 4.0 / 3.0,
        ..CollectiveFit::default()
    };
    let piece = |from, to, points, fixed_ns, ns_per_byte| FitPiece {
        from_bytes: from,
        to_bytes: to,
        points,
        fixed_ns,
        ns_per_byte,
        residual: 0.031,
    };
    vec![
        CollectiveFit {
            alpha_ns: Some(14.6e3),
            wire_ns_per_byte: Some(1.12),
            reduce_ns_per_byte: Some(0.11),
            reduce_from: "time that the ranks spent reducing".into(),
            pieces: vec![
                piece(8, 16_384, 12, 58.4e3, 5.3),
                piece(32_768, 1 << 20, 12, 151.0e3, 1.57),
            ],
            residual: Some(0.031),
            worst_residual: Some(0.094),
            ..fit.clone()
        },
        CollectiveFit {
            algorithm: "rhd".into(),
            refused: "too few sizes, 3 of at least 5: sweep more (-b, -e, -f)".into(),
            ..fit
        },
    ]
}

/// Wrong bytes on rail0, a peer that stopped answering on rail1.
pub fn failing() -> Report {
    let mut report = soft_roce_pair();
    report.complete = false;
    report.measurements.retain(|m| m.path.rail == "rail0" && m.transport != "tcp");
    report.measurements.retain(|m| m.together_with.is_empty());
    let wrong = report.measurements.iter_mut().find(|m| m.op == "write").expect("a WRITE case");
    wrong.bytes_wrong = 4096;
    wrong.messages_lost = 1;
    wrong.status = Some(Status::Fail);
    wrong.reason = "4096 B of 1 MiB differ".into();
    wrong.data_errors =
        "message 17 of QP 0 holds the bytes of message 16 (offset 0 to 4095)".into();
    let lossy = report.measurements.iter_mut().find(|m| m.test == "bandwidth").expect("one");
    lossy.status = Some(Status::Warn);
    lossy.reason = "requests were sent again 41 times".into();
    lossy.repeats[1].messages_received -= 3;
    lossy.counters.insert("node-a/rxe0:1/completer_retry_err".into(), 41);
    lossy.counters.insert("node-a/rxe1:1/retry_exceeded_err".into(), 1);
    report.hosts[1].devices[1].ports[0].state = "DOWN".into();
    report.rails[1].proved = false;
    let remedy = "check the cable, then `ip link set eth2 up` on node-b (needs root)";
    report.checks[2] = Check {
        wanted: "ACTIVE".into(),
        remedy: remedy.into(),
        ..check("port-state", "node-b", "node-b/rxe1:1", Status::Fail, "DOWN")
    };
    let why = "bandwidth 64 KiB WRITE: node-b/rxe1:1 stopped answering (RETRY_EXC_ERR on \
               node-a/rxe1:1)";
    report.not_measured.insert(0, missing("rail1", why, true));
    report.diagnosis = vec![Diagnosis {
        cause: "the link of node-b/rxe1:1 is down".into(),
        object: "node-b/rxe1:1".into(),
        confidence: "high".into(),
        evidence: vec!["port state DOWN after the run".into(), "retry_exceeded_err +1".into()],
        remedy: remedy.into(),
    }];
    report.verdict = Verdict {
        status: Status::Fail,
        function: Status::Fail,
        performance: Status::Unjudged,
        reasons: vec!["rail0 WRITE A→B: 4096 B of 1 MiB differ".into(), format!("rail1: {why}")],
        next: vec![remedy.into(), "then fabbench pair node-a node-b again".into()],
    };
    report
}

/// Two rails of real adapters: measured, and no ceiling to judge by.
pub fn hardware_unjudged() -> Report {
    let hosts = vec![hardware_host("gpu01"), hardware_host("gpu02")];
    let mut report = pair(hosts, Status::Pass, Status::Pass, Status::Unjudged);
    report.rails = (0..2)
        .map(|n| Rail {
            name: format!("rail{n}"),
            a: format!("gpu01/mlx5_{n}:1"),
            b: format!("gpu02/mlx5_{n}:1"),
            why: "same rate and link layer, same place in PCI order".into(),
            proved: true,
        })
        .collect();
    report.checks = vec![check("memlock", "gpu02", "limit", Status::Pass, "unlimited")];
    let net = Net { rails: &report.rails, gid_type: "IB LID", mtu: 4096 };
    let mut all = Vec::new();
    for rail in 0..2 {
        all.push(net.integrity(rail, "write", false));
        all.push(net.latency(rail, "write", 1.92e3));
        all.push(net.latency(rail, "read", 3.71e3));
        all.push(net.bandwidth(rail, false, 392.1e9));
        all.push(net.bandwidth(rail, true, 391.8e9));
    }
    all.push(Measurement {
        test: "message_rate".into(),
        size_bytes: 8,
        messages_per_s: Some(rate(197.3e6, 0.01)),
        goodput_bps: None,
        qp_messages_per_s: vec![99.6e6, 97.7e6],
        fairness: Some(97.7 / 99.6),
        ..net.bandwidth(0, false, 12.6e9)
    });
    all.push(net.tcp_stream(0, false, 92.4e9));
    report.measurements = all;
    report.verdict.reasons = vec!["every byte right on 2 rails".into()];
    report
}

/// The same with the ceilings of 4x NDR behind PCIe Gen5 x16.
pub fn ndr_pair() -> Report {
    let mut report = hardware_unjudged();
    let pcie = (460.9e9, "PCIe Gen5 x16, 504.1 Gb/s raw, payload 256 B");
    for m in report.measurements.iter_mut().filter(|m| m.test == "bandwidth") {
        limit(m, (397.4e9, "4x NDR, 400.0 Gb/s"), pcie);
    }
    report
}

/// Two rails of HDR, of which the second came up with two lanes of four on gpu02.
pub fn hdr_half_width() -> Report {
    let mut report = hardware_unjudged();
    for host in &mut report.hosts {
        for (number, device) in host.devices.iter_mut().enumerate() {
            device.firmware = "20.39.3560".into();
            device.board = "MT_0000000223".into();
            let half = number == 1;
            let port = &mut device.ports[0];
            port.speed = "HDR".into();
            port.width = if half { "2x" } else { "4x" }.into();
            port.rate_bps = Some(if half { 100_000_000_000 } else { 200_000_000_000 });
        }
    }
    let net = Net { rails: &report.rails, gid_type: "IB LID", mtu: 4096 };
    let mut all = Vec::new();
    for (rail, bps) in [(0, 196.6e9), (1, 97.9e9)] {
        all.extend([net.integrity(rail, "write", false), net.integrity(rail, "write", true)]);
        all.push(net.latency(rail, "write", 1.02e3));
        all.push(net.bandwidth(rail, false, bps));
        all.push(net.bandwidth(rail, true, bps * 1.001));
    }
    all.push(net.tcp_latency(0, 11.4e3));
    all.push(net.tcp_stream(0, false, 37.2e9));
    let pcie = (230.5e9, "PCIe Gen4 x16, 252.1 Gb/s raw, payload 256 B");
    for m in all.iter_mut().filter(|m| m.test == "bandwidth") {
        let rail1 = m.path.rail == "rail1";
        let link =
            if rail1 { (99.3e9, "2x HDR, 100.0 Gb/s") } else { (198.7e9, "4x HDR, 200.0 Gb/s") };
        limit(m, link, pcie);
    }
    report.measurements = all;
    report.checks.push(Check {
        wanted: "4x".into(),
        remedy: "reseat or replace the cable at gpu02/mlx5_1:1, then look at the switch's end"
            .into(),
        ..check("link-width", "gpu02", "gpu02/mlx5_1:1", Status::Fail, "2x of 4x")
    });
    report
}

/// Three runs before new firmware, one after.
pub fn comparison() -> Comparison {
    let run = |source: &str| Run {
        source: source.into(),
        started: "2025-03-01T09:00:00Z".into(),
        hosts: vec!["gpu01".into(), "gpu02".into()],
        fabbench: VERSION.into(),
    };
    let figure = |rail: u32, ratio: f64, became, status| Figure {
        case: format!("bandwidth 64 KiB RC write rail{rail} gpu01→gpu02"),
        figure: "goodput".into(),
        unit: Unit::BitPerSecond,
        before: Some(391e9),
        after: Some(391e9 * ratio),
        ratio: Some(ratio),
        interval: Some([ratio * 0.98, ratio * 1.02]),
        became,
        status,
        why: String::new(),
    };
    let gone = Figure {
        after: None,
        ratio: None,
        interval: None,
        ..figure(3, 1.0, Became::Gone, Status::Warn)
    };
    Comparison {
        schema: COMPARISON_SCHEMA.into(),
        before: vec![run("before/1.json"), run("before/2.json"), run("before/3.json")],
        after: vec![run("after.json")],
        firm: true,
        basis: vec!["3 runs before, 1 run after; figures made up".into()],
        figures: vec![
            figure(0, 0.91, Became::Worse, Status::Fail),
            figure(1, 1.06, Became::Better, Status::Pass),
            figure(2, 1.004, Became::Same, Status::Pass),
            gone,
        ],
        changes: vec![Change {
            object: "gpu02/mlx5_0".into(),
            what: "firmware".into(),
            before: "28.39.1002".into(),
            after: "28.41.1000".into(),
        }],
        status: Status::Fail,
    }
}

/// Five runs, the last with new firmware; figures made up.
pub fn trend() -> Trend {
    let comparison = comparison();
    let run = |n: usize| Run {
        source: format!("runs/{n}.json"),
        started: format!("2025-03-0{n}T09:00:00Z"),
        ..comparison.after[0].clone()
    };
    let line = |rail: usize, values: Vec<Option<f64>>, ratio, became, status| Line {
        case: comparison.figures[rail].case.clone(),
        figure: "goodput".into(),
        unit: Unit::BitPerSecond,
        values,
        last_ratio: Some(ratio),
        last_became: Some(became),
        last_status: Some(status),
    };
    let gigabits = |all: [f64; 5]| all.map(|gbps| Some(gbps * 1e9)).to_vec();
    let mut gap = gigabits([391.0, 390.0, 392.0, 391.0, 391.0]);
    gap[2] = None;
    Trend {
        schema: TREND_SCHEMA.into(),
        runs: (1..=5).map(run).collect(),
        lines: vec![
            line(
                0,
                gigabits([391.0, 392.0, 390.0, 391.0, 356.0]),
                0.91,
                Became::Worse,
                Status::Fail,
            ),
            line(1, gap, 1.0, Became::Same, Status::Pass),
        ],
        steps: vec![Step { run: 4, changes: comparison.changes.clone() }],
    }
}

/// A rate between every two hosts, one of which sends badly.
pub fn matrix(size: usize) -> Matrix {
    let value = |from: usize, to: usize| {
        let noise = ((from * 31 + to * 17) % 97) as f64 / 97.0 * 0.04;
        (from != to).then_some(390e9 * (1.0 - noise) * if from == 1 { 0.5 } else { 1.0 })
    };
    Matrix {
        title: "bandwidth 64 KiB WRITE".into(),
        unit: "bit/s".into(),
        hosts: (0..size).map(|host| format!("gpu{host:04}")).collect(),
        values: (0..size).map(|from| (0..size).map(|to| value(from, to)).collect()).collect(),
    }
}

/// A host with a GPU far from its HCA, and a tree in which one parent is nonsense.
pub fn topology() -> HostTopology {
    let topology = serde_json::json!({
        "host": "node-a", "source": "/sys (root: no)", "status": "warn", "reasons": ["far"],
        "gpu_memory": "not measured",
        "gpus": [{"name": "GPU0", "pci": "0000:1b:00.0", "hcas": ["rxe0"], "path": "NODE",
                  "status": "warn", "reason": "other root complex", "nccl": "uses host memory"}],
        "graph": {"nodes": [
            {"parent": null, "kind": "root complex", "pci": null, "name": "", "numa_node": 0, "link": ""},
            {"parent": 0, "kind": "switch", "pci": "0000:1a:00.0", "name": "", "numa_node": 0, "link": "Gen5 x16"},
            {"parent": 1, "kind": "gpu", "pci": "0000:1b:00.0", "name": "GPU0", "numa_node": 0, "link": "Gen5 x16"},
            {"parent": 9, "kind": "hca", "pci": "0000:1c:00.0", "name": "rxe0", "numa_node": 0, "link": ""}]},
        "findings": [{"id": "acs", "object": "0000:1a:00.0", "status": "warn", "found": "ACS on",
                      "remedy": "turn it off"}]
    });
    serde_json::from_value(topology).unwrap()
}

/// The wiring that cases run over.
struct Net<'a> {
    rails: &'a [Rail],
    gid_type: &'a str,
    mtu: u32,
}

impl Net<'_> {
    fn integrity(&self, rail: usize, op: &str, back: bool) -> Measurement {
        Measurement {
            bytes_verified: 1 << 20,
            status: Some(Status::Pass),
            repeats: vec![],
            ..self.case("integrity", "rc", op, 65_536, rail, back)
        }
    }

    fn latency(&self, rail: usize, op: &str, p50: f64) -> Measurement {
        let half = op != "read";
        let repeats = [0.99, 1.0, 1.02].map(|factor| Repeat {
            window_ns: 1_000_000_000,
            latency_ns: Some(latency(p50 * factor, 1_780)),
            ..Repeat::default()
        });
        Measurement {
            is_half_rtt: Some(half),
            latency_ns: Some(latency(p50, 5_340)),
            repeats: repeats.to_vec(),
            status: Some(Status::Unjudged),
            ..self.case("latency", "rc", op, 8, rail, false)
        }
    }

    fn bandwidth(&self, rail: usize, back: bool, bps: f64) -> Measurement {
        Measurement {
            goodput_bps: Some(rate(bps, 0.012)),
            repeats: streamed(bps, 65_536),
            status: Some(Status::Unjudged),
            ..self.case("bandwidth", "rc", "write", 65_536, rail, back)
        }
    }

    fn tcp_latency(&self, rail: usize, p50: f64) -> Measurement {
        let latency = self.latency(rail, "send", p50);
        Measurement { is_half_rtt: Some(true), ..self.as_tcp(latency, "request_response") }
    }

    fn tcp_stream(&self, rail: usize, back: bool, bps: f64) -> Measurement {
        let stream = Measurement {
            repeats: streamed(bps, 131_072),
            size_bytes: 131_072,
            ..self.bandwidth(rail, back, bps)
        };
        self.as_tcp(stream, "stream")
    }

    fn as_tcp(&self, m: Measurement, op: &str) -> Measurement {
        let id = m.id.replace("/rc/", "/tcp/");
        let path = Path { gid_type: "TCP".into(), ..m.path };
        Measurement { id, transport: "tcp".into(), op: op.into(), path, ..m }
    }

    fn case(
        &self,
        test: &str,
        transport: &str,
        op: &str,
        size: u64,
        rail: usize,
        back: bool,
    ) -> Measurement {
        let fallback = Rail { a: "local/lo".into(), b: "local-2/lo".into(), ..Rail::default() };
        let rail = self.rails.get(rail).unwrap_or(&fallback);
        let (from, to) = if back { (&rail.b, &rail.a) } else { (&rail.a, &rail.b) };
        let way = if back { "b-a" } else { "a-b" };
        // What is read flows against the requests.
        let (initiator, responder) = if op == "read" { (to, from) } else { (from, to) };
        Measurement {
            id: format!("{test}/{transport}/{op}/{size}/{}/{way}", rail.name),
            test: test.into(),
            transport: transport.into(),
            op: op.into(),
            initiator: initiator.clone(),
            responder: responder.clone(),
            data_from: from.clone(),
            data_to: to.clone(),
            size_bytes: size,
            method: method(),
            path: self.path(&rail.name),
            memory: Memory {
                kind: "host".into(),
                working_set_bytes: 4 << 20,
                exceeds_llc: Some(false),
                numa_node: None,
            },
            ..Measurement::default()
        }
    }

    fn path(&self, rail: &str) -> Path {
        let number = if rail == "rail1" { 1 } else { 0 };
        let gid = |host| match self.gid_type {
            "RoCE v2" => format!("1 ::ffff:10.77.{number}.{host}"),
            "IB LID" => format!("LID {}", host * 8 + number),
            _ => "127.0.0.1".to_owned(),
        };
        Path {
            rail: rail.into(),
            mtu: self.mtu,
            gid_a: gid(1),
            gid_b: gid(2),
            gid_type: self.gid_type.into(),
            why: match self.gid_type {
                "RoCE v2" => "RoCE v2 GIDs of one IPv4 subnet".into(),
                "IB LID" => "both ports in one InfiniBand subnet".into(),
                _ => "no rail: the route to the peer's address, on lo".into(),
            },
            ..Path::default()
        }
    }
}

fn pair(hosts: Vec<Host>, status: Status, function: Status, performance: Status) -> Report {
    let mut command = vec!["fabbench".to_owned(), "pair".to_owned()];
    command.extend(hosts.iter().map(|host| host.name.clone()));
    Report {
        schema: SCHEMA.into(),
        tool: Tool { version: "0.1.0".into(), commit: "3f2a91c04d17".into() },
        command,
        suite: Named { name: "quick".into(), hash: "5b1d7e0c92aa".into() },
        profile: Named { name: "auto".into(), hash: String::new() },
        profile_why: String::new(),
        started: "2025-03-01T09:00:00Z".into(),
        finished: "2025-03-01T09:01:12Z".into(),
        complete: true,
        simulated: false,
        synthetic: true,
        hosts,
        rails: vec![],
        checks: vec![],
        topology: vec![],
        measurements: vec![],
        matrices: vec![],
        fits: vec![],
        not_measured: vec![],
        diagnosis: vec![],
        verdict: Verdict { status, function, performance, reasons: vec![], next: vec![] },
    }
}

fn host(name: &str) -> Host {
    Host {
        name: name.into(),
        hostname: name.into(),
        kernel: "6.12.30-amd64".into(),
        arch: "x86_64".into(),
        os: "Debian GNU/Linux 12 (bookworm)".into(),
        cpu: "Intel Core i7 9xx (Nehalem)".into(),
        cpus: 1,
        rdma_core: "44.0".into(),
        limits: BTreeMap::from([("memlock_bytes".to_owned(), "unlimited".into())]),
        agent: VERSION.into(),
        devices: vec![],
    }
}

fn soft_host(name: &str, last: u32) -> Host {
    let device = |number: u32| Device {
        name: format!("rxe{number}"),
        driver: "rdma_rxe".into(),
        guid: format!("5054:00ff:fe00:{number}{last:03}"),
        soft: true,
        ports: vec![Port {
            port: 1,
            state: "ACTIVE".into(),
            link_layer: "Ethernet".into(),
            width: "1x".into(),
            speed: "SDR".into(),
            active_mtu: 4096,
            max_mtu: 4096,
            netdev: Some(format!("eth{}", number + 1)),
            netdev_mtu: Some(9000),
            gids: vec![Gid {
                index: 1,
                gid: format!("::ffff:10.77.{number}.{last}"),
                kind: "RoCE v2".into(),
                netdev: Some(format!("eth{}", number + 1)),
            }],
            ..Port::default()
        }],
        ..Device::default()
    };
    Host { devices: vec![device(0), device(1)], ..host(name) }
}

fn soft_rails() -> Vec<Rail> {
    let rail = |number| Rail {
        name: format!("rail{number}"),
        a: format!("node-a/rxe{number}:1"),
        b: format!("node-b/rxe{number}:1"),
        why: "same IPv4 subnet".into(),
        proved: true,
    };
    vec![rail(0), rail(1)]
}

fn hardware_host(name: &str) -> Host {
    let device = |number: u32| Device {
        name: format!("mlx5_{number}"),
        driver: "mlx5_core".into(),
        firmware: "28.39.1002".into(),
        board: "MT_0000000838".into(),
        guid: format!("a088:c203:00ab:{number:04x}"),
        pci: Some(format!("0000:{}b:00.0", number + 1)),
        numa_node: Some(number),
        ports: vec![Port {
            port: 1,
            state: "ACTIVE".into(),
            link_layer: "InfiniBand".into(),
            rate_bps: Some(400_000_000_000),
            width: "4x".into(),
            speed: "NDR".into(),
            active_mtu: 4096,
            max_mtu: 4096,
            lid: 8 + number as u16,
            gids: vec![Gid {
                gid: format!("fe80::a288:c203:ab:{number:x}"),
                kind: "IB".into(),
                ..Gid::default()
            }],
            ..Port::default()
        }],
        ..Device::default()
    };
    let cpu = "Intel(R) Xeon(R) Platinum 8480+".into();
    Host { devices: vec![device(0), device(1)], cpu, cpus: 112, ..host(name) }
}

fn check(id: &str, host: &str, object: &str, status: Status, found: &str) -> Check {
    Check {
        id: id.into(),
        host: host.into(),
        object: object.into(),
        status,
        found: found.into(),
        wanted: String::new(),
        remedy: String::new(),
    }
}

fn missing(what: &str, why: &str, asked: bool) -> NotMeasured {
    NotMeasured { what: what.into(), why: why.into(), asked }
}

fn method() -> Method {
    Method {
        qps: 2,
        threads: 1,
        tx_depth: 64,
        signal_every: 16,
        polling: "busy".into(),
        arrival: "immediate".into(),
        warmup_ns: 300_000_000,
        window_ns: 1_000_000_000,
        interval_ns: 100_000_000,
        clock_resolution_ns: 1,
        clock_cost_ns: 27.4,
        ..Method::default()
    }
}

fn latency(p50: f64, count: u64) -> Latency {
    Latency {
        count,
        min: p50 * 0.81,
        p50,
        p90: p50 * 1.22,
        p99: p50 * 1.94,
        p999: (count >= 1000).then_some(p50 * 4.4),
        p9999: None,
        max: p50 * 7.3,
        mean: p50 * 1.05,
        stdev: p50 * 0.3,
    }
}

fn rate(median: f64, spread: f64) -> Rate {
    let (min, max) = (median * (1.0 - spread * 0.6), median * (1.0 + spread * 0.4));
    Rate { median, min, max, spread, min_window: median * 0.94 }
}

fn streamed(bps: f64, size: u64) -> Vec<Repeat> {
    let repeat = |factor: f64| {
        let messages = (bps * factor / 8.0 / size as f64 * 1.3) as u64;
        Repeat {
            sent_bps: Some(bps * factor),
            received_bps: Some(bps * factor),
            messages_sent: messages,
            messages_received: messages,
            window_ns: 1_000_000_000,
            skew_ns: 41_000,
            intervals_bps: vec![bps, bps * 0.94],
            longest_gap_ns: 3_100_000,
            ..Repeat::default()
        }
    };
    vec![repeat(0.9928), repeat(1.0), repeat(1.0048)]
}

/// What a link (hard) and a slot allow, bit/s and why.
fn limit(m: &mut Measurement, link: (f64, &str), pcie: (f64, &str)) {
    if m.transport != "rc" {
        return;
    }
    let term = |name: &str, (bps, because): (f64, &str)| CeilingTerm {
        name: name.into(),
        bps,
        low_bps: None,
        hard: name == "link",
        because: because.into(),
    };
    m.ceiling = Some(Ceiling {
        bps: link.0,
        limited_by: "link".into(),
        terms: vec![term("link", link), term("pcie", pcie)],
    });
}

fn both(m: Measurement) -> Measurement {
    named(Measurement { bidirectional: true, ..m }, "both")
}

fn named(m: Measurement, suffix: &str) -> Measurement {
    Measurement { id: format!("{}/{suffix}", m.id), ..m }
}

fn at_once(mut group: Vec<Measurement>) -> Vec<Measurement> {
    let ids: Vec<String> = group.iter().map(|m| m.id.clone()).collect();
    for m in &mut group {
        m.together_with = ids.iter().filter(|id| **id != m.id).cloned().collect();
    }
    group
}

fn grow(all: &mut [Measurement], counter: &str, delta: i64) {
    for m in all.iter_mut().filter(|m| m.transport == "rc") {
        m.counters.insert(format!("{}/{counter}", m.data_from), delta);
    }
}
