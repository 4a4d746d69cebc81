//! Takes out of a report what names its owner: host names, users, addresses, GUIDs, serials.
//!
//! The same name becomes the same substitute everywhere, so that a redacted report still tells which
//! end is which. What is replaced by pattern (addresses, GUIDs) is so in any text, whoever wrote it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::model::Report;

/// Fields whose content the program itself chooses, or that hold no text.
const OURS: [&str; 8] =
    ["schema", "version", "commit", "hash", "started", "finished", "histogram", "status"];

/// Substitutes, given in the order in which things appear; one for all reports that belong together.
#[derive(Debug, Default)]
pub struct Redactor {
    names: BTreeMap<String, String>,
    hosts: usize,
    patterns: BTreeMap<String, String>,
    numbers: BTreeMap<&'static str, u32>,
}

impl Redactor {
    /// A copy of the report without names.
    ///
    /// # Errors
    ///
    /// When a figure is not a finite number, which JSON cannot hold either.
    pub fn report(&mut self, report: &Report) -> serde_json::Result<Report> {
        self.learn(report);
        let mut value = serde_json::to_value(report)?;
        self.value(&mut value, "");
        serde_json::from_value(value)
    }

    /// The text with every known name and everything that looks like an address replaced.
    pub fn text(&mut self, text: &str) -> String {
        let named = self.without_names(text);
        self.without_addresses(&named)
    }

    fn learn(&mut self, report: &Report) {
        for host in &report.hosts {
            self.host(&[&host.name, &host.hostname]);
        }
        let ends = report.measurements.iter().flat_map(|m| [&m.data_from, &m.data_to]);
        let ends = ends.filter_map(|end| end.rsplit_once('/')).map(|(host, _)| host);
        let others = report.checks.iter().map(|check| check.host.as_str());
        let others = others.chain(report.topology.iter().map(|host| host.host.as_str()));
        for name in others.chain(ends) {
            self.host(&[name]);
        }
        for word in &report.command {
            self.users(word);
        }
    }

    /// Names of one host: all get one substitute. `local` names nobody.
    fn host(&mut self, names: &[&str]) {
        let ours = |name: &str| name.is_empty() || name.starts_with("local");
        let address = |name: &str| name.parse::<IpAddr>().is_ok();
        let names = names.iter().copied().filter(|name| !ours(name) && !address(name));
        let mut new: Vec<String> = Vec::new();
        for name in names {
            new.push(name.to_owned());
            new.extend(name.split_once('.').map(|(short, _)| short.to_owned()));
        }
        new.retain(|name| !name.is_empty() && !name.bytes().all(|b| b.is_ascii_digit()));
        let known = new.iter().find_map(|name| self.names.get(name)).cloned();
        if new.is_empty() {
            return;
        }
        let substitute = known.unwrap_or_else(|| {
            self.hosts += 1;
            format!("host-{}", self.hosts)
        });
        for name in new {
            self.names.entry(name).or_insert_with(|| substitute.clone());
        }
    }

    /// `user` of `user@host` and of `/home/user/`.
    fn users(&mut self, word: &str) {
        let before_at = word.split_once('@').map(|(user, _)| user);
        let home = word.split_once("/home/").and_then(|(_, rest)| rest.split('/').next());
        for user in before_at.into_iter().chain(home) {
            let user = user.rsplit(['/', '=', ' ']).next().unwrap_or_default();
            if user.len() > 2 && user != "root" && !self.names.contains_key(user) {
                let number = self.next("user");
                self.names.insert(user.to_owned(), format!("user-{number}"));
            }
        }
    }

    fn next(&mut self, kind: &'static str) -> u32 {
        let number = self.numbers.entry(kind).or_default();
        *number += 1;
        *number
    }

    fn value(&mut self, value: &mut Value, key: &str) {
        match value {
            Value::String(_) if OURS.contains(&key) => {}
            Value::String(text) if key.ends_with("serial") || key.ends_with("serial_number") => {
                *text = self.known(text, "serial", |n| format!("serial-{n}"));
            }
            Value::String(text) => *text = self.text(text),
            Value::Array(all) => all.iter_mut().for_each(|v| self.value(v, key)),
            Value::Object(all) => {
                for (key, value) in all.iter_mut() {
                    self.value(value, key);
                }
                let old = std::mem::take(all);
                *all = old.into_iter().map(|(key, value)| (self.text(&key), value)).collect();
            }
            _ => {}
        }
    }

    /// In one pass, the longest name first, so that no substitute is replaced again.
    fn without_names(&self, text: &str) -> String {
        let mut names: Vec<(&String, &String)> = self.names.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut safe = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let starts = !safe.chars().next_back().is_some_and(of_word);
            let here = names.iter().find(|(name, _)| starts && names_here(rest, name, text));
            if let Some((name, substitute)) = here {
                safe.push_str(substitute);
                rest = &rest[name.len()..];
                rest = &rest[domain(rest)..];
            } else {
                safe.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        safe
    }

    fn without_addresses(&mut self, text: &str) -> String {
        let of_token = |c: char| c.is_ascii_alphanumeric() || c == ':' || c == '.';
        let mut safe = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let begin = rest.find(of_token).unwrap_or(rest.len());
            safe.push_str(&rest[..begin]);
            rest = &rest[begin..];
            let end = rest.find(|c| !of_token(c)).unwrap_or(rest.len());
            safe.push_str(&self.token(&rest[..end]));
            rest = &rest[end..];
        }
        safe
    }

    /// A word of letters, digits, colons and dots, replaced where it is an address or a GUID.
    fn token(&mut self, token: &str) -> String {
        // An end of sentence, or the colon after a name, belongs to no address.
        let bare = token.strip_suffix("::").map_or(token.trim_end_matches([':', '.']), |_| token);
        let tail = &token[bare.len()..];
        if let Some(safe) = self.address(bare) {
            return safe + tail;
        }
        // `10.0.0.1:7471`
        let parts: Vec<String> = bare
            .split(':')
            .map(|part| match part.parse::<Ipv4Addr>() {
                Ok(v4) => self.v4(v4),
                Err(_) => part.to_owned(),
            })
            .collect();
        parts.join(":") + tail
    }

    fn address(&mut self, token: &str) -> Option<String> {
        if let Ok(v4) = token.parse::<Ipv4Addr>() {
            return Some(self.v4(v4));
        }
        if let Ok(v6) = token.parse::<Ipv6Addr>() {
            return Some(self.v6(v6));
        }
        let groups: Vec<&str> = token.split(':').collect();
        let hex = |width: usize| {
            let digits = |g: &&str| g.len() == width && g.bytes().all(|b| b.is_ascii_hexdigit());
            groups.iter().all(digits)
        };
        if groups.len() == 4 && hex(4) {
            return Some(self.known(token, "GUID", |n| {
                format!("0000:0000:{:04x}:{:04x}", n >> 16, n & 0xffff)
            }));
        }
        if groups.len() >= 6 && hex(2) {
            return Some(self.known(token, "MAC", |n| {
                let [a, b, c, d] = n.to_be_bytes();
                format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
            }));
        }
        let digits = token.strip_prefix("0x").unwrap_or(token);
        let long = digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let is_guid = long && digits.bytes().any(|b| b.is_ascii_alphabetic());
        is_guid.then(|| self.known(token, "GUID", |n| format!("0x{n:016x}")))
    }

    /// Into 198.18.0.0/15, which is kept for benchmarks (RFC 2544).
    fn v4(&mut self, address: Ipv4Addr) -> String {
        if address.is_loopback() || address.is_unspecified() || address.is_broadcast() {
            return address.to_string();
        }
        self.known(&address.to_string(), "IPv4", |n| {
            Ipv4Addr::from_bits((198 << 24) + (18 << 16) + (n & 0x1_ffff)).to_string()
        })
    }

    /// Into 2001:db8::/32, which is kept for documentation; link-local stays link-local.
    fn v6(&mut self, address: Ipv6Addr) -> String {
        if let Some(v4) = address.to_ipv4_mapped() {
            return format!("::ffff:{}", self.v4(v4));
        }
        let [first, ..] = address.segments();
        let prefix = u128::from(first) << 112;
        let says_nothing = address.is_loopback() || address.is_unspecified();
        if says_nothing || address.to_bits() == prefix {
            return address.to_string();
        }
        let local = (first & 0xffc0) == 0xfe80;
        let base = if local { 0xfe80u128 << 112 } else { 0x2001_0db8u128 << 96 };
        self.known(&address.to_string(), "IPv6", |n| {
            Ipv6Addr::from_bits(base + u128::from(n)).to_string()
        })
    }

    /// The substitute of something seen before, else the next of its kind.
    fn known(&mut self, found: &str, kind: &'static str, make: impl Fn(u32) -> String) -> String {
        if let Some(known) = self.patterns.get(found) {
            return known.clone();
        }
        let substitute = make(self.next(kind));
        self.patterns.insert(found.to_owned(), substitute.clone());
        substitute
    }
}

/// Whether `rest`, a tail of `whole`, begins with this name as a word. A name of one or two letters
/// may be a word of any sentence: it counts where it stands alone or before a port.
fn names_here(rest: &str, name: &str, whole: &str) -> bool {
    let Some(after) = rest.strip_prefix(name) else { return false };
    let ends = !after.chars().next().is_some_and(of_word);
    ends && (name.len() > 2 || whole == name || after.starts_with('/'))
}

/// Part of a host name beside the dots.
fn of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Length of `.example.com` at the beginning.
fn domain(rest: &str) -> usize {
    let mut end = 0;
    while let Some(label) = rest[end..].strip_prefix('.') {
        let length = label.find(|c| !of_word(c)).unwrap_or(label.len());
        if length == 0 {
            break;
        }
        end += 1 + length;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        let mut redactor = Redactor::default();
        redactor.host(&["gpu01", "gpu01.cluster.example.com"]);
        redactor.host(&["gpu02"]);
        redactor.host(&["a"]);
        redactor.users("alice@gpu01,addr=10.0.0.1");
        redactor
    }

    #[test]
    fn every_kind_of_name_is_replaced_and_the_rest_stays() {
        let mut redactor = redactor();
        for (text, safe) in [
            ("gpu01/mlx5_0:1", "host-1/mlx5_0:1"),
            ("gpu01.cluster.example.com is slow.", "host-1 is slow."),
            ("alice@gpu02", "user-1@host-2"),
            ("gpu012 and xgpu01", "gpu012 and xgpu01"),
            ("a rail of a/mlx5_0", "a rail of host-3/mlx5_0"),
            ("1 ::ffff:10.1.2.3", "1 ::ffff:198.18.0.1"),
            ("bind 10.1.2.3:7471: refused", "bind 198.18.0.1:7471: refused"),
            ("fe80::aa:bb, 2001:470::5", "fe80::1, 2001:db8::2"),
            ("b859:9f03:00c2:a1b2", "0000:0000:0000:0001"),
            ("0xb8599f0300c2a1b3", "0x0000000000000002"),
            ("b8:59:9f:c2:a1:b2", "02:00:00:00:00:01"),
        ] {
            assert_eq!(redactor.text(text), safe);
        }
        for same in [
            "0000:3b:00.0",
            "28.39.1002",
            "127.0.0.1 and ::1 and fe80::",
            "09:00:00",
            "64 KiB write rail0 A→B: 431.2 Mb/s",
            "4x NDR, 0x1",
        ] {
            assert_eq!(redactor.text(same), same);
        }
    }

    #[test]
    fn a_substitute_is_never_replaced_again() {
        let mut redactor = Redactor::default();
        redactor.host(&["host-2"]);
        redactor.host(&["host-1"]);
        assert_eq!(redactor.text("host-2 to host-1"), "host-1 to host-2");
    }
}
