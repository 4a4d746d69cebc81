//! The physical layer, as ethtool and mlxlink tell it.

use fabbench_reports::model::{Check, Device, Port};

use super::subject::Subject;

/// More errors than this before correction: the link lives on its error correction.
const RAW_ERRORS: f64 = 1e-7;
/// More errors than this after correction reach the packets.
const EFFECTIVE_ERRORS: f64 = 1e-12;
/// Rates from which links cannot do without forward error correction.
const NEEDS_CORRECTION: u64 = 50_000_000_000;

/// FEC, transceiver and bit errors of a port.
pub(super) fn checks(subject: &Subject, device: &Device, port: &Port) -> Vec<Check> {
    if device.virtual_function {
        let why = "a virtual function: the physical layer is its physical function's";
        let beside = |id: &&str| subject.of_port(id, device, port, "").beside(why);
        return ["fec", "module", "bit-errors"].iter().map(beside).collect();
    }
    vec![
        correction(subject, device, port),
        module(subject, device, port),
        bit_errors(subject, device, port),
    ]
}

/// What mlxlink says of the port, or why it says nothing.
fn mlxlink<'a>(subject: &Subject<'a>, device: &Device, port: &Port) -> Result<&'a str, String> {
    let pci = device.pci.as_deref().ok_or("the adapter's PCI address is not known")?;
    subject.tool(&format!("mlxlink -d {pci} -p {} -m -c", port.port))
}

/// The value of a line `key : value`; colours are left out.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (own, value) = line.split_once(':')?;
        let own = own.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).trim();
        (own.eq_ignore_ascii_case(key)).then(|| value.trim())
    })
}

/// The first value among several sources.
fn either<'a>(
    first: Result<&'a str, String>,
    second: Result<&'a str, String>,
    find: impl Fn(&'a str) -> Option<&'a str>,
) -> Result<&'a str, String> {
    let silent = "the tools do not tell it".to_owned();
    match (first, second) {
        (Ok(text), other) => find(text).or_else(|| other.ok().and_then(&find)).ok_or(silent),
        (Err(_), Ok(text)) => find(text).ok_or(silent),
        (Err(one), Err(two)) => Err(format!("{one}; {two}")),
    }
}

fn ethtool<'a>(subject: &Subject<'a>, port: &Port, flag: &str) -> Result<&'a str, String> {
    let netdev = port.netdev.as_deref().ok_or("the port has no interface")?;
    subject.tool(&format!("ethtool {flag} {netdev}"))
}

fn correction(subject: &Subject, device: &Device, port: &Port) -> Check {
    let draft = subject.of_port("fec", device, port, "on from 50 Gb/s on");
    let found =
        either(ethtool(subject, port, "--show-fec"), mlxlink(subject, device, port), |text| {
            ["Active FEC encoding", "Active FEC encodings", "FEC"]
                .iter()
                .find_map(|key| field(text, key))
        });
    let word = match found {
        Ok(word) => word,
        Err(why) => return draft.unknown(why),
    };
    let off = ["off", "none", "no fec", ""].contains(&word.to_ascii_lowercase().as_str());
    match port.rate_bps {
        Some(bps) if off && bps >= NEEDS_CORRECTION => draft.warn(
            "off",
            "ethtool --set-fec INTERFACE encoding auto at both ends of the cable (needs root, \
             disturbs traffic)",
        ),
        _ => draft.pass(if off { "off" } else { word }),
    }
}

/// Alarms of the transceiver. A passive copper cable has no sensors.
fn module(subject: &Subject, device: &Device, port: &Port) -> Check {
    let draft = subject.of_port("module", device, port, "no alarm of the transceiver");
    let text = match (ethtool(subject, port, "-m"), mlxlink(subject, device, port)) {
        (Ok(text), _) | (Err(_), Ok(text)) => text,
        (Err(one), Err(two)) => return draft.unknown(format!("{one}; {two}")),
    };
    let alarmed = |line: &str| {
        let (key, value) = line.split_once(':')?;
        let key = key.trim().to_ascii_lowercase();
        (key.contains("alarm")
            && !key.contains("threshold")
            && value.trim().eq_ignore_ascii_case("on"))
        .then_some(key)
    };
    let alarms: Vec<String> = text.lines().filter_map(alarmed).collect();
    let temperature = ["Module temperature", "Temperature [C]", "Temperature"]
        .iter()
        .find_map(|key| field(text, key));
    let measured = temperature.map_or_else(String::new, |value| format!("temperature {value}"));
    if !alarms.is_empty() {
        let remedy = "check airflow and the fans, clean the connectors, exchange the transceiver \
                      (stops this port's traffic)";
        return draft.fail(alarms.join(", "), remedy);
    }
    match measured.as_str() {
        "" if text.to_ascii_lowercase().contains("copper") => {
            draft.beside("a copper cable without sensors")
        }
        "" => draft.unknown("the tools tell neither temperature nor alarms"),
        _ => draft.pass(measured),
    }
}

fn bit_errors(subject: &Subject, device: &Device, port: &Port) -> Check {
    let wanted = "raw below 1e-7, after correction below 1e-12";
    let draft = subject.of_port("bit-errors", device, port, wanted);
    let text = match mlxlink(subject, device, port) {
        Ok(text) => text,
        Err(why) => return draft.unknown(why),
    };
    let rate = |key: &str| field(text, key)?.split_whitespace().next()?.parse::<f64>().ok();
    let (Some(raw), Some(effective)) = (rate("Raw Physical BER"), rate("Effective Physical BER"))
    else {
        return draft.unknown("mlxlink does not tell the bit error ratio of this link");
    };
    let found = format!("raw {raw:e}, after correction {effective:e}");
    let remedy = "clean the connectors, then exchange cable and transceivers in turn (stops this \
                  port's traffic)";
    if effective > EFFECTIVE_ERRORS {
        draft.fail(found, remedy)
    } else if raw > RAW_ERRORS {
        draft.warn(found, remedy)
    } else {
        draft.pass(found)
    }
}
