//! The table at the end of the demo.

use std::time::Duration;

/// The figures of one mode.
pub(super) struct Row {
    pub(super) mode: &'static str,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
    pub(super) source_cpu_s: f64,
    pub(super) target_cpu_s: f64,
}

/// Formats the table. A GB is 10⁹ bytes.
pub(super) fn render(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<7}{:>7}{:>14}{:>9}{:>9}{:>16}{:>16}\n",
        "mode", "files", "bytes", "seconds", "Gbit/s", "CPU s/GB one", "CPU s/GB two"
    );
    for row in rows {
        let (seconds, gigabytes) = (row.elapsed.as_secs_f64(), row.bytes as f64 / 1e9);
        let per_gigabyte = |cpu_s: f64| if gigabytes > 0.0 { cpu_s / gigabytes } else { 0.0 };
        text.push_str(&format!(
            "{:<7}{:>7}{:>14}{seconds:>9.2}{:>9.2}{:>16.2}{:>16.2}\n",
            row.mode,
            row.files,
            row.bytes,
            gigabytes * 8.0 / seconds,
            per_gigabyte(row.source_cpu_s),
            per_gigabyte(row.target_cpu_s),
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_per_gigabyte_and_second() {
        let row = Row {
            mode: "pull",
            files: 1,
            bytes: 2_000_000_000,
            elapsed: Duration::from_secs(4),
            source_cpu_s: 1.0,
            target_cpu_s: 3.0,
        };
        let text = render(&[row]);
        let fields: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(fields, ["pull", "1", "2000000000", "4.00", "4.00", "0.50", "1.50"]);
    }
}
