//! Figures and moments as people read them on a page.

use crate::report::Value;

/// A figure whose digits stand in groups of three where there are more than four of them.
pub(super) fn grouped(figure: &str) -> String {
    let whole = figure.bytes().take_while(u8::is_ascii_digit).count();
    if whole < 5 {
        return figure.to_owned();
    }
    let mut text = String::new();
    for (at, digit) in figure.chars().enumerate() {
        if at > 0 && at < whole && (whole - at).is_multiple_of(3) {
            // Narrow, and no place to break a line.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A moment of RFC 3339.
pub(super) fn moment(utc: &str) -> String {
    utc.replace('T', " ").replace('Z', " UTC")
}

/// The value of a parameter; a number of bytes in its unit too, where it is a whole number of it.
pub(super) fn parameter(name: &str, value: &Value) -> String {
    let plain = value.to_string();
    let Some(bytes) = value.number().filter(|_| name.contains("bytes")) else {
        return plain;
    };
    let mut in_unit = (bytes, "");
    for unit in ["KiB", "MiB", "GiB", "TiB"] {
        if in_unit.0 >= 1024.0 && (in_unit.0 / 1024.0).fract() == 0.0 {
            in_unit = (in_unit.0 / 1024.0, unit);
        }
    }
    match in_unit {
        (_, "") => grouped(&plain),
        (count, unit) => format!("{} ({count} {unit})", grouped(&plain)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_figures_are_grouped() {
        let words = ["1234", "12345", "165926.5", "1234567", "0.12345"].map(grouped);
        let wanted = [
            "1234",
            "12\u{202f}345",
            "165\u{202f}926.5",
            "1\u{202f}234\u{202f}567",
            "0.12345",
        ];
        assert_eq!(words, wanted);
    }

    #[test]
    fn bytes_are_told_in_their_unit_too() {
        let of = |name, bytes: u64| parameter(name, &Value::from(bytes)).replace('\u{202f}', " ");
        assert_eq!(of("file size in bytes", 8_388_608), "8 388 608 (8 MiB)");
        assert_eq!(of("bytes in a sample", 1536), "1536");
        assert_eq!(of("bytes in a sample", 1_572_864), "1 572 864 (1536 KiB)");
        assert_eq!(of("repetitions", 1024), "1024");
    }
}
