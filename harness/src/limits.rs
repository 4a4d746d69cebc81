//! Time-outs and bytes in flight of reliable connections.

/// Ack time-out exponent on hardware: T = 4.096 µs · 2^16 = 0.27 s.
const HARDWARE_TIMEOUT: u8 = 16;

/// On soft, declared and slow links: T = 4.096 µs · 2^18 = 1.07 s. A queue on a shaped link outlasts
/// the shorter one, and rdma_rxe's retransmissions then make things worse.
const SLOW_TIMEOUT: u8 = 18;

/// A link below this is slow.
const SLOW_BPS: u64 = 1_000_000_000;

/// What is assumed of a soft device that nobody declared a rate for: as slow as shaped links get.
const SOFT_BPS: u64 = 20_000_000;

/// What is known of a link's speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkSpeed {
    /// Data rate by the hardware, bit/s.
    pub rate_bps: Option<u64>,
    /// Rate that the user declares, bit/s; goes before the hardware's.
    pub declared_bps: Option<u64>,
    /// An end is a software device.
    pub soft: bool,
}

impl LinkSpeed {
    /// RC ack time-out exponent: the time-out is 4.096 µs · 2^n.
    pub fn timeout(&self) -> u8 {
        let slow = self.rate_bps.is_some_and(|rate| rate < SLOW_BPS);
        if self.soft || self.declared_bps.is_some() || slow {
            SLOW_TIMEOUT
        } else {
            HARDWARE_TIMEOUT
        }
    }

    /// Upper limit of bytes in flight over all queue pairs; none where no rate is known.
    pub fn in_flight_bytes(&self) -> Option<u64> {
        let assumed = self.soft.then_some(SOFT_BPS);
        let rate = self.declared_bps.or(if self.soft { assumed } else { self.rate_bps })?;
        Some(in_flight_limit(rate, self.timeout()))
    }
}

/// Bytes that a link of `rate_bps` carries in a tenth of the RC ack time-out 4.096 µs · 2^`timeout`:
/// with no more in flight, a queue cannot outlast the time-out. 0 for `timeout` means never.
pub fn in_flight_limit(rate_bps: u64, timeout: u8) -> u64 {
    if timeout == 0 {
        return u64::MAX;
    }
    let timeout_ns = 4096_u128 << timeout.min(31);
    let bytes = u128::from(rate_bps) * timeout_ns / (8 * 10 * 1_000_000_000);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_stays_below_a_tenth_of_the_timeout() {
        // 20 Mb/s · 1.0737 s / 10 = 2.147 Mb = 268 435 B.
        assert_eq!(in_flight_limit(20_000_000, 18), 268_435);
        assert_eq!(in_flight_limit(100_000_000_000, 16), 335_544_320);
        assert_eq!(in_flight_limit(1, 0), u64::MAX);
        assert!(in_flight_limit(u64::MAX, 31) > in_flight_limit(800_000_000_000, 31));
    }

    #[test]
    fn soft_declared_and_slow_links_wait_longer() {
        let hardware = LinkSpeed { rate_bps: Some(400_000_000_000), ..Default::default() };
        assert_eq!(hardware.timeout(), 16);
        assert!(hardware.in_flight_bytes().unwrap() > 1 << 30);
        assert_eq!(LinkSpeed { soft: true, ..hardware }.timeout(), 18);
        assert_eq!(LinkSpeed { declared_bps: Some(1), ..hardware }.timeout(), 18);
        assert_eq!(LinkSpeed { rate_bps: Some(100_000_000), ..hardware }.timeout(), 18);
        let soft = LinkSpeed { soft: true, ..Default::default() };
        assert_eq!(soft.in_flight_bytes(), Some(268_435));
        let declared = LinkSpeed { declared_bps: Some(40_000_000), ..soft };
        assert_eq!(declared.in_flight_bytes(), Some(536_870));
        assert_eq!(LinkSpeed::default().in_flight_bytes(), None);
    }
}
