//! A `/sys` packed by tar, plain or gzipped, read into a snapshot.
//!
//! Nothing is written anywhere, so no entry can escape; entries and links that try to are refused or
//! dropped, and what comes out of the compression is bounded.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use crate::snapshot::{Entry, Snapshot};

/// Entries taken.
const ENTRIES: usize = 400_000;

/// Bytes taken of one file; larger ones are cut.
const FILE: u64 = 64 << 10;

/// Bytes read of the unpacked archive.
const UNPACKED: u64 = 256 << 20;

/// Bytes kept of all files.
const KEPT: usize = 64 << 20;

/// Whether `bytes` begin like a gzip or tar file.
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b]) || bytes.get(257..262) == Some(b"ustar")
}

/// What the archive holds, by absolute path from `/`.
pub fn snapshot(bytes: &[u8]) -> Result<Snapshot, String> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return unpack(MultiGzDecoder::new(bytes).take(UNPACKED));
    }
    unpack(bytes.take(UNPACKED))
}

fn unpack(reader: impl Read) -> Result<Snapshot, String> {
    let mut archive = tar::Archive::new(reader);
    let mut snapshot = Snapshot::default();
    let mut kept = 0;
    let entries = archive.entries().map_err(|error| error.to_string())?;
    for (number, entry) in entries.enumerate() {
        let mut entry = entry.map_err(|error| format!("entry {}: {error}", number + 1))?;
        if number >= ENTRIES {
            return Err(format!("more than {ENTRIES} entries"));
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let Some(path) = place(&name)? else { continue };
        let kind = entry.header().entry_type();
        if kind.is_symlink() {
            let target = entry.link_name_bytes().unwrap_or_default();
            if let Some(target) = resolve(&path, &String::from_utf8_lossy(&target)) {
                snapshot.entries.insert(path, Entry::Link(target));
            }
        } else if kind.is_file() {
            let mut content = Vec::new();
            entry
                .by_ref()
                .take(FILE)
                .read_to_end(&mut content)
                .map_err(|e| format!("{name}: {e}"))?;
            kept += content.len();
            if kept > KEPT {
                return Err(format!("files of more than {} MiB", KEPT >> 20));
            }
            let text = text(&path, &content);
            snapshot.entries.insert(path, Entry::Text(text));
        }
    }
    Ok(snapshot)
}

/// A file's text; configuration space is binary and kept as hex digits.
fn text(path: &str, content: &[u8]) -> String {
    if path.ends_with("/config") || path.ends_with("/vpd") {
        return super::sysfs::config_text(content);
    }
    String::from_utf8_lossy(content).into_owned()
}

/// Absolute path of an entry: what stands before `sys`, `proc` or `etc` is the archive's own folder,
/// and a tar of `/sys` itself begins with `bus`, `class` or `devices`.
fn place(name: &str) -> Result<Option<String>, String> {
    let parts: Vec<&str> =
        name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        let shown: String = name.chars().take(80).collect();
        return Err(format!("entry {shown:?} leads out of the archive"));
    }
    let root = parts.iter().take(4).position(|part| matches!(*part, "sys" | "proc" | "etc"));
    if let Some(root) = root {
        return Ok(Some(format!("/{}", parts[root..].join("/"))));
    }
    let first =
        parts.iter().take(2).position(|p| matches!(*p, "bus" | "class" | "devices" | "module"));
    Ok(first.map(|first| format!("/sys/{}", parts[first..].join("/"))))
}

/// Where the link at `path` leads; none when it leads above the root.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.starts_with('/') {
        true => Vec::new(),
        false => path.split('/').filter(|part| !part.is_empty()).collect(),
    };
    if !target.starts_with('/') {
        parts.pop();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar_of(entries: &[(&str, Result<&[u8], &str>)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in entries {
            let mut header = tar::Header::new_ustar();
            header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
            let data = match content {
                Ok(data) => *data,
                Err(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.as_mut_bytes()[157..157 + target.len()]
                        .copy_from_slice(target.as_bytes());
                    b""
                }
            };
            header.set_size(data.len() as u64);
            header.set_cksum();
            builder.append(&header, data).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn a_tree_is_found_under_any_folder_and_links_are_resolved() {
        let file: Result<&[u8], &str> = Ok(b"0x15b3\n");
        let archive = tar_of(&[
            ("host/sys/devices/pci0000:00/0000:00:01.0/vendor", file),
            (
                "host/sys/bus/pci/devices/0000:00:01.0",
                Err("../../../devices/pci0000:00/0000:00:01.0"),
            ),
            ("host/sys/devices/pci0000:00/0000:00:01.0/config", Ok(&[0xb3, 0x15])),
        ]);
        assert!(is_archive(&archive));
        let snapshot = snapshot(&archive).unwrap();
        let device = "/sys/devices/pci0000:00/0000:00:01.0";
        assert_eq!(snapshot.text(&format!("{device}/vendor")), Some("0x15b3"));
        assert_eq!(snapshot.link("/sys/bus/pci/devices/0000:00:01.0"), Some(device));
        assert_eq!(snapshot.text(&format!("{device}/config")), Some("b315"));
    }

    #[test]
    fn nothing_escapes() {
        let out = tar_of(&[("sys/../../etc/passwd", Ok(b"x"))]);
        assert!(snapshot(&out).unwrap_err().contains("leads out"));
        let link = tar_of(&[("sys/bus/pci/devices/x", Err("../../../../../../etc/shadow"))]);
        assert!(snapshot(&link).unwrap().entries.is_empty());
    }
}
