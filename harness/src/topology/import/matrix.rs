//! Text of `nvidia-smi topo -m`: classes alone, no tree.
//!
//! Cells are separated by tabs or spaces; text may stand around the matrix; affinity columns may be
//! empty. A row that does not hold as many cells as the header has devices is damaged: it is said
//! and left out, never shifted.

use std::collections::BTreeMap;

use crate::topology::distance::Class;
use crate::topology::model::{Fact, Matrix, Source, Topology};

/// Devices taken of a matrix.
const DEVICES: usize = 1024;

/// Whether `text` holds a matrix.
pub fn is_matrix(text: &str) -> bool {
    text.lines().any(|line| header(line).is_some())
}

/// Reads the first matrix in `text`.
pub fn read(text: &str) -> Result<Topology, String> {
    let mut lines = text.lines();
    let devices = lines.by_ref().find_map(header).ok_or("no line with the devices' names")?;
    if devices.len() > DEVICES {
        return Err(format!("more than {DEVICES} devices in a row"));
    }
    let mut rows = BTreeMap::new();
    let mut topology = Topology::new(Source::NvidiaSmi);
    let mut matrix = Matrix::default();
    for line in lines.by_ref() {
        if header(line).is_some() || line.trim_start().starts_with("Legend") {
            break;
        }
        let Some(name) = line.split_whitespace().next() else { continue };
        let Some(at) = devices.iter().position(|device| *device == name) else { continue };
        match row(line, at, devices.len()) {
            Ok(row) => {
                rows.entry(at).or_insert(row);
            }
            Err(what) => matrix.damaged.push((name.to_owned(), what)),
        }
    }
    let legend = legend(lines);
    fill(&mut matrix, &devices, &rows, &legend);
    note(&mut topology, &matrix, &devices, &rows);
    topology.machine.grace = is_grace(&matrix.affinity);
    topology.matrix = Some(matrix);
    Ok(topology)
}

/// Names of the devices when `line` is the matrix's header.
fn header(line: &str) -> Option<Vec<&str>> {
    let words = line.split_whitespace();
    let names: Vec<&str> =
        words.take_while(|word| !matches!(*word, "CPU" | "NUMA" | "GPU")).collect();
    let device = |name: &&str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
            && cell(name).is_none()
    };
    // `GPU0` alone is also what a row begins with, and what a sentence may.
    let fits = names.iter().any(|name| is_gpu(name)) && names.iter().all(device);
    let rest = line.split_whitespace().nth(names.len());
    let is_header = fits && (rest == Some("CPU") || rest == Some("NUMA") || names.len() >= 2);
    is_header.then_some(names)
}

fn is_gpu(name: &str) -> bool {
    name.strip_prefix("GPU")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// What a cell says; none for anything that is no cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Own,
    Class(Class),
    NvLink,
    Empty,
}

fn cell(text: &str) -> Option<Cell> {
    Some(match text {
        "X" => Cell::Own,
        "-" => Cell::Empty,
        "PIX" => Cell::Class(Class::Pix),
        "PXB" => Cell::Class(Class::Pxb),
        "PHB" => Cell::Class(Class::Phb),
        "NODE" => Cell::Class(Class::Node),
        "SYS" | "SOC" => Cell::Class(Class::Sys),
        "PSB" => Cell::Class(Class::Pix),
        _ => {
            let links = text.strip_prefix("NV").filter(|rest| !rest.is_empty())?;
            links.bytes().all(|b| b.is_ascii_digit() || b == b'#').then_some(Cell::NvLink)?
        }
    })
}

struct Row {
    cells: Vec<Cell>,
    affinity: String,
    numa: Option<u32>,
}

fn row(line: &str, own: usize, devices: usize) -> Result<Row, String> {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let mut cells = Vec::with_capacity(devices);
    for word in words.iter().take(devices) {
        let shown: String = word.chars().take(20).collect();
        cells.push(cell(word).ok_or(format!("cell {} reads {shown:?}", cells.len() + 1))?);
    }
    if cells.len() < devices {
        return Err(format!("{} cells for {devices} devices", cells.len()));
    }
    if cells[own] != Cell::Own || cells.iter().filter(|cell| **cell == Cell::Own).count() != 1 {
        return Err("the X is not in its own column".into());
    }
    if words.get(devices).is_some_and(|word| cell(word).is_some_and(|cell| cell != Cell::Empty)) {
        return Err(format!("more than {devices} cells"));
    }
    let (affinity, numa) = tail(line, &words[devices..], devices);
    Ok(Row { cells, affinity, numa })
}

/// CPU and NUMA affinity: by their columns where tabs show those, else by their form.
fn tail(line: &str, words: &[&str], devices: usize) -> (String, Option<u32>) {
    if line.contains('\t') {
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let first = fields.iter().position(|field| !field.is_empty()).unwrap_or(0);
        let at = |offset: usize| fields.get(first + devices + offset).copied().unwrap_or_default();
        return (at(1).to_owned(), at(2).parse().ok().filter(|numa| *numa < 4096));
    }
    match words {
        [affinity, rest @ ..] if affinity.contains(['-', ',']) => {
            let numa = rest.first().and_then(|word| word.parse().ok());
            ((*affinity).to_owned(), numa.filter(|numa| *numa < 4096))
        }
        _ => (String::new(), None),
    }
}

/// `NIC0: mlx5_0` lines below the matrix.
fn legend<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, &'a str> {
    lines
        .filter_map(|line| line.trim().split_once(':'))
        .filter(|(nic, _)| nic.starts_with("NIC"))
        .map(|(nic, device)| (nic, device.trim()))
        .collect()
}

fn fill(
    matrix: &mut Matrix,
    devices: &[&str],
    rows: &BTreeMap<usize, Row>,
    legend: &BTreeMap<&str, &str>,
) {
    let (gpus, hcas): (Vec<usize>, Vec<usize>) =
        (0..devices.len()).partition(|&at| is_gpu(devices[at]));
    let class = |from: usize, to: usize| -> Option<Class> {
        match rows.get(&from)?.cells.get(to)? {
            Cell::Class(class) => Some(*class),
            Cell::Own | Cell::NvLink | Cell::Empty => None,
        }
    };
    // What one row lacks, the row of the other device may have.
    let either = |a: usize, b: usize| class(a, b).or(class(b, a)).unwrap_or(Class::Unknown);
    for &gpu in &gpus {
        matrix.gpus.push(devices[gpu].to_owned());
        matrix.classes.push(hcas.iter().map(|&hca| either(gpu, hca)).collect());
        let row = rows.get(&gpu);
        matrix.numa.push(row.and_then(|row| row.numa).into());
        matrix.affinity.push(row.map(|row| row.affinity.clone()).unwrap_or_default());
    }
    for &hca in &hcas {
        matrix.hcas.push(devices[hca].to_owned());
        matrix.devices.push(legend.get(devices[hca]).copied().unwrap_or_default().to_owned());
        matrix.between_hcas.push(hcas.iter().map(|&other| either(hca, other)).collect());
    }
}

fn note(topology: &mut Topology, matrix: &Matrix, devices: &[&str], rows: &BTreeMap<usize, Row>) {
    for (name, what) in &matrix.damaged {
        topology.notes.push(format!("row {name}: {what}; the row is left out"));
    }
    for (&at, row) in rows {
        for (to, cell) in row.cells.iter().enumerate().skip(at + 1) {
            let Cell::Class(class) = cell else { continue };
            let back = rows.get(&to).map(|other| other.cells[at]);
            if let Some(Cell::Class(other)) = back
                && other != *class
            {
                let (a, b) = (devices[at], devices[to]);
                topology.damage.push(format!("{a} to {b} reads {class}, {b} to {a} reads {other}"));
            }
        }
    }
    contradiction(topology, matrix);
}

/// NODE says one NUMA node; the affinity columns may say two.
fn contradiction(topology: &mut Topology, matrix: &Matrix) {
    for (hca, name) in matrix.hcas.iter().enumerate() {
        let near = |(gpu, classes): (usize, &Vec<Class>)| {
            (classes[hca] < Class::Sys).then(|| matrix.numa[gpu].known()).flatten()
        };
        let mut nodes: Vec<u32> = matrix.classes.iter().enumerate().filter_map(near).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() > 1 {
            topology.notes.push(format!(
                "{name} is shown within the NUMA node of GPUs of nodes {nodes:?}: classes and \
                 affinity contradict each other"
            ));
            return;
        }
    }
}

/// Grace has 72 cores a socket, without hyper-threads: affinities are whole blocks of 72.
fn is_grace(affinity: &[String]) -> bool {
    let block = |text: &String| {
        let (first, last) = text.split_once('-')?;
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        Some(first % 72 == 0 && last.checked_sub(first) == Some(71))
    };
    !affinity.is_empty() && affinity.iter().all(|text| block(text) == Some(true))
}

impl Matrix {
    /// NUMA node of an adapter: that of the GPUs which it is near.
    pub fn hca_numa(&self, hca: usize) -> Option<u32> {
        let near = |class: Class| class < Class::Sys && class != Class::NodeSameSocket;
        let rows = self.classes.iter().zip(&self.numa);
        let mut nodes: Vec<u32> = rows
            .filter(|(classes, _)| classes.get(hca).is_some_and(|class| near(*class)))
            .filter_map(|(_, numa)| match numa {
                Fact::Known(numa) => Some(*numa),
                Fact::Unknown | Fact::NotPermitted => None,
            })
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        match nodes[..] {
            [only] => Some(only),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLUED: &str = "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\n\
        GPU0\t X \tNV4\tPIX\tSYS\t0-7\n\
        GPU1\tNV4\t X \tSYSPIX\t8-15\n\
        NIC0\tPIX\tSYS\t X \tSYS\n";

    fn matrix(text: &str) -> Matrix {
        read(text).unwrap().matrix.unwrap()
    }

    #[test]
    fn a_damaged_row_is_said_and_never_shifted() {
        let matrix = matrix(GLUED);
        assert_eq!(matrix.damaged, [("GPU1".to_owned(), "cell 3 reads \"SYSPIX\"".to_owned())]);
        assert_eq!(matrix.classes[0], [Class::Pix, Class::Sys]);
        // The row of NIC0 still tells its distance to GPU1.
        assert_eq!(matrix.classes[1], [Class::Sys, Class::Unknown]);
    }

    #[test]
    fn a_row_that_lost_a_cell_is_damaged() {
        let short = GLUED.replace("GPU0\t X \tNV4\t", "GPU0\t X \t");
        assert_eq!(matrix(&short).damaged[0].0, "GPU0");
        let shifted = GLUED.replace("GPU0\t X \tNV4\tPIX", "GPU0\tNV4\t X \tPIX");
        assert!(matrix(&shifted).damaged[0].1.contains("own column"));
    }

    #[test]
    fn spaces_text_around_and_missing_affinity_do_not_matter() {
        let text = "$ nvidia-smi topo -m\n  GPU0   mlx5_bond_0  CPU Affinity NUMA Affinity\n\
            GPU0    X     SOC\nmlx5_bond_0  SOC  X\n\nLegend:\n";
        let matrix = matrix(text);
        assert_eq!(
            (&matrix.gpus[..], &matrix.hcas[..]),
            (&["GPU0".into()][..], &["mlx5_bond_0".into()][..])
        );
        assert_eq!(matrix.classes, [[Class::Sys]]);
        assert!(matrix.damaged.is_empty());
    }
}
