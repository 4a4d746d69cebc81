//! Drivers that need other settings than an HCA with its own transport, and why.

/// Settings for a driver.
#[derive(Debug, PartialEq, Eq)]
pub struct Quirks {
    /// Name of the driver; `any` for the entry that fits all others.
    pub driver: &'static str,
    /// `vendor_id` by which it is known; none for all others.
    pub vendor_id: Option<u32>,
    /// The transport runs on the host's CPUs: correctness, never speed.
    pub soft: bool,
    /// RC acknowledge timeout exponent (4.096 µs · 2^n) below which it is not safe.
    pub min_timeout: u8,
    /// Code of the wait that is asked of a sender that found no receive posted.
    pub min_rnr_timer: u8,
    /// Extended completion queues are polled one completion at a time.
    pub polls_singly: bool,
    /// Why.
    pub because: &'static str,
}

const TABLE: &[Quirks] = &[
    Quirks {
        driver: "rdma_rxe",
        vendor_id: Some(0xff_ffff),
        soft: true,
        min_timeout: 18,
        // 82 ms: with 6 retries half a second, as much as a starved virtual CPU may need.
        min_rnr_timer: 26,
        // In rdma-core 44, end_poll after a next_poll that found nothing skips a completion.
        polls_singly: true,
        because: "Soft-RoCE shares the CPU with fabbench: acknowledgements wait for the scheduler, \
                  and with a timeout of 14 a queue of some seconds ends in a kernel panic",
    },
    Quirks {
        driver: "siw",
        vendor_id: Some(0x62_6d74),
        soft: true,
        min_timeout: 18,
        min_rnr_timer: 26,
        polls_singly: false,
        because: "software iWARP: the kernel's TCP underneath, with its delays",
    },
    Quirks {
        driver: "any",
        vendor_id: None,
        soft: false,
        min_timeout: 16,
        // 0.64 ms.
        min_rnr_timer: 12,
        polls_singly: false,
        because: "an adapter with its own transport answers within microseconds",
    },
];

impl Quirks {
    /// Of the driver with this `vendor_id`.
    pub fn of(vendor_id: u32) -> &'static Quirks {
        let known = TABLE.iter().find(|entry| entry.vendor_id == Some(vendor_id));
        known.unwrap_or(&TABLE[TABLE.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_devices_wait_longer() {
        let rxe = Quirks::of(0xff_ffff);
        assert_eq!((rxe.driver, rxe.soft, rxe.min_timeout), ("rdma_rxe", true, 18));
        let mellanox = Quirks::of(0x02c9);
        assert_eq!((mellanox.driver, mellanox.soft, mellanox.min_timeout), ("any", false, 16));
    }
}
