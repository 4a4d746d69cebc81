//! Damaged captures end in an error or a verdict, never in a panic or without end.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fabbench_harness::topology::{self, Rules, view};

/// Longest that any damaged file may take, in a debug build on a busy machine.
const LIMIT: Duration = Duration::from_secs(10);

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topologies");
    let mut files = Vec::new();
    for folder in std::fs::read_dir(root).unwrap().flatten().filter(|f| f.path().is_dir()) {
        for file in std::fs::read_dir(folder.path()).unwrap().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            if !name.starts_with("PROVENANCE") && !name.starts_with("LICENSE") {
                files.push((file.path(), std::fs::read(file.path()).unwrap()));
            }
        }
    }
    files.sort();
    assert!(files.len() >= 80, "{} files", files.len());
    files
}

/// A small generator (xorshift64*): the same damage on every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        (mixed >> 32) as usize % limit.max(1)
    }
}

/// Reads, judges and draws; tells whether it could be read.
fn survives(name: &Path, bytes: &[u8]) -> bool {
    let start = Instant::now();
    let read = topology::read(&name.display().to_string(), bytes);
    let readable = read.is_ok();
    if let Ok(topology) = read {
        let judged = topology::judge(&topology, Rules { same_switch: true });
        let _ = view::table(&topology, &judged, "test");
        let _ = view::tree(&topology, &judged);
        let _ = view::matrix(&judged);
        let _ = view::explain(&topology, &judged, "GPU0");
    }
    assert!(start.elapsed() < LIMIT, "{}: {:?}", name.display(), start.elapsed());
    readable
}

fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "gz")
}

/// One kind of damage to a text.
fn damage(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let mut other = bytes.to_vec();
    let (a, b) = (dice.below(lines.len()), dice.below(lines.len()));
    match dice.below(8) {
        0 => lines.swap(a, b),
        1 => lines.insert(a, lines[b]),
        2 => drop(lines.remove(a)),
        3 => {
            let at = dice.below(other.len());
            other[at] = b" \t<>\"-0fX[]\xff"[dice.below(12)];
            return other;
        }
        4 => {
            let at = dice.below(other.len());
            other.remove(at);
            return other;
        }
        5 => return other[..dice.below(bytes.len())].to_vec(),
        6 => {
            // A number becomes huge.
            let at = (0..other.len()).filter(|at| other[*at].is_ascii_digit()).nth(dice.below(200));
            if let Some(at) = at {
                other.splice(at..at, b"99999999999999999999".iter().copied());
            }
            return other;
        }
        _ => {
            let at = dice.below(other.len());
            let long = vec![b"A<\" 9"[dice.below(5)]; 100_000];
            other.splice(at..at, long);
            return other;
        }
    }
    lines.concat()
}

#[test]
fn cut_files_are_errors_or_judged_on_what_is_there() {
    for (path, bytes) in corpus() {
        let xml = path.extension().is_some_and(|end| end == "xml");
        let end = bytes.trim_ascii_end().len();
        for part in 1..16 {
            let cut = &bytes[..end * part / 16];
            let readable = survives(&path, cut);
            assert!(!(xml && readable), "{}: {part}/16 of it was read", path.display());
        }
    }
}

#[test]
fn changed_files_do_not_break_the_readers() {
    let mut dice = Dice(0x5eed);
    for (path, bytes) in corpus() {
        if is_archive(&path) {
            continue;
        }
        for _ in 0..8 {
            let mut changed = damage(&bytes, &mut dice);
            if dice.below(2) == 0 && !changed.is_empty() {
                changed = damage(&changed, &mut dice);
            }
            survives(&path, &changed);
        }
    }
}

#[test]
fn changed_archives_do_not_break_the_readers() {
    let mut dice = Dice(0xa4c);
    for (path, bytes) in corpus().into_iter().filter(|(path, _)| is_archive(path)) {
        let mut tar = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut tar).unwrap();
        assert!(survives(&path, &tar), "{}: plain tar", path.display());
        for _ in 0..3 {
            let mut packed = bytes.clone();
            let at = dice.below(packed.len());
            packed[at] ^= 1 << dice.below(8);
            survives(&path, &packed);
            let mut plain = tar.clone();
            for _ in 0..20 {
                // Headers stand at multiples of 512.
                let at = dice.below(plain.len() / 512) * 512 + dice.below(512);
                plain[at] = b"/.\0 17pz"[dice.below(8)];
            }
            survives(&path, &plain);
        }
    }
}

#[test]
fn what_unpacks_without_end_is_cut_off() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let zeros = vec![0u8; 1 << 20];
    for _ in 0..300 {
        packer.write_all(&zeros).unwrap();
    }
    let bomb = packer.finish().unwrap();
    assert!(bomb.len() < 4 << 20);
    assert!(!survives(Path::new("bomb.tar.gz"), &bomb));
}

#[test]
fn a_large_file_is_read_in_no_time() {
    let function = |bus: usize| {
        format!(
            "<pci busid=\"{bus:04x}:01:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>\n"
        )
    };
    let mut text = String::from("<system version=\"1\"><cpu numaid=\"0\">\n");
    (0..2000).for_each(|bus| text.push_str(&function(bus)));
    while text.len() < 10 << 20 {
        text.push_str("<other attribute=\"0123456789012345678901234567890123456789\"/>\n");
    }
    text.push_str("</cpu></system>");
    assert!(survives(Path::new("large.xml"), text.as_bytes()));
}
