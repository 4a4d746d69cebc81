//! Which GPU is served by which adapter.

use super::scene::Scene;

/// An adapter for each GPU: the nearest class first, then the fastest, then the least loaded, so that
/// no two GPUs share one while an equal one is free.
///
/// Nearest and fastest leave each GPU a set of equals; over those an assignment of least load is
/// found by augmenting paths (an optimal semi-matching; Harvey et al., WADS 2003).
pub fn assign(scene: &Scene) -> Vec<Option<usize>> {
    let equals: Vec<Vec<usize>> = (0..scene.gpus.len()).map(|gpu| candidates(scene, gpu)).collect();
    let mut owner: Vec<Option<usize>> = vec![None; scene.gpus.len()];
    let mut served: Vec<Vec<usize>> = vec![Vec::new(); scene.adapters.len()];
    for gpu in 0..scene.gpus.len() {
        augment(gpu, &equals, &mut owner, &mut served);
    }
    owner
}

/// Adapters of the nearest class, and of those the fastest, in order.
pub fn candidates(scene: &Scene, gpu: usize) -> Vec<usize> {
    let row = &scene.classes[gpu];
    let Some(best) = scene.best(gpu) else { return Vec::new() };
    let near: Vec<usize> = scene.eligible().filter(|&hca| row[hca] == best).collect();
    let rate = |hca: usize| scene.adapters[hca].rate_mbps;
    let fastest = near.iter().filter_map(|&hca| rate(hca)).max();
    near.into_iter().filter(|&hca| rate(hca).is_none() || rate(hca) == fastest).collect()
}

/// Gives `gpu` an adapter; where all of its own are busier than one that GPUs already placed could
/// move to, they move.
fn augment(
    gpu: usize,
    equals: &[Vec<usize>],
    owner: &mut [Option<usize>],
    served: &mut [Vec<usize>],
) {
    // Breadth first over adapters; each remembers the GPU that would move to it.
    let mut mover: Vec<Option<usize>> = vec![None; served.len()];
    let mut queue: Vec<usize> = Vec::new();
    for &hca in &equals[gpu] {
        mover[hca] = Some(gpu);
        queue.push(hca);
    }
    let mut next = 0;
    while next < queue.len() {
        for &resident in &served[queue[next]] {
            for &hca in &equals[resident] {
                if mover[hca].is_none() {
                    mover[hca] = Some(resident);
                    queue.push(hca);
                }
            }
        }
        next += 1;
    }
    // The first of the least loaded: order breaks ties.
    let Some(mut to) = queue.iter().copied().min_by_key(|&hca| served[hca].len()) else { return };
    while let Some(moving) = mover[to] {
        let from = owner[moving].replace(to);
        served[to].push(moving);
        match from {
            Some(from) => {
                served[from].retain(|&resident| resident != moving);
                to = from;
            }
            None => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::distance::Class;
    use super::super::scene::{Adapter, GpuView};
    use super::*;

    fn scene(classes: &[&[Class]], rates: &[u64]) -> Scene {
        let gpu = |at: usize| GpuView {
            name: format!("GPU{at}"),
            bdf: None,
            model: None,
            label: None,
            node: None,
            socket: None,
            c2c: false,
            missing: false,
        };
        let adapter = |rate: &u64| Adapter {
            name: String::new(),
            devices: vec![],
            bdf: None,
            nodes: vec![],
            dma: vec![],
            rate_mbps: Some(*rate),
            link_layer: None,
            excluded: None,
        };
        Scene {
            gpus: (0..classes.len()).map(gpu).collect(),
            adapters: rates.iter().map(adapter).collect(),
            classes: classes.iter().map(|row| row.to_vec()).collect(),
            sockets_assumed: false,
            adapter_places: rates.len(),
        }
    }

    #[test]
    fn equals_are_shared_out_one_to_one_in_order() {
        use Class::{Pix, Sys};
        let four = scene(&[&[Pix; 4], &[Pix; 4], &[Pix; 4], &[Pix; 4]], &[100; 4]);
        assert_eq!(assign(&four), [Some(0), Some(1), Some(2), Some(3)]);
        // GPU0 could take either; GPU1 has one: GPU0 moves.
        let moved = scene(&[&[Pix, Pix], &[Pix, Sys]], &[100; 2]);
        assert_eq!(assign(&moved), [Some(1), Some(0)]);
    }

    #[test]
    fn class_outweighs_rate_and_rate_outweighs_load() {
        use Class::{Node, Pix};
        let rates = scene(&[&[Pix, Pix, Node], &[Pix, Pix, Node]], &[400, 100, 800]);
        assert_eq!(assign(&rates), [Some(0), Some(0)]);
    }

    #[test]
    fn more_gpus_than_adapters_share_evenly() {
        let row: &[Class] = &[Class::Pxb; 2];
        let eight = scene(&[row; 8], &[100; 2]);
        let served = assign(&eight);
        assert_eq!(served.iter().filter(|hca| **hca == Some(0)).count(), 4);
    }
}
