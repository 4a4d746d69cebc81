//! From a command line of perftest to the one of fabbench that measures the same.

use clap::ValueEnum;
use fabbench_harness::size::{MAX_SIZE, size_text};

use super::table::{How, Kind, Test};
use super::typed::{Given, Typed};
use crate::cli::TransportArg;
use crate::commands::CommandError;

/// perftest's default message size of bandwidth tests, bytes.
const BANDWIDTH_SIZE: u64 = 65_536;

/// perftest's default message size of latency tests, bytes.
const LATENCY_SIZE: u64 = 2;

/// perftest's default moderation of completions, and the size above which it signals every message.
const MODERATION: (u64, u64) = (100, 8192);

/// What measures the same, and what differs.
#[derive(Debug)]
pub struct Translation {
    /// The words of the command; none when no command measures the same.
    pub command: Option<Vec<String>>,
    /// A remark for each option that has one: its kind, as typed, the sentence.
    pub remarks: Vec<(Kind, String, String)>,
    /// What differs whatever the options.
    pub always: Vec<String>,
}

/// Translates. Refuses values that perftest would refuse.
pub fn translate(typed: &Typed) -> Result<Translation, CommandError> {
    let mut wish = Wish { program_op: typed.program.op.to_owned(), ..Wish::default() };
    let mut remarks = Vec::new();
    let mut stopped = false;
    for given in &typed.options {
        stopped |= wish.take(given)? || given.entry.stops;
        if let Some(because) = &given.entry.because {
            remarks.push((given.entry.kind, given.text(), because.clone()));
        }
    }
    if let Some(connection) = wish.foreign.take() {
        let spoken = format!("fabbench's transports are {}.", transports().join(", "));
        remarks.push((Kind::None, format!("-c {connection}"), spoken));
    }
    remarks.sort_by_key(|(kind, ..)| *kind);
    let command = match stopped {
        true => None,
        false => Some(wish.command(typed)?),
    };
    Ok(Translation { command, remarks, always: wish.always(typed) })
}

/// What was asked for, gathered from options that act together.
#[derive(Debug, Default)]
struct Wish {
    program_op: String,
    transport: Option<String>,
    foreign: Option<String>,
    size: Option<u64>,
    all_sizes: bool,
    both: bool,
    reversed: bool,
    device: Option<String>,
    port: Option<String>,
    seconds: Option<u64>,
    margin: Option<u64>,
    endless: bool,
    rate: Option<(String, f64)>,
    rate_unit: Option<String>,
    signals: bool,
    depth: Option<u64>,
    post_list: Option<u64>,
    mtu: Option<u64>,
    iterations: bool,
    has_timeout: bool,
    /// Flags that stand for themselves.
    flags: Vec<String>,
}

impl Wish {
    /// Takes one option; true when no command of fabbench measures the same with it.
    fn take(&mut self, given: &Given) -> Result<bool, CommandError> {
        let Some(flag) = &given.entry.flag else { return Ok(false) };
        match &given.entry.how {
            How::Text => self.plain(flag, given)?,
            How::Switch => self.flags.push(flag.clone()),
            How::Joined => self.flags.push(format!("{flag}={}", given.value())),
            How::Fixed(value) => self.fixed(flag, value),
            How::Device => self.device = Some(given.value().to_owned()),
            How::Port => self.port = Some(number(given)?.to_string()),
            How::Connection => return self.connection(given),
            How::Atomic => self.program_op = atomic(given)?.to_owned(),
            How::Size => self.size = Some(size(given)?),
            How::All => self.all_sizes = true,
            How::Duration => self.seconds = Some(number(given)?),
            How::Margin => self.margin = Some(number(given)?),
            How::Reversed => self.reversed = true,
            How::Rate => self.rate = Some((given.text(), decimal(given)?)),
            How::RateUnits => self.rate_unit = Some(given.value().to_owned()),
        }
        Ok(false)
    }

    /// A flag that takes the value as it is.
    fn plain(&mut self, flag: &str, given: &Given) -> Result<(), CommandError> {
        match flag {
            "--tx-depth" => self.depth = Some(number(given)?),
            "--post-list" => self.post_list = Some(number(given)?),
            "--mtu" => self.mtu = Some(number(given)?),
            "--signal-every" => self.signals = true,
            "--iterations" => self.iterations = true,
            "--timeout" => self.has_timeout = true,
            _ => {}
        }
        self.flags.extend([flag.to_owned(), given.value().to_owned()]);
        Ok(())
    }

    fn fixed(&mut self, flag: &str, value: &str) {
        match flag {
            "--op" => self.program_op = value.to_owned(),
            "--direction" => self.both = true,
            "--duration" => self.endless = true,
            _ => self.flags.extend([flag.to_owned(), value.to_owned()]),
        }
    }

    fn connection(&mut self, given: &Given) -> Result<bool, CommandError> {
        let known = ["RC", "UC", "UD", "XRC", "DC", "SRD"];
        if !known.contains(&given.value()) {
            return Err(refused(given, "perftest knows RC, UC, UD, XRC, DC and SRD"));
        }
        let wanted = given.value().to_lowercase();
        self.transport = transports().into_iter().find(|name| *name == wanted);
        if self.transport.is_none() {
            self.foreign = Some(given.value().to_owned());
        }
        Ok(self.transport.is_none())
    }

    /// The whole command.
    fn command(&self, typed: &Typed) -> Result<Vec<String>, CommandError> {
        let program = typed.program;
        let host = typed.host.as_deref().unwrap_or("HOST");
        let mut words: Vec<String> =
            ["fabbench", program.test.command(), "local", host].map(str::to_owned).to_vec();
        words.extend(["--op".to_owned(), self.program_op.clone()]);
        if let Some(transport) = self.transport.as_ref().filter(|t| *t != "rc") {
            words.extend(["--transport".to_owned(), transport.clone()]);
        }
        words.extend(self.direction(program.op));
        words.extend(self.device());
        // Atomics act on eight bytes: there is no size to choose.
        if !program.name.starts_with("ib_atomic") {
            words.extend(["--size".to_owned(), self.sizes(program.test)]);
        }
        words.extend(self.queues(typed));
        words.extend(self.time()?);
        words.extend(self.limit()?);
        words.extend(self.flags.iter().cloned());
        Ok(words)
    }

    /// perftest's client reads from the server and has it do atomics; it writes and sends to it.
    fn direction(&self, op: &str) -> Vec<String> {
        let fetches = ["read", "fetch_add"].contains(&op);
        let from_host = fetches != self.reversed;
        match (self.both, from_host) {
            (true, _) => ["--direction", "both"].map(str::to_owned).to_vec(),
            (false, true) => ["--direction", "b-a"].map(str::to_owned).to_vec(),
            (false, false) => Vec::new(),
        }
    }

    fn device(&self) -> Vec<String> {
        let device = match (&self.device, &self.port) {
            (Some(device), Some(port)) => format!("{device}:{port}"),
            (Some(device), None) => device.clone(),
            // perftest takes the first device; fabbench all rails, unless told.
            (None, _) => return Vec::new(),
        };
        vec!["--device".to_owned(), device]
    }

    fn is_ud(&self) -> bool {
        self.transport.as_deref() == Some("ud")
    }

    /// Sizes as fabbench takes them.
    fn sizes(&self, test: Test) -> String {
        let packet = self.mtu.unwrap_or(4096);
        let default = match test {
            Test::Latency => LATENCY_SIZE,
            Test::Bandwidth if self.is_ud() => packet,
            Test::Bandwidth => BANDWIDTH_SIZE,
        };
        match (self.all_sizes, self.is_ud()) {
            (true, true) => format!("2..{}", typed_size(packet)),
            (true, false) => "2..8MiB".to_owned(),
            (false, _) => typed_size(self.size.unwrap_or(default)),
        }
    }

    /// perftest's defaults where fabbench has its own.
    fn queues(&self, typed: &Typed) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |flag: &str, value: u64| words.extend([flag.to_owned(), value.to_string()]);
        if typed.program.test == Test::Latency {
            add("--signal-every", 1);
            return words;
        }
        if !self.flags.iter().any(|flag| flag == "--qps") {
            add("--qps", 1);
        }
        if !self.signals {
            add("--signal-every", self.moderation());
        }
        words
    }

    /// Every how many messages perftest asks for a completion.
    fn moderation(&self) -> u64 {
        let size = self.size.unwrap_or(BANDWIDTH_SIZE);
        let large = size > MODERATION.1 && !self.is_ud() && !self.all_sizes;
        let every = match (self.post_list, large) {
            (Some(list), _) if list > 1 => list,
            (_, true) => 1,
            (_, false) => MODERATION.0,
        };
        every.min(self.depth.unwrap_or(128))
    }

    /// Window and warm-up.
    fn time(&self) -> Result<Vec<String>, CommandError> {
        if self.endless {
            return Ok(["--duration", "24h", "--repeats", "1"].map(str::to_owned).to_vec());
        }
        let Some(seconds) = self.seconds else { return Ok(Vec::new()) };
        let margin = self.margin.unwrap_or(seconds / 4);
        match seconds.checked_sub(2 * margin) {
            Some(measured) if measured > 0 => Ok(vec![
                "--duration".to_owned(),
                format!("{measured}s"),
                "--warmup".to_owned(),
                format!("{margin}s"),
            ]),
            _ => Err(CommandError::usage(format!(
                "-D {seconds}: margins of {margin} s at both ends leave nothing to measure"
            ))),
        }
    }

    fn limit(&self) -> Result<Vec<String>, CommandError> {
        let Some((typed, rate)) = &self.rate else { return Ok(Vec::new()) };
        let rate = match self.rate_unit.as_deref().unwrap_or("g") {
            "g" => format!("{rate}Gb/s"),
            "M" => format!("{}Mb/s", rate * 8.388608),
            "p" => {
                return Err(CommandError::usage(format!(
                    "{typed} --rate_units=p: fabbench limits bits per second, not packets"
                )));
            }
            other => {
                return Err(CommandError::usage(format!(
                    "--rate_units={other}: perftest knows M, g and p"
                )));
            }
        };
        Ok(vec!["--rate-limit".to_owned(), rate])
    }

    /// What differs whatever was typed.
    fn always(&self, typed: &Typed) -> Vec<String> {
        let mut said = Vec::new();
        if typed.host.is_none() {
            said.push(
                "This is the server's side, and fabbench needs none: type the command where the \
                 client would run, with the server's name for HOST."
                    .to_owned(),
            );
        }
        said.push(
            "fabbench starts its agent on the host with your ssh; nothing has to listen there."
                .to_owned(),
        );
        said.push(measured(typed.program.test).to_owned());
        if self.seconds.is_none() && !self.iterations && !self.endless {
            said.push(time_by_default(typed).to_owned());
        }
        if !self.endless {
            said.push(
                "fabbench measures three times and shows the median with its spread; --repeats 1 \
                 measures once."
                    .to_owned(),
            );
        }
        if self.device.is_none() {
            said.push(
                "Without -d perftest takes the first device; fabbench measures every rail in turn \
                 unless --device names one."
                    .to_owned(),
            );
        }
        if !self.has_timeout {
            said.push(
                "perftest's QP timeout is 14 (0.07 s a try), fabbench's 16 and on Soft-RoCE 18."
                    .to_owned(),
            );
        }
        if self.is_ud() && self.size.is_none() && typed.program.test == Test::Bandwidth {
            said.push(
                "A UD message is one packet: perftest lowers its size to the path MTU by itself, \
                 fabbench refuses what does not fit."
                    .to_owned(),
            );
        }
        said
    }
}

/// The transports of verbs that fabbench has.
fn transports() -> Vec<String> {
    let names = TransportArg::value_variants().iter().filter_map(|t| t.to_possible_value());
    let other = ["tcp", "rdma", "xrc"];
    names.map(|name| name.get_name().to_owned()).filter(|n| !other.contains(&n.as_str())).collect()
}

/// How the figures themselves differ.
fn measured(test: Test) -> &'static str {
    match test {
        Test::Latency => {
            "Half round trips for SEND and WRITE and whole ones for READ and atomics, as in \
             perftest; percentiles are of all samples, where perftest leaves out the two largest."
        }
        Test::Bandwidth => {
            "Bandwidth is counted by the receiver, where perftest counts what the sender completed."
        }
    }
}

/// How long without -D and -n.
fn time_by_default(typed: &Typed) -> &'static str {
    match (typed.program.test, typed.program.op) {
        (Test::Bandwidth, "write") => {
            "perftest sends 5000 messages by default, milliseconds on a fast link; fabbench \
             measures a second of steady state."
        }
        _ => {
            "perftest exchanges 1000 messages by default; fabbench measures a second of steady \
             state."
        }
    }
}

fn refused(given: &Given, why: &str) -> CommandError {
    CommandError::usage(format!("{}: {why}", given.text()))
}

/// A whole number, as perftest reads it.
fn number(given: &Given) -> Result<u64, CommandError> {
    given.value().parse().map_err(|_| refused(given, "not a whole number"))
}

fn decimal(given: &Given) -> Result<f64, CommandError> {
    match given.value().parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(refused(given, "not a rate above 0")),
    }
}

fn atomic(given: &Given) -> Result<&'static str, CommandError> {
    match given.value() {
        "FETCH_AND_ADD" => Ok("fetch_add"),
        "CMP_AND_SWAP" => Ok("cmp_swap"),
        _ => Err(refused(given, "perftest knows FETCH_AND_ADD and CMP_AND_SWAP")),
    }
}

/// Bytes, with perftest's K and M.
fn size(given: &Given) -> Result<u64, CommandError> {
    let text = given.value();
    let (digits, factor) = match text.strip_suffix(['K', 'M']) {
        Some(digits) if text.ends_with('K') => (digits, 1 << 10),
        Some(digits) => (digits, 1 << 20),
        None => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    match bytes {
        Some(bytes @ 1..=MAX_SIZE) => Ok(bytes),
        Some(0) | None => Err(refused(given, "no size: perftest takes bytes, K or M")),
        Some(_) => Err(refused(given, "fabbench's messages are 1 GiB at most")),
    }
}

/// A size in one word.
fn typed_size(bytes: u64) -> String {
    size_text(bytes).trim_end_matches(" B").replace(' ', "")
}
