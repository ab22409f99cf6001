//! When a failed file is tried again.

use crate::id::FileId;
use crate::limits::{RETRY_DELAY_MAX_MS, RETRY_JITTER};

/// The delay before an attempt, in milliseconds: `delay_ms` doubled for each failed attempt after
/// the first, up to [`RETRY_DELAY_MAX_MS`], less a random part of up to a quarter. The part depends
/// only on `seed`, the file and the attempt, so that files that failed together come back apart.
#[must_use]
pub fn retry_delay_ms(delay_ms: i64, failed_attempts: u16, file: FileId, seed: u64) -> i64 {
    let doublings = u32::from(failed_attempts.saturating_sub(1)).min(20);
    let delay_ms = delay_ms.clamp(0, RETRY_DELAY_MAX_MS).saturating_mul(1 << doublings);
    let delay_ms = delay_ms.min(RETRY_DELAY_MAX_MS);
    let number = mix(seed ^ mix(file.0.cast_unsigned()) ^ u64::from(failed_attempts));
    let part = (number >> 11) as f64 / (1_u64 << 53) as f64;
    delay_ms - (delay_ms as f64 * RETRY_JITTER * part) as i64
}

/// Spreads the bits of a number evenly (the finaliser of SplitMix64, in the public domain).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_files_come_back_apart() {
        let delay = |attempts, file| retry_delay_ms(120_000, attempts, FileId(file), 7);
        for (attempts, most) in [(1, 120_000), (2, 240_000), (3, 480_000), (40, RETRY_DELAY_MAX_MS)] {
            for file in 0..200 {
                assert!((most * 3 / 4..=most).contains(&delay(attempts, file)));
            }
        }
        let mut delays: Vec<i64> = (0..200).map(|file| delay(1, file)).collect();
        assert_eq!(delays[3], delay(1, 3), "repeatable");
        delays.sort_unstable();
        delays.dedup();
        assert!(delays.len() > 190 && delays[delays.len() - 1] - delays[0] > 25_000);
        assert_eq!(retry_delay_ms(i64::MIN, 0, FileId(-1), 0), 0);
        assert!(retry_delay_ms(i64::MAX, u16::MAX, FileId(1), 0) <= RETRY_DELAY_MAX_MS);
    }
}
