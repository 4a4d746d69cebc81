//! What a binary needs of the C library.

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader as _};
use object::{Endianness, StringTable};

/// Version of glibc, major and minor.
pub type GlibcVersion = (u32, u32);

/// The newest version of glibc that the 64-bit ELF file `data` asks for; none when it asks for no
/// glibc (linked statically, or to another C library).
///
/// # Errors
/// When `data` is no such file.
pub fn needed_glibc(data: &[u8]) -> Result<Option<GlibcVersion>, object::Error> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let Some((mut needs, link)) = sections.gnu_verneed(endian, data)? else { return Ok(None) };
    let strings: StringTable<'_, _> = {
        let section = sections.section(link)?;
        let (start, size) = section.file_range(endian).unwrap_or_default();
        StringTable::new(data, start, start.saturating_add(size))
    };
    let mut newest = None;
    while let Some((_, mut versions)) = needs.next()? {
        while let Some(version) = versions.next()? {
            let name = version.name(endian, strings)?;
            newest = newest.max(std::str::from_utf8(name).ok().and_then(parse_version));
        }
    }
    Ok(newest)
}

/// Understands `GLIBC_2.34`, and `glibc 2.36` as getconf prints it.
pub fn parse_version(text: &str) -> Option<GlibcVersion> {
    let numbers = text.strip_prefix("GLIBC_").or_else(|| text.strip_prefix("glibc "))?;
    let mut parts = numbers.trim().split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next().unwrap_or("0").parse().ok()?;
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse_version("GLIBC_2.34"), Some((2, 34)));
        assert_eq!(parse_version("GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(parse_version("glibc 2.36\n"), Some((2, 36)));
        assert!(parse_version("GLIBC_2.4") < parse_version("GLIBC_2.34"));
        assert_eq!(parse_version("GLIBC_PRIVATE"), None);
        assert_eq!(parse_version("unknown"), None);
    }

    #[test]
    fn this_binary_needs_no_newer_glibc_than_it_runs_on() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let needed = needed_glibc(&own).unwrap().expect("linked to glibc");
        let output = std::process::Command::new("getconf").arg("GNU_LIBC_VERSION").output();
        let here = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(needed >= (2, 2), "{needed:?}");
        assert!(needed <= parse_version(&here).unwrap(), "{needed:?} {here}");
        assert!(needed_glibc(b"#!/bin/sh\n").is_err());
    }
}
