//! Numbers of bytes as people read them.

const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// A number of bytes in powers of 1024, with one decimal, such as `1.5 GiB`.
#[must_use]
pub fn binary_size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, UNITS[0]);
    for larger in &UNITS[1..] {
        // From here on, rounding would write 1024.0.
        if value < 1023.95 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_change_their_unit_before_they_are_rounded_up_to_it() {
        let sizes = [0, 1023, 1024, 1_048_575, 1 << 20, 1_300_000, 1536 << 20, u64::MAX];
        assert_eq!(
            sizes.map(binary_size),
            [
                "0 B",
                "1023 B",
                "1.0 KiB",
                "1.0 MiB",
                "1.0 MiB",
                "1.2 MiB",
                "1.5 GiB",
                "16384.0 PiB"
            ]
        );
    }
}
