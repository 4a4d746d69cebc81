//! What the measuring loops themselves cost, over transports that move nothing.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use fabbench::engine::collective::{DataType, Reduction, kernels};
use fabbench::engine::ping_pong::Rally;
use fabbench::engine::stream::{Flow, Pump, run_alone};
use fabbench::engine::verify::Pattern;
use fabbench::engine::{End, StageCell};
use fabbench::measure::clock::{Clock, ClockQuality, Time};
use fabbench::measure::histogram::{self, Recorder};
use fabbench::session::protocol::Role;
use fabbench::transport::null::NullStream;

static ABORT: AtomicBool = AtomicBool::new(false);
static STAGE: StageCell = StageCell::new();

/// Messages or rounds a sample.
const COUNT: u64 = 100_000;

fn main() {
    let clock = ClockQuality::measure(&Clock);
    println!("clock: one reading {:.1} ns, resolution {} ns", clock.cost_ns, clock.resolution_ns);
    println!("bandwidth loop: {:.2} ns a message (at most 10 wanted)", message_ns());
    println!(
        "latency loop: {:.1} ns a round beside one clock reading (at most 30 wanted)",
        round_ns() - clock.cost_ns
    );
    for len in [64 << 10, 1 << 20, 64 << 20] {
        println!("{}", sums(len));
    }
    divan::main();
}

fn end() -> End<'static> {
    let patience = Duration::from_secs(10);
    let role = Role::Initiator;
    End { role, object: "null", abort: &ABORT, stage: &STAGE, patience, stall: patience }
}

fn flow(collects: bool) -> Flow {
    Flow {
        starts: true,
        collects,
        fetches: false,
        warmup_ns: 10_000_000,
        window_ns: 200_000_000,
        interval_ns: 100_000_000,
        depth: 128,
        in_flight: None,
        grace_ns: None,
        post_list: fabbench::engine::stream::POST_LIST,
        iterations: None,
        pace_ps: None,
    }
}

/// The whole loop of a bandwidth thread, with its clock, edges and checks.
fn message_ns() -> f64 {
    let mut null = NullStream::new(2, true);
    let ran = run_alone(&end(), &mut null, &Clock, &flow(false)).expect("null never fails");
    assert_eq!(ran.repeat.messages_sent, null.started());
    let counted: u64 = ran.repeat.sent_series.iter().sum();
    assert!(counted > 0 && counted < null.started());
    ran.repeat.window_ns as f64 / counted as f64
}

/// The median round of the latency loop with its clock reading and histogram: the mean would hold
/// what other programs take of this CPU.
fn round_ns() -> f64 {
    let (end, mut null, mut recorder) = (end(), NullStream::new(1, true), Recorder::new(1));
    let mut rally = Rally::new(&end, &mut null).expect("null never fails");
    let until_ns = Clock.now() + 200_000_000;
    let record = &mut |ns| recorder.record(ns);
    rally.play(&Clock, until_ns, u64::MAX, record).expect("null never fails");
    assert_eq!(rally.answered(), recorder.count());
    let latency = histogram::latency(&recorder.encoded(), &recorder.exact());
    latency.expect("own histogram").expect("at least one round").p50
}

#[divan::bench(args = [1, 8], counters = [ItemsCount::new(COUNT)])]
fn bandwidth(bencher: Bencher, lanes: usize) {
    bencher.bench_local(|| {
        let mut null = NullStream::new(lanes, true);
        let mut pump = Pump::new(&mut null, &flow(false)).expect("null never fails");
        while pump.started() < COUNT {
            black_box(pump.turn().expect("null never fails"));
        }
        assert_eq!(pump.started(), pump.finished());
        let started = pump.started();
        assert_eq!(null.started(), started);
        started
    });
}

#[divan::bench(counters = [ItemsCount::new(COUNT)])]
fn bandwidth_both_ways(bencher: Bencher) {
    bencher.bench_local(|| {
        let mut null = NullStream::new(2, true);
        let mut pump = Pump::new(&mut null, &flow(true)).expect("null never fails");
        while pump.started() < COUNT {
            black_box(pump.turn().expect("null never fails"));
        }
        assert_eq!(pump.started(), pump.finished());
        pump.started()
    });
}

#[divan::bench(counters = [ItemsCount::new(COUNT)])]
fn latency(bencher: Bencher) {
    let end = end();
    let mut recorder = Recorder::new(2);
    bencher.bench_local(|| {
        let mut null = NullStream::new(1, true);
        let mut rally = Rally::new(&end, &mut null).expect("null never fails");
        let record = &mut |ns| recorder.record(ns);
        rally.play(&Clock, u64::MAX, COUNT, record).expect("null never fails");
        assert_eq!(rally.answered(), COUNT);
    });
    assert!(recorder.count() >= COUNT);
}

#[divan::bench(counters = [ItemsCount::new(1u64)])]
fn clock_reading() -> u64 {
    Clock.now()
}

/// Passes over a vector of which the median counts.
const PASSES: usize = 41;

/// The sum of f32 beside what memory allows: a sum moves 12 bytes an element (it reads two vectors and
/// writes one of them), a copy by ordinary stores as many (the line that is written is read first),
/// one that goes past the caches, as memcpy does for long vectors, 8. The copy that moves more sets
/// the bound. In cache ports set it, and a copy needs one load an element where a sum needs two.
fn sums(len: usize) -> String {
    // Pages of zeros that nobody has written would all be one.
    let (mut work, received) = (vec![1_u8; len], vec![2_u8; len]);
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..PASSES {
        let mut pass = |index: usize, one: &mut dyn FnMut(&mut [u8], &[u8])| {
            let begin = Clock.now();
            one(black_box(&mut work), black_box(&received));
            times[index].push((Clock.now() - begin) as f64);
        };
        pass(0, &mut |a, b| a.copy_from_slice(b));
        pass(1, &mut plain_copy);
        pass(2, &mut plain_sum);
        pass(3, &mut |a, b| kernels::accumulate(DataType::F32, Reduction::Sum, a, b));
    }
    let rate = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        len as f64 / times[times.len() / 2]
    };
    let [past, stores, plain, sum] = times.each_mut().map(rate);
    let bound = (past * 8.0 / 12.0).max(stores);
    format!(
        "f32 sum, {} KiB by {}: {sum:.2} GB/s, {:.2} of the bound {bound:.2} GB/s (at least 0.90 \
         wanted out of cache), {:.2} of the plain loop (memcpy {past:.2}, copy by stores \
         {stores:.2}, plain loop {plain:.2} GB/s)",
        len >> 10,
        kernels::instructions(),
        sum / bound,
        sum / plain
    )
}

/// A copy that the compiler does not turn into memcpy.
#[inline(never)]
fn plain_copy(work: &mut [u8], received: &[u8]) {
    let (work, _) = work.as_chunks_mut::<4>();
    let (received, _) = received.as_chunks::<4>();
    for (place, value) in work.iter_mut().zip(received) {
        *place = (u32::from_ne_bytes(*value) ^ 1).to_ne_bytes();
    }
}

/// What the compiler makes of a sum without instructions beyond the target's baseline.
#[inline(never)]
fn plain_sum(work: &mut [u8], received: &[u8]) {
    let (work, _) = work.as_chunks_mut::<4>();
    let (received, _) = received.as_chunks::<4>();
    for (place, value) in work.iter_mut().zip(received) {
        *place = (f32::from_ne_bytes(*place) + f32::from_ne_bytes(*value)).to_ne_bytes();
    }
}

/// Payload that is reduced a second, beside [`copy`] of as many bytes.
#[divan::bench(args = [4096, 65_536, 1 << 20, 64 << 20], types = [Plain, Double, Narrow, Half])]
fn sum<K: Kind>(bencher: Bencher, len: usize) {
    // Normal numbers of every type.
    let (mut work, received) = (vec![0x3c; len], vec![0x3d; len]);
    bencher.counter(BytesCount::new(len)).bench_local(|| {
        kernels::accumulate(K::KIND, Reduction::Sum, black_box(&mut work), black_box(&received));
    });
}

#[divan::bench(args = [4096, 65_536, 1 << 20, 64 << 20])]
fn copy(bencher: Bencher, len: usize) {
    let (mut work, received) = (vec![1_u8; len], vec![2_u8; len]);
    bencher.counter(BytesCount::new(len)).bench_local(|| {
        black_box(&mut work).copy_from_slice(black_box(&received));
    });
}

/// An element type as a type.
trait Kind {
    const KIND: DataType;
}

struct Plain;
impl Kind for Plain {
    const KIND: DataType = DataType::F32;
}

struct Double;
impl Kind for Double {
    const KIND: DataType = DataType::F64;
}

struct Narrow;
impl Kind for Narrow {
    const KIND: DataType = DataType::Bf16;
}

struct Half;
impl Kind for Half {
    const KIND: DataType = DataType::F16;
}

#[divan::bench(args = [64, 65_536])]
fn integrity_fill(bencher: Bencher, len: usize) {
    let pattern = Pattern::new(1, 0);
    let mut bytes = vec![0; len];
    bencher.counter(BytesCount::new(len)).bench_local(|| {
        pattern.fill(black_box(3), black_box(&mut bytes));
    });
    assert_eq!(pattern.compare(3, &bytes).bytes, 0);
}

#[divan::bench(args = [64, 65_536])]
fn integrity_compare(bencher: Bencher, len: usize) {
    let pattern = Pattern::new(1, 0);
    let mut bytes = vec![0; len];
    pattern.fill(3, &mut bytes);
    bencher
        .counter(BytesCount::new(len))
        .bench_local(|| assert_eq!(pattern.compare(black_box(3), black_box(&bytes)).bytes, 0));
}
