use fabbench_reports::model::{Ceiling, Device, Port};

use super::*;

fn host(name: &str, port: Port) -> Host {
    let device =
        Device { name: "mlx5_0".into(), guid: name.into(), ports: vec![port], ..Device::default() };
    Host { name: name.into(), hostname: name.into(), devices: vec![device], ..Host::default() }
}

fn port(link_layer: &str, speed: &str, gbps: u64) -> Port {
    Port {
        port: 1,
        link_layer: link_layer.into(),
        width: "4x".into(),
        speed: speed.into(),
        rate_bps: Some(gbps * 1_000_000_000),
        ..Port::default()
    }
}

fn measured() -> Measurement {
    Measurement {
        transport: "rc".into(),
        initiator: "a/mlx5_0:1".into(),
        responder: "b/mlx5_0:1".into(),
        ..Measurement::default()
    }
}

#[test]
fn every_shipped_profile_is_sound_and_bears_its_name() {
    for (name, text) in BUILT_IN {
        let file = file::read(name, text).unwrap();
        assert_eq!(file.name, name);
        built_in(name, false).unwrap();
        assert!(Choice::by_name(name).is_ok());
    }
    let strict = |name| built_in(name, true).unwrap().bandwidth.unwrap().pass;
    assert_eq!(
        ["ndr", "hdr", "roce-400g", "roce-100g", "qdr"].map(strict),
        [97.0, 95.5, 97.0, 95.5, 96.0]
    );
}

#[test]
fn auto_takes_the_class_of_the_slower_port_and_says_why() {
    let table = [
        (port("InfiniBand", "NDR", 400), port("InfiniBand", "NDR", 400), "ndr"),
        (port("InfiniBand", "NDR", 400), port("InfiniBand", "HDR", 200), "hdr"),
        (port("InfiniBand", "FDR10", 40), port("InfiniBand", "FDR10", 40), "fdr"),
        (port("Ethernet", "NDR", 400), port("Ethernet", "NDR", 400), "roce-400g"),
        (port("Ethernet", "HDR", 250), port("Ethernet", "HDR", 250), "roce-200g"),
        (port("Ethernet", "XDR", 1600), port("Ethernet", "XDR", 1600), "roce-800g"),
    ];
    for (a, b, profile) in table {
        let hosts = [host("a", a), host("b", b)];
        let asked = Choice::auto().asked(&hosts, &measured());
        assert_eq!(asked.profile, profile);
        assert!(asked.bounds.is_ok() && asked.why.contains("mlx5_0:1"), "{asked:?}");
    }
}

#[test]
fn what_has_no_expectation_says_so() {
    let ndr = || port("InfiniBand", "NDR", 400);
    let why = |hosts: [Host; 2], measured: Measurement| {
        Choice::auto().asked(&hosts, &measured).bounds.unwrap_err()
    };
    let tcp = Measurement { transport: "tcp".into(), ..measured() };
    assert_eq!(why([host("a", ndr()), host("b", ndr())], tcp), "TCP has no expectation");
    let down = Port { rate_bps: None, ..ndr() };
    let unknown = why([host("a", down.clone()), host("b", down)], measured());
    assert_eq!(unknown, "the rate of a/mlx5_0:1 is not known");
    let mut twin = host("b", ndr());
    (twin.hostname, twin.devices[0].guid) = ("a".into(), "a".into());
    assert!(why([host("a", ndr()), twin], measured()).starts_with("both ends are on one machine"));
    let mut efa = host("a", ndr());
    efa.devices[0].driver = "efa".into();
    assert_eq!(
        why([efa, host("b", ndr())], measured()),
        "EFA speaks SRD, which fabbench lists only"
    );
    let mut soft = host("a", ndr());
    soft.devices[0].soft = true;
    assert_eq!(why([soft.clone(), host("b", ndr())], measured()), "Soft-RoCE has none");
    let declared = Ceiling { bps: 1e8, limited_by: "declared".into(), terms: vec![] };
    let declared = Measurement { ceiling: Some(declared), ..measured() };
    let asked = Choice::auto().asked(&[soft, host("b", ndr())], &declared);
    assert_eq!(asked.bounds.unwrap().bandwidth.unwrap().pass, 95.0);
}

#[test]
fn virtual_functions_have_a_class_of_their_own() {
    let mut guest = host("b", port("InfiniBand", "HDR", 200));
    guest.devices[0].virtual_function = true;
    let hosts = [host("a", port("InfiniBand", "HDR", 200)), guest];
    assert_eq!(Choice::auto().asked(&hosts, &measured()).profile, "virtual-function");
}

#[test]
fn a_file_replaces_single_bounds() {
    let text = "name = \"own\"\nabout = \"\"\ninherits = \"auto\"\n[bounds.bandwidth]\npass = 98.0\n\
                warn = 97.0\nbecause = \"contract\"\n";
    let hosts = ["a", "b"].map(|name| host(name, port("InfiniBand", "NDR", 400)));
    let asked = Choice::parse("./own.toml", text).unwrap().asked(&hosts, &measured());
    let bounds = asked.bounds.unwrap();
    assert_eq!((bounds.bandwidth.unwrap().pass, bounds.bidirectional.unwrap().pass), (98.0, 90.0));
    assert_eq!(bounds.single_qp.unwrap().points, 5.0);
}

#[test]
fn what_contradicts_itself_is_refused_with_the_key() {
    let bound = |text: &str| {
        let text = format!("name = \"x\"\nabout = \"\"\n[bounds.{text}");
        Choice::parse("x.toml", &text).unwrap_err().to_string()
    };
    let cases = [
        ("bandwidth]\npass = 90\nwarn = 95\nbecause = \"x\"", "warn 95 is above pass 90"),
        ("bandwidth]\npass = -1\nwarn = -2\nbecause = \"x\"", "0 to 100 per cent"),
        ("bandwidth]\npass = nan\nwarn = 1\nbecause = \"x\"", "0 to 100 per cent"),
        ("bandwidth]\npass = 120\nwarn = 1\nbecause = \"x\"", "0 to 100 per cent"),
        ("bandwidth]\npass = 90\nwarn = 80\nbecause = \" \"", "because is empty"),
        ("bandwidth]\npass = 90\nbecause = \"x\"", "missing field `warn`"),
        ("bandwith]\npass = 90\nwarn = 80\nbecause = \"x\"", "unknown field `bandwith`"),
        ("bandwidth]\npass = 90\nwarn = 80\nmin = 1\nbecause = \"x\"", "unknown field `min`"),
        ("latency_write]\npass_us = 0\nbecause = \"x\"", "more than 0"),
        ("latency_write]\npass_us = 2\nwarn_us = 1\nbecause = \"x\"", "warn is below pass"),
        ("spread]\npass = inf\nbecause = \"x\"", "more than 0"),
        ("single_qp]\npoints = -5\nbecause = \"x\"", "points are 0 to 100"),
    ];
    for (text, part) in cases {
        let error = bound(text);
        assert!(error.starts_with("profile x.toml:") && error.contains(part), "{text}: {error}");
    }
    let unknown = Choice::by_name("ndrr").unwrap_err().to_string();
    assert!(
        unknown.contains("\"ndrr\" is no profile: take auto, strict, hardware, sdr"),
        "{unknown}"
    );
    let heir = "name = \"x\"\nabout = \"\"\ninherits = \"nobody\"\n";
    assert!(
        Choice::parse("x.toml", heir).unwrap_err().to_string().contains("inherits: \"nobody\"")
    );
}
