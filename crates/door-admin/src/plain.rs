//! Prometheus' older text format, for readers that do not ask for OpenMetrics: `promtool`, and most
//! scripts.

/// Makes it from OpenMetrics text. There, names of families lack the end of their samples.
pub(crate) fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, words)| words);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (end, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            text.push_str(&format!("# HELP {name}{end} {help}\n# TYPE {name}{end} {kind}\n"));
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_the_names_of_their_samples() {
        let open = "# HELP a_bytes All of it.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total 1\n# HELP b B.\n\
                    # TYPE b info\nb_info{v=\"# TYPE\"} 1\n# HELP c C.\n# TYPE c gauge\nc 2\n# EOF\n";
        let expected = "# HELP a_bytes_total All of it.\n# TYPE a_bytes_total counter\na_bytes_total 1\n# HELP b_info B.\n\
                        # TYPE b_info gauge\nb_info{v=\"# TYPE\"} 1\n# HELP c C.\n# TYPE c gauge\nc 2\n";
        assert_eq!(plain(open), expected);
    }
}
