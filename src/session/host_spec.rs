//! What people type for a host: `[user@]host[,addr=DATA_ADDRESS]`, `local`, `tcp://host:port`.

use std::fmt;
use std::net::IpAddr;

/// A host as typed, with a name that is unique within the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpec {
    /// How messages and reports call it: the host without the user, `#2` appended for the second
    /// of a name.
    pub name: String,
    /// How its agent is reached.
    pub way: Way,
    /// Where its peers reach it, when that was given.
    pub data_address: Option<IpAddr>,
}

/// How an agent is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// A child process.
    Local,
    /// The system's ssh, with this destination.
    Ssh {
        /// `[user@]host`.
        destination: String,
    },
    /// An agent that was started by hand.
    Tcp {
        /// Host name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A process that a launcher started, and that has connected by itself.
    Joined {
        /// Its rank.
        rank: u16,
    },
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Local => f.write_str("local"),
            Way::Ssh { destination } => write!(f, "ssh {destination}"),
            Way::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Way::Joined { rank } => write!(f, "rank {rank}"),
        }
    }
}

/// A host that cannot be meant: wrong usage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("host {typed:?}: {why}: write [user@]host[,addr=ADDRESS], local or tcp://host:port")]
pub struct HostSpecError {
    /// What was typed.
    pub typed: String,
    /// What is wrong with it.
    pub why: String,
}

/// Understands each host typed and makes the names unique; the same host may be given twice.
///
/// # Errors
/// [`HostSpecError`] for the first host that is malformed or holds what a shell would interpret.
pub fn parse_hosts<S: AsRef<str>>(typed: &[S]) -> Result<Vec<HostSpec>, HostSpecError> {
    let hosts: Result<Vec<_>, _> = typed.iter().map(|text| parse_host(text.as_ref())).collect();
    Ok(with_own_names(hosts?))
}

/// Each host with a name of its own: `#2` appended for the second of a name.
pub fn with_own_names(hosts: Vec<HostSpec>) -> Vec<HostSpec> {
    let mut named: Vec<HostSpec> = Vec::new();
    for mut host in hosts {
        let base = host.name.clone();
        let mut n = 2;
        while named.iter().any(|other| other.name == host.name) {
            host.name = format!("{base}#{n}");
            n += 1;
        }
        named.push(host);
    }
    named
}

fn parse_host(typed: &str) -> Result<HostSpec, HostSpecError> {
    let wrong = |why: &str| HostSpecError { typed: typed.to_owned(), why: why.to_owned() };
    let mut parts = typed.split(',');
    let place = parts.next().unwrap_or_default();
    let mut data_address = None;
    for option in parts {
        let address = option
            .strip_prefix("addr=")
            .ok_or_else(|| wrong(&format!("{option:?} is no option of a host")))?;
        let address = address.trim_start_matches('[').trim_end_matches(']');
        data_address = Some(
            address
                .parse()
                .map_err(|_| wrong(&format!("{address:?} is no IPv4 or IPv6 address")))?,
        );
    }
    let (name, way) = parse_place(place).map_err(|why| wrong(&why))?;
    Ok(HostSpec { name, way, data_address })
}

fn parse_place(place: &str) -> Result<(String, Way), String> {
    if place == "local" {
        return Ok((place.to_owned(), Way::Local));
    }
    if let Some(address) = place.strip_prefix("tcp://") {
        let (host, port) = address.rsplit_once(':').ok_or("a port is missing")?;
        let port = port.parse().map_err(|_| format!("{port:?} is no port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        check_name(host, "host name", ".-_:%")?;
        return Ok((host.to_owned(), Way::Tcp { host: host.to_owned(), port }));
    }
    let (user, host) = match place.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, place),
    };
    if let Some(user) = user {
        check_name(user, "user name", ".-_+@")?;
    }
    check_name(host, "host name", ".-_:%")?;
    Ok((host.to_owned(), Way::Ssh { destination: place.to_owned() }))
}

/// A name goes to ssh as an argument and into messages: letters, digits and `others` only, and
/// never anything that ssh could take for an option.
fn check_name(name: &str, what: &str, others: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("the {what} is empty"));
    }
    if name.starts_with('-') {
        return Err(format!("a {what} cannot begin with '-'"));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
    match name.chars().find(|&c| !allowed(c)) {
        Some(c) => Err(format!("a {what} cannot hold {c:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<HostSpec, HostSpecError> {
        parse_hosts(&[text]).map(|mut hosts| hosts.remove(0))
    }

    #[test]
    fn every_form_is_understood() {
        let host = one("root@gpu-01.example.org,addr=10.1.2.3").unwrap();
        assert_eq!(host.name, "gpu-01.example.org");
        assert_eq!(host.way, Way::Ssh { destination: "root@gpu-01.example.org".into() });
        assert_eq!(host.data_address, Some("10.1.2.3".parse().unwrap()));
        assert_eq!(one("local").unwrap().way, Way::Local);
        assert_eq!(one("local,addr=::1").unwrap().data_address, Some("::1".parse().unwrap()));
        assert_eq!(one("gpu_01,addr=[fd00::1]").unwrap().name, "gpu_01");
        let tcp = Way::Tcp { host: "fd00::7".into(), port: 7471 };
        assert_eq!(one("tcp://[fd00::7]:7471").unwrap().way, tcp);
        assert_eq!(one("tcp://node:80").unwrap().name, "node");
    }

    #[test]
    fn the_same_host_twice_gets_two_names() {
        let hosts = parse_hosts(&["node-a", "root@node-a", "node-a", "local", "local"]).unwrap();
        let names: Vec<&str> = hosts.iter().map(|h| h.name.as_str()).collect();
        assert_eq!(names, ["node-a", "node-a#2", "node-a#3", "local", "local#2"]);
    }

    #[test]
    fn what_ssh_or_a_shell_would_interpret_is_refused() {
        for text in [
            "-oProxyCommand=id",
            "root@-oProxyCommand=id",
            "-l@host",
            "a b",
            "host;id",
            "host$(id)",
            "`id`",
            "ho|st",
            "host\n",
            "ho'st",
            "h\"ost",
            "host>x",
            "host&",
            "*",
            "~",
            "a\\b",
            "a/b",
            "",
            "user@",
            "@host",
            "host,port=3",
            "host,addr=",
            "host,addr=other-host",
            "tcp://host",
            "tcp://host:99999",
            "tcp://:1",
            "tcp://-x:1",
        ] {
            let error = one(text).unwrap_err().to_string();
            assert!(error.contains("write [user@]host"), "{text}: {error}");
            assert!(error.contains(&format!("{text:?}")), "{text}: {error}");
        }
    }
}
