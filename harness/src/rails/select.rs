//! What the user says about devices: lists, exclusions, maps of rails.

use std::fmt;
use std::str::FromStr;

/// A device, or one port of it, as the user names it: `mlx5_0` or `mlx5_0:1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortName {
    /// Device.
    pub device: String,
    /// Port; none for every port.
    pub port: Option<u8>,
}

impl PortName {
    /// Whether this names port `port` of `device`.
    pub fn names(&self, device: &str, port: u8) -> bool {
        self.device == device && self.port.is_none_or(|own| own == port)
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.device),
            None => f.write_str(&self.device),
        }
    }
}

/// A device list or map that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {wanted}")]
pub struct SelectError {
    text: String,
    wanted: &'static str,
}

impl FromStr for PortName {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<Self, SelectError> {
        let wrong = || SelectError {
            text: text.to_owned(),
            wanted: "device (write mlx5_0, or mlx5_0:1 for its first port)",
        };
        let (device, port) = match text.split_once(':') {
            None => (text, None),
            Some((device, port)) => {
                let port = port.parse().ok().filter(|port: &u8| *port > 0);
                (device, Some(port.ok_or_else(wrong)?))
            }
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let legal =
            device.starts_with(|c: char| c.is_ascii_alphanumeric()) && device.chars().all(fits);
        if !legal {
            return Err(wrong());
        }
        Ok(PortName { device: device.to_owned(), port })
    }
}

/// Which devices to use: `DEV[:PORT][,…]`, or `^DEV[:PORT][,…]` for all but these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceFilter {
    /// These, in this order.
    Only(Vec<PortName>),
    /// All but these.
    Except(Vec<PortName>),
}

impl DeviceFilter {
    /// Whether port `port` of `device` may be used.
    pub fn admits(&self, device: &str, port: u8) -> bool {
        match self {
            DeviceFilter::Only(names) => names.iter().any(|name| name.names(device, port)),
            DeviceFilter::Except(names) => !names.iter().any(|name| name.names(device, port)),
        }
    }
}

impl FromStr for DeviceFilter {
    type Err = SelectError;

    fn from_str(text: &str) -> Result<Self, SelectError> {
        let (except, list) = match text.strip_prefix('^') {
            Some(list) => (true, list),
            None => (false, text),
        };
        let names = list.split(',').map(str::parse).collect::<Result<Vec<_>, _>>()?;
        Ok(if except { DeviceFilter::Except(names) } else { DeviceFilter::Only(names) })
    }
}

/// Reads a map of rails: on each line a port of the first host and one of the second, separated by
/// white space; `#` begins a comment.
pub fn parse_map(text: &str) -> Result<Vec<(PortName, PortName)>, SelectError> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let pair = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            [a, b] => Ok((a.parse()?, b.parse()?)),
            _ => Err(SelectError {
                text: line.to_owned(),
                wanted: "rail (write a device of the first host and one of the second on a line)",
            }),
        }
    };
    let rails = lines.filter(|line| !line.is_empty()).map(pair).collect::<Result<Vec<_>, _>>()?;
    if rails.is_empty() {
        return Err(SelectError { text: text.to_owned(), wanted: "map of rails: it has no line" });
    }
    Ok(rails)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_exclusions_are_read() {
        let only: DeviceFilter = "mlx5_0:1,mlx5_1".parse().unwrap();
        assert!(only.admits("mlx5_0", 1) && only.admits("mlx5_1", 2));
        assert!(!only.admits("mlx5_0", 2) && !only.admits("mlx5_10", 1));
        let except: DeviceFilter = "^mlx5_2".parse().unwrap();
        assert!(except.admits("mlx5_0", 1) && !except.admits("mlx5_2", 1));
    }

    #[test]
    fn what_is_no_device_is_refused() {
        for text in ["", "^", "mlx5_0:0", "mlx5_0:x", "a,,b", "../x", "-x", "a b", "m:999"] {
            assert!(text.parse::<DeviceFilter>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn maps_are_read_line_by_line() {
        let map = parse_map("# a b\nmlx5_0 mlx5_3:2 # crossed\n\n").unwrap();
        assert_eq!(map.len(), 1);
        assert_eq!(
            (map[0].0.to_string(), map[0].1.to_string()),
            ("mlx5_0".into(), "mlx5_3:2".into())
        );
        assert!(parse_map("mlx5_0\n").is_err() && parse_map("# nothing\n").is_err());
    }
}
