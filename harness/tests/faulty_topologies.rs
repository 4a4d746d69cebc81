//! Machines that are wrong, each made from a real shape by a stated edit: every one must FAIL, and
//! say why. (Synthetic: few machines that fail are found in public.)

use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fabbench_harness::topology::model::{Acs, Fact, Kind, Link, Node, Topology};
use fabbench_harness::topology::{self, Assessment, Rules};
use fabbench_reports::model::Status;

/// A bare-metal node: 8 H100, each with a ConnectX-7 behind cascaded Broadcom switches.
fn h100() -> Topology {
    let file = "cloud/oci-H100-topology.xml";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topologies").join(file);
    topology::read(file, &std::fs::read(path).unwrap()).unwrap()
}

fn judged(topology: &Topology) -> Assessment {
    topology::judge(topology, Rules::default())
}

/// Node of a GPU by its place, and the nodes of the adapter that it is paired with.
fn pair(topology: &Topology, gpu: usize) -> (usize, Vec<usize>) {
    let judged = judged(topology);
    let hca = judged.gpus[gpu].hca.unwrap();
    (judged.scene.gpus[gpu].node.unwrap(), judged.scene.adapters[hca].nodes.clone())
}

/// Takes a function out of its slot and puts it below another node.
fn replug(topology: &mut Topology, node: usize, below: usize) {
    let moved = Node { parent: Some(below), ..topology.nodes[node].clone() };
    unplug(topology, node);
    topology.add(moved);
}

fn unplug(topology: &mut Topology, node: usize) {
    let slot = &mut topology.nodes[node];
    (slot.gpu, slot.hca, slot.class) = (None, None, Fact::Known(0x088000));
}

fn root(topology: &Topology, node: usize) -> usize {
    topology.chain(node).last().unwrap()
}

/// Asserts a FAIL in which some reason or finding holds each of `words`.
fn fails(topology: &Topology, rules: Rules, words: &[&str]) {
    let judged = topology::judge(topology, rules);
    let findings = judged.findings.iter().filter(|finding| finding.status == Status::Fail);
    let findings = findings.map(|f| format!("{} {}", f.object, f.text));
    let said: Vec<String> = judged.reasons.iter().cloned().chain(findings).collect();
    assert_eq!(judged.status, Status::Fail, "{said:#?}");
    for word in words {
        assert!(said.iter().any(|line| line.contains(word)), "{word}: {said:#?}");
    }
}

#[test]
fn the_shape_that_the_edits_start_from_passes() {
    let judged = judged(&h100());
    assert_eq!(judged.status, Status::Pass, "{:?}", judged.findings);
    assert_eq!(judged.gpus.len(), 8);
}

/// Edit: the card of GPU2 is plugged into a slot of the other socket's root complex.
#[test]
fn an_hca_in_the_wrong_slot() {
    let mut machine = h100();
    let ((_, hca), (other, _)) = (pair(&machine, 2), pair(&machine, 7));
    let elsewhere = root(&machine, other);
    hca.into_iter().for_each(|node| replug(&mut machine, node, elsewhere));
    fails(&machine, Rules::default(), &["GPU2: ", "wrong slot"]);
}

/// Edit: GPU5 is plugged into a root port of the other socket.
#[test]
fn a_gpu_in_the_wrong_slot() {
    let mut machine = h100();
    let ((gpu, _), (other, _)) = (pair(&machine, 5), pair(&machine, 0));
    let elsewhere = root(&machine, other);
    replug(&mut machine, gpu, elsewhere);
    fails(&machine, Rules::default(), &["wrong slot"]);
}

/// Edit: the four cards of one socket are missing.
#[test]
fn a_socket_without_hcas() {
    let mut machine = h100();
    for gpu in 4..8 {
        let (_, hca) = pair(&h100(), gpu);
        hca.into_iter().for_each(|node| unplug(&mut machine, node));
    }
    fails(&machine, Rules::default(), &["no HCA on its socket (SYS)"]);
}

/// Edit: one card is missing; the owner requires each GPU on its HCA's switch.
#[test]
fn a_missing_hca_where_each_gpu_shall_have_its_own() {
    let mut machine = h100();
    let (_, hca) = pair(&machine, 3);
    hca.into_iter().for_each(|node| unplug(&mut machine, node));
    fails(&machine, Rules { same_switch: true }, &["not on its HCA's switch, as required"]);
}

/// Edit: GPU1 is plugged below the switch of GPU0, so that its own card idles.
#[test]
fn two_gpus_on_one_hca_while_another_idles() {
    let mut machine = h100();
    let ((gpu, _), (first, _)) = (pair(&machine, 1), pair(&machine, 0));
    let beside = machine.nodes[first].parent.unwrap();
    replug(&mut machine, gpu, beside);
    fails(&machine, Rules::default(), &["serves 2 GPUs", "idles"]);
}

fn acs(control: u16) -> Fact<Acs> {
    Fact::Known(Acs::of_control(control))
}

/// Edit: ACS redirects requests on every bridge (as kernels set it with an IOMMU).
#[test]
fn acs_redirects_on_all_bridges() {
    let mut machine = h100();
    for node in machine.nodes.iter_mut().filter(|node| node.kind == Kind::Switch) {
        node.acs = acs(0b001_1101);
    }
    fails(&machine, Rules::default(), &["ReqRedir+ CmpltRedir+"]);
}

/// Edit: ACS redirects completions on the bridge above one GPU alone.
#[test]
fn acs_redirects_on_one_bridge_of_a_path() {
    let mut machine = h100();
    let (gpu, hca) = pair(&machine, 6);
    let others: Vec<usize> = machine.chain(hca[0]).collect();
    let own = machine.chain(gpu).skip(1).find(|at| !others.contains(at));
    let bridge = own.unwrap_or(machine.nodes[hca[0]].parent.unwrap());
    // Where GPU and HCA hang on one switch there is no bridge between: give the GPU one.
    let between = machine.add(Node {
        kind: Kind::Switch,
        acs: acs(0b000_1000),
        ..machine.nodes[bridge].clone()
    });
    machine.nodes[between].parent = machine.nodes[gpu].parent;
    replug(&mut machine, gpu, between);
    fails(&machine, Rules::default(), &["ReqRedir- CmpltRedir+"]);
}

fn trained(machine: &mut Topology, node: usize, speed_mts: u32, width: u8) {
    machine.nodes[node].link = Link {
        speed_mts: Fact::Known(speed_mts),
        width: Fact::Known(width),
        max_speed_mts: Fact::Known(32_000),
        max_width: Fact::Known(16),
    };
    let up = machine.nodes[node].parent.unwrap();
    (machine.nodes[up].link.max_speed_mts, machine.nodes[up].link.max_width) =
        (Fact::Known(32_000), Fact::Known(16));
}

/// Edit: a 400 Gb/s card runs on 4 lanes of Gen5.
#[test]
fn an_hca_on_a_quarter_of_its_lanes() {
    let mut machine = h100();
    let (_, hca) = pair(&machine, 0);
    set_rate(&mut machine, hca[0]);
    trained(&mut machine, hca[0], 32_000, 4);
    fails(&machine, Rules::default(), &["Gen5 x4 (capable Gen5 x16): 126 of 400 Gb/s"]);
}

/// Edit: a 400 Gb/s card came up on 8 lanes of Gen4.
#[test]
fn an_hca_on_half_the_lanes_at_half_the_speed() {
    let mut machine = h100();
    let (_, hca) = pair(&machine, 0);
    set_rate(&mut machine, hca[0]);
    trained(&mut machine, hca[0], 16_000, 8);
    fails(&machine, Rules::default(), &["Gen4 x8 (capable Gen5 x16): 126 of 400 Gb/s"]);
}

/// Edit: a 400 Gb/s card came up at Gen3.
#[test]
fn an_hca_in_a_slot_set_to_gen3() {
    let mut machine = h100();
    let (_, hca) = pair(&machine, 0);
    set_rate(&mut machine, hca[0]);
    trained(&mut machine, hca[0], 8_000, 16);
    fails(&machine, Rules::default(), &["Gen3 x16 (capable Gen5 x16): 126 of 400 Gb/s"]);
}

fn set_rate(machine: &mut Topology, node: usize) {
    for port in &mut machine.nodes[node].hca.as_mut().unwrap().ports {
        port.rate_mbps = Fact::Known(400_000);
    }
}

/// Edit: neither nvidia_peermem nor a driver with dma-buf.
#[test]
fn no_software_for_gpudirect() {
    let mut machine = h100();
    (machine.machine.peer_memory, machine.machine.dma_buf) =
        (Fact::Known(false), Fact::Known(false));
    fails(&machine, Rules::default(), &["GPUDirect impossible"]);
}

/// Edit: no adapter has an active port.
#[test]
fn every_port_is_down() {
    let mut machine = h100();
    for hca in machine.nodes.iter_mut().filter_map(|node| node.hca.as_mut()) {
        hca.ports.iter_mut().for_each(|port| port.active = Fact::Known(false));
    }
    fails(&machine, Rules::default(), &["no HCA that can serve it (no port is ACTIVE"]);
}

/// A function as `rdma_topo dump` writes it.
struct Function {
    path: &'static str,
    modalias: &'static str,
    acs: Option<u16>,
    group: u32,
    v3: Option<&'static str>,
    verbs: Option<&'static str>,
}

fn packed(bytes: &[u8]) -> String {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    BASE64.encode(encoder.finish().unwrap())
}

fn dump(functions: &[Function]) -> Vec<u8> {
    let one = |f: &Function| {
        let mut config = vec![0u8; 4096];
        if let Some(control) = f.acs {
            config[0x100..0x108].copy_from_slice(&[0x0d, 0, 1, 0, 0x5f, 0, control as u8, 0]);
        }
        let vpd = f.v3.map(|v3| {
            let mut vpd = vec![0x90, v3.len() as u8 + 3, 0, b'V', b'3', v3.len() as u8];
            vpd.extend(v3.bytes());
            vpd.push(0x78);
            packed(&vpd)
        });
        serde_json::json!({
            "realpath": f.path, "config": packed(&config), "modalias": f.modalias,
            "iommu_group": f.group, "numa_node": 0, "vpd": vpd,
            "subsystems": f.verbs.map(|name| serde_json::json!({"infiniband": [name]})),
        })
    };
    serde_json::to_vec(&functions.iter().map(one).collect::<Vec<_>>()).unwrap()
}

/// As the reference of rdma-core has it: Grace root port, the adapter's switch with the DMA function
/// on one side and the GPU on the other, the adapter itself in another segment.
fn data_direct(dma_port: u16, gpu_port: u16, root_port: u16, groups: [u32; 2]) -> Vec<u8> {
    const SWITCH: &str = "pci:v000015B3d0000197Csv00000000sd00000000bc06sc04i00";
    const ROOT: &str = "pci:v000010DEd000022B1sv00000000sd00000000bc06sc04i00";
    let function =
        |path, modalias, acs, group| Function { path, modalias, acs, group, v3: None, verbs: None };
    dump(&[
        function("/sys/devices/pci0000:00/0000:00:00.0", ROOT, Some(root_port), 1),
        function("/sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0", SWITCH, None, 1),
        function(
            "/sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0/0000:02:00.0",
            SWITCH,
            Some(dma_port),
            1,
        ),
        Function {
            v3: Some("one-board"),
            ..function(
                "/sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0/0000:02:00.0/0000:03:00.0",
                "pci:v000015B3d00002100sv00000000sd00000000bc08sc01i00",
                None,
                groups[0],
            )
        },
        function(
            "/sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0/0000:02:01.0",
            SWITCH,
            Some(gpu_port),
            1,
        ),
        function(
            "/sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0/0000:02:01.0/0000:04:00.0",
            SWITCH,
            None,
            1,
        ),
        function(
            "/sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0/0000:02:01.0/0000:04:00.0/0000:05:00.0",
            SWITCH,
            Some(0),
            1,
        ),
        function(
            "/sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0/0000:02:01.0/0000:04:00.0/0000:05:00.0/0000:06:00.0",
            "pci:v000010DEd000031C2sv00000000sd00000000bc03sc02i00",
            None,
            groups[1],
        ),
        function("/sys/devices/pci0002:00/0002:00:00.0", ROOT, Some(0b001_1101), 9),
        Function {
            v3: Some("one-board"),
            verbs: Some("mlx5_0"),
            ..function(
                "/sys/devices/pci0002:00/0002:00:00.0/0002:03:00.0",
                "pci:v000015B3d00001023sv00000000sd00000000bc02sc07i00",
                None,
                9,
            )
        },
    ])
}

/// Bits 6 to 0: xx110x1, xx101x1, xx111x0.
const GOOD: [u16; 3] = [0b001_1001, 0b001_0101, 0b001_1100];

#[test]
fn data_direct_as_it_should_be_passes() {
    let machine = topology::read("x", &data_direct(GOOD[0], GOOD[1], GOOD[2], [1, 1])).unwrap();
    let judged = judged(&machine);
    assert_eq!(machine.source.name(), "rdma_topo dump JSON");
    assert_eq!(judged.gpus[0].class.word(), "PIX", "{:?}", judged.reasons);
    assert_eq!(judged.scene.adapters[0].name, "mlx5_0");
    assert_eq!(judged.placement, Status::Pass);
    let bad: Vec<_> = judged.findings.iter().filter(|f| f.status == Status::Fail).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

/// Edit: the port towards the GPU isolates, as the kernel sets it by default.
#[test]
fn data_direct_with_the_kernels_default_acs() {
    let bytes = data_direct(GOOD[0], 0b001_1101, GOOD[2], [1, 1]);
    let machine = topology::read("x", &bytes).unwrap();
    fails(&machine, Rules::default(), &["0000:02:01.0 is not xx101x1"]);
}

/// Edit: GPU and DMA function are in different IOMMU groups.
#[test]
fn data_direct_in_two_iommu_groups() {
    let machine = topology::read("x", &data_direct(GOOD[0], GOOD[1], GOOD[2], [1, 2])).unwrap();
    fails(&machine, Rules::default(), &["GPU in IOMMU group 2, DMA function in 1"]);
}

/// Edit: the product data do not join the DMA function to the adapter, so that the path is another.
#[test]
fn without_product_data_data_direct_is_not_assumed() {
    let text = String::from_utf8(data_direct(GOOD[0], GOOD[1], GOOD[2], [1, 1])).unwrap();
    let machine = topology::read("x", text.replace("\"vpd\"", "\"other\"").as_bytes()).unwrap();
    let judged = judged(&machine);
    assert_ne!(judged.gpus[0].class.word(), "PIX");
}

/// Edit of the H100 node: the switch above GPU and HCA is one inside the adapter, and redirects.
#[test]
fn a_switch_inside_the_adapter_that_redirects() {
    let mut machine = h100();
    let (gpu, hca) = pair(&machine, 0);
    let up = machine.nodes[hca[0]].parent.unwrap();
    let inside = |acs| Node {
        parent: Some(up),
        kind: Kind::DownstreamPort,
        acs,
        bdf: machine.nodes[up].bdf,
        ..Node::default()
    };
    let ports = [inside(acs(0b001_1101)), inside(acs(0))];
    let switch = &mut machine.nodes[up].ids;
    (switch.vendor, switch.device) = (Fact::Known(0x15b3), Fact::Known(0x197c));
    let [first, second] = ports.map(|port| {
        let mut port = port;
        port.ids = machine.nodes[up].ids;
        machine.add(port)
    });
    hca.into_iter().for_each(|node| replug(&mut machine, node, first));
    replug(&mut machine, gpu, second);
    fails(&machine, Rules::default(), &["is not xx000x0"]);
}

/// Edit: the adapter beside GPU4 is one of NVLink's management; it must not serve.
#[test]
fn an_adapter_of_nvlinks_management_serves_nobody() {
    let mut machine = h100();
    let (_, hca) = pair(&machine, 4);
    for node in hca {
        machine.nodes[node].hca.as_mut().unwrap().excluded = Some("manages NVLink".into());
    }
    fails(&machine, Rules { same_switch: true }, &["not on its HCA's switch"]);
}
