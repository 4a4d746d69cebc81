//! Large machines and large files within their time.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use fabbench_harness::topology::{self, Rules, view};

/// Without optimisation it takes some ten times as long, and tests run beside each other.
fn within(aim: Duration, took: Duration, what: &str) {
    let limit = if cfg!(debug_assertions) { aim * 100 } else { aim };
    println!("{what}: {took:?}, aim {aim:?}");
    assert!(took <= limit, "{what}: {took:?} is more than {limit:?}");
}

/// Sockets, each with switches that hold one GPU and two HCAs.
fn machine(sockets: usize, switches: usize, filler: usize) -> String {
    let mut text = String::from("<system version=\"1\">");
    let mut bus = 0u32;
    let mut next = || {
        bus += 1;
        format!("{:04x}:{:02x}:00.0", bus >> 8, bus & 0xff)
    };
    let mut number = 0;
    for socket in 0..sockets {
        let _ = write!(text, "<cpu numaid=\"{socket}\">");
        for _ in 0..switches {
            let _ = write!(text, "<pci busid=\"{}\" class=\"0x060400\">", next());
            let gpu = "class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\"";
            let _ = write!(text, "<pci busid=\"{}\" {gpu}/>", next());
            for _ in 0..2 {
                let net = format!("<net name=\"mlx5_{number}\" speed=\"400000\" port=\"1\"/>");
                number += 1;
                let hca = "class=\"0x020700\" vendor=\"0x15b3\" device=\"0x1021\"";
                let _ = write!(text, "<pci busid=\"{}\" {hca}><nic>{net}</nic></pci>", next());
            }
            for _ in 0..filler {
                let _ = write!(text, "<pci busid=\"{}\" class=\"0x010802\"/>", next());
            }
            text.push_str("</pci>");
        }
        text.push_str("</cpu>");
    }
    text + "</system>"
}

#[test]
fn four_sockets_with_16_gpus_and_32_hcas() {
    let text = machine(4, 4, 0);
    let began = Instant::now();
    let topology = topology::read("x", text.as_bytes()).unwrap();
    let judged = topology::judge(&topology, Rules::default());
    let page = view::table(&topology, &judged, "x");
    let took = began.elapsed();
    assert_eq!((judged.gpus.len(), judged.scene.adapters.len()), (16, 32));
    assert!(page.contains("verdict: PASS"), "{page}");
    within(Duration::from_millis(20), took, "16 GPUs and 32 HCAs");
}

#[test]
fn a_file_of_ten_megabytes() {
    // Comments make a file large without making the machine so.
    let comment = format!("<!-- {} -->", "x".repeat(990));
    let text = machine(4, 4, 200).replace("</cpu>", &(comment.repeat(2600) + "</cpu>"));
    assert!(text.len() > 10_000_000, "{} bytes", text.len());
    let began = Instant::now();
    let topology = topology::read("x", text.as_bytes()).unwrap();
    let took = began.elapsed();
    assert!(topology.nodes.len() > 3000);
    within(Duration::from_millis(200), took, "10 MB of XML");
}

/// Most memory that this process has had, bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[test]
fn ten_megabytes_of_functions_take_time_and_memory_by_their_number() {
    let filler = "class=\"0x010802\" vendor=\"0x144d\" device=\"0xa824\" \
                  subsystem_vendor=\"0x144d\" subsystem_device=\"0xa801\" \
                  link_speed=\"32.0 GT/s PCIe\" link_width=\"4\"";
    let text = machine(4, 4, 3700).replace("class=\"0x010802\"", filler);
    assert!((9_000_000..11_000_000).contains(&text.len()), "{} bytes", text.len());
    let before = peak();
    let began = Instant::now();
    let topology = topology::read("x", text.as_bytes()).unwrap();
    let read = began.elapsed();
    let judged = topology::judge(&topology, Rules::default());
    let all = began.elapsed();
    let more = peak() - before;
    assert!(topology.nodes.len() > 49_000 && judged.gpus.len() == 16);
    within(Duration::from_millis(200), read, "10 MB of functions");
    within(Duration::from_millis(250), all, "10 MB of functions, judged");
    assert!(more < 100 << 20, "{} MiB for 10 MB of XML", more >> 20);
}
