//! Two vectors become one: plain loops that the compiler turns into vector code, compiled a second
//! time for AVX2 and chosen at run time. NEON is part of every aarch64. AVX-512 would gain nothing
//! for memory-bound sums, and its features cannot be named in the oldest Rust that builds this.

use std::sync::OnceLock;

use super::types::{DataType, Reduction};

/// `work` ← `work` ∘ `received`, element by element in the machine's byte order. Slices of whole
/// elements and equal length; what is longer is left alone.
pub fn accumulate(kind: DataType, reduction: Reduction, work: &mut [u8], received: &[u8]) {
    run(Job { kind, reduction, work, input: None, received });
}

/// `work` ← `input` ∘ `received`.
pub fn combine(
    kind: DataType,
    reduction: Reduction,
    work: &mut [u8],
    input: &[u8],
    received: &[u8],
) {
    run(Job { kind, reduction, work, input: Some(input), received });
}

/// The instructions that are used on this machine, for reports.
pub fn instructions() -> &'static str {
    match (level(), cfg!(target_arch = "aarch64")) {
        (Level::Avx2, _) => "AVX2",
        (Level::Plain, true) => "NEON",
        (Level::Plain, false) => "baseline",
    }
}

/// Instructions beyond the target's baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Plain,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "of another machine"))]
    Avx2,
}

fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            return Level::Avx2;
        }
        Level::Plain
    })
}

struct Job<'a> {
    kind: DataType,
    reduction: Reduction,
    work: &'a mut [u8],
    /// None for what lies in `work`.
    input: Option<&'a [u8]>,
    received: &'a [u8],
}

fn run(job: Job) {
    match level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` has found that this CPU has AVX2.
        Level::Avx2 => unsafe { run_avx2(job) },
        _ => run_plain(job),
    }
}

/// [`run_plain`], compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2(job: Job) {
    run_plain(job);
}

#[inline(always)]
fn run_plain(job: Job) {
    match job.reduction {
        Reduction::Sum => match job.kind {
            DataType::F32 => {
                each(job, |a, b| (f32::from_ne_bytes(a) + f32::from_ne_bytes(b)).to_ne_bytes())
            }
            DataType::F64 => {
                each(job, |a, b| (f64::from_ne_bytes(a) + f64::from_ne_bytes(b)).to_ne_bytes())
            }
            DataType::I32 => each(job, |a, b| {
                i32::from_ne_bytes(a).wrapping_add(i32::from_ne_bytes(b)).to_ne_bytes()
            }),
            DataType::Bf16 => each(job, |a, b| narrow(wide(a) + wide(b))),
            DataType::F16 => each(job, |a, b| narrow_half(wide_half(a) + wide_half(b))),
        },
        Reduction::Max => match job.kind {
            DataType::F32 => {
                each(job, |a, b| larger(f32::from_ne_bytes(a), f32::from_ne_bytes(b)).to_ne_bytes())
            }
            DataType::F64 => {
                each(job, |a, b| larger(f64::from_ne_bytes(a), f64::from_ne_bytes(b)).to_ne_bytes())
            }
            DataType::I32 => {
                each(job, |a, b| i32::from_ne_bytes(a).max(i32::from_ne_bytes(b)).to_ne_bytes())
            }
            DataType::Bf16 => each(job, |a, b| narrow(larger(wide(a), wide(b)))),
            DataType::F16 => each(job, |a, b| narrow_half(larger(wide_half(a), wide_half(b)))),
        },
    }
}

/// The form that vector units have one instruction for.
#[inline(always)]
fn larger<T: PartialOrd>(a: T, b: T) -> T {
    if a > b { a } else { b }
}

#[inline(always)]
fn each<const N: usize>(job: Job, one: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (work, _) = job.work.as_chunks_mut::<N>();
    let (received, _) = job.received.as_chunks::<N>();
    match job.input {
        None => {
            for (place, value) in work.iter_mut().zip(received) {
                *place = one(*place, *value);
            }
        }
        Some(input) => {
            let (input, _) = input.as_chunks::<N>();
            for ((place, own), value) in work.iter_mut().zip(input).zip(received) {
                *place = one(*own, *value);
            }
        }
    }
}

/// A bf16 is the upper half of an f32.
#[inline(always)]
fn wide(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_ne_bytes(bytes)) << 16)
}

/// To the nearest, ties to even; a NaN stays one.
#[inline(always)]
fn narrow(value: f32) -> [u8; 2] {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if value.is_nan() { quiet } else { rounded } as u16).to_ne_bytes()
}

/// An f16 as an f32, exactly. Without branches, so that vector units do many at once, and without
/// subnormal f32, which processors are slow with: those of f16 are the rest beyond the smallest
/// normal one.
#[inline(always)]
fn wide_half(bytes: [u8; 2]) -> f32 {
    let half = u32::from(u16::from_ne_bytes(bytes));
    let magnitude = (half & 0x7fff) << 13;
    let normal = magnitude + (112 << 23);
    let small = f32::from_bits(normal + (1 << 23)) - f32::from_bits(113 << 23);
    let finite = if magnitude < 1 << 23 { small.to_bits() } else { normal };
    let bits = if magnitude < 0x0f80_0000 { finite } else { magnitude | 0x7f80_0000 };
    f32::from_bits(bits | (half & 0x8000) << 16)
}

/// To the nearest f16, ties to even; a NaN stays one, what is too large becomes infinite.
#[inline(always)]
fn narrow_half(value: f32) -> [u8; 2] {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // Adding a number whose last place is the last of a subnormal f16 rounds to it.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_add(0xc800_0fff).wrapping_add(odd) >> 13;
    // From 65520 on all round to infinity.
    let large = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    let finite = if magnitude < 0x3880_0000 { small } else { normal };
    let half = if magnitude >= 0x477f_f000 { large } else { finite };
    ((half | (bits >> 16) & 0x8000) as u16).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(elements: &[[u8; N]]) -> Vec<u8> {
        elements.concat()
    }

    /// Odd lengths, so that every vector loop has a rest.
    fn cases(kind: DataType, encode: impl Fn(f64) -> Vec<u8>) {
        for count in [0, 1, 3, 31, 1000, 1537] {
            let vector = |f: &dyn Fn(usize) -> f64| -> Vec<u8> {
                (0..count).flat_map(|i| encode(f(i))).collect()
            };
            let own = vector(&|i| (i % 120) as f64);
            let other = vector(&|i| (i % 7) as f64);
            for (reduction, want) in [
                (Reduction::Sum, vector(&|i| (i % 120 + i % 7) as f64)),
                (Reduction::Max, vector(&|i| (i % 120).max(i % 7) as f64)),
            ] {
                let mut work = own.clone();
                accumulate(kind, reduction, &mut work, &other);
                assert_eq!(work, want, "{kind:?} {reduction:?} {count}");
                let mut work = vec![0xee; own.len()];
                combine(kind, reduction, &mut work, &own, &other);
                assert_eq!(work, want, "{kind:?} {reduction:?} {count}");
                let mut work = own.clone();
                run_plain(Job { kind, reduction, work: &mut work, input: None, received: &other });
                assert_eq!(work, want, "{kind:?} {reduction:?} {count}");
            }
        }
    }

    #[test]
    fn sums_and_maxima_of_every_type() {
        cases(DataType::F32, |x| (x as f32).to_ne_bytes().to_vec());
        cases(DataType::F64, |x| x.to_ne_bytes().to_vec());
        cases(DataType::I32, |x| (x as i32).to_ne_bytes().to_vec());
        cases(DataType::Bf16, |x| half::bf16::from_f64(x).to_ne_bytes().to_vec());
        cases(DataType::F16, |x| half::f16::from_f64(x).to_ne_bytes().to_vec());
    }

    #[test]
    fn bf16_rounds_to_even_and_keeps_nan_and_infinity() {
        for (a, b) in [(256.0, 1.0), (256.0, 3.0), (1.0, 0.00390625), (3.0e38, 3.0e38)] {
            let (x, y) = (half::bf16::from_f32(a), half::bf16::from_f32(b));
            let want = half::bf16::from_f32(x.to_f32() + y.to_f32());
            let mut work = bytes(&[x.to_ne_bytes()]);
            accumulate(DataType::Bf16, Reduction::Sum, &mut work, &y.to_ne_bytes());
            assert_eq!(work, want.to_ne_bytes(), "{a} + {b}");
        }
        let mut work = bytes(&[half::bf16::NAN.to_ne_bytes()]);
        let one = half::bf16::ONE.to_ne_bytes();
        accumulate(DataType::Bf16, Reduction::Sum, &mut work, &one);
        assert!(half::bf16::from_ne_bytes([work[0], work[1]]).is_nan());
    }

    #[test]
    fn every_f16_is_widened_and_every_f32_between_two_of_them_is_narrowed() {
        for bits in 0..=u16::MAX {
            let half = half::f16::from_bits(bits);
            let wide = wide_half(half.to_ne_bytes());
            let same = wide.to_bits() == half.to_f32().to_bits();
            assert!(same || (wide.is_nan() && half.is_nan()), "{bits:#x}: {wide}");
            // It, its neighbours, the middle to the next one and that one's neighbours.
            for middle in [0, 0x0800, 0x1000, 0x1800] {
                for off in [-1, 0, 1] {
                    let near = wide.to_bits().wrapping_add(middle).wrapping_add_signed(off);
                    let value = f32::from_bits(near);
                    let want = half::f16::from_f32(value);
                    let found = half::f16::from_ne_bytes(narrow_half(value));
                    let same = found.to_bits() == want.to_bits();
                    assert!(same || (found.is_nan() && want.is_nan()), "{near:#x}: {found}");
                }
            }
        }
        // Subnormal results, of f32 of every exponent.
        for bits in (0..0x7f80_0000_u32).step_by(4093) {
            let value = f32::from_bits(bits);
            let found = half::f16::from_ne_bytes(narrow_half(value));
            assert_eq!(found, half::f16::from_f32(value), "{bits:#x}");
        }
    }

    #[test]
    fn integers_wrap() {
        let mut work = i32::MAX.to_ne_bytes();
        accumulate(DataType::I32, Reduction::Sum, &mut work, &1_i32.to_ne_bytes());
        assert_eq!(i32::from_ne_bytes(work), i32::MIN);
    }
}
