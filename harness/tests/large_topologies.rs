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
