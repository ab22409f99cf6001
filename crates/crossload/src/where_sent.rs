//! Where a redirector sends a client, in sentences: for `crossload why` and the page *Cluster*.

use serde_json::Value;

/// The redirector's answer, a line each.
pub(crate) fn in_lines(answer: &Value) -> Vec<String> {
    let found = &answer["found"];
    let mut lines = vec![format!("path      {}", text(&answer["path"]))];
    lines.push(match found["holders"].as_array() {
        Some(holders) => format!("is on     {}{}", list(holders), if_more(found)),
        None => format!("is on     {}", nowhere(found)),
    });
    let basis = &found["basis"];
    if let Some(age_ms) = basis["known_for_ms"].as_u64() {
        lines.push(format!(
            "known     for {:.1} s; the nodes were not asked again (--refresh does)",
            age_ms as f64 / 1e3
        ));
    }
    for asked in basis["asked"].as_array().into_iter().flatten() {
        let node = text(&asked["node"]);
        lines.push(match asked["says"]["not_asked"] == true {
            true => format!("not asked {node}: does not have it (its filter says so)"),
            false => format!("asked     {node}: {}", says(asked)),
        });
    }
    for node in answer["left_out"].as_array().into_iter().flatten() {
        lines.push(format!("left out  {}: {}", text(&node["node"]), text(&node["reason"])));
    }
    let chosen = &answer["chosen"];
    lines.push(match chosen["node"].as_str() {
        Some(node) => format!("chosen    {node}: {}", text(&chosen["reason"])),
        None => format!("chosen    none: {}", text(&chosen["words"])),
    });
    if let Some(id) = answer["request_id"].as_str() {
        lines.push(format!("request   {id} in the redirector's log"));
    }
    lines
}

fn nowhere(found: &Value) -> &str {
    match text(&found["code"]) {
        "not_found" => "no node",
        "is_directory" => "the nodes below, as a directory",
        "nodes_silent" | "nodes_refuse" => "an unknown node: not all that may have it have answered",
        _ => text(&found["words"]),
    }
}

/// Only nodes that were asked in vain may have it, too; others need not be asked once one has it.
fn if_more(found: &Value) -> &'static str {
    let mut asked = found["basis"]["asked"].as_array().into_iter().flatten();
    match asked.any(|asked| asked["says"]["failed"].is_string()) {
        true => ", and perhaps on nodes that have not answered",
        false => "",
    }
}

fn says(asked: &Value) -> String {
    let says = &asked["says"];
    let after_ms = asked["after_ms"].as_f64().unwrap_or_default();
    let said = match (says["has"].as_str(), says["size_bytes"].as_u64()) {
        (Some("file"), Some(size)) => format!("has it, {size} bytes"),
        (Some("file"), None) => "has it".to_owned(),
        (Some("directory"), _) => "has a directory of this name".to_owned(),
        (Some(_), _) => "does not have it".to_owned(),
        (None, _) if says["refuses"] == true => return format!("refuses the question: {}", text(&says["failed"])),
        (None, _) => return text(&says["failed"]).to_owned(),
    };
    format!("{said} (after {after_ms:.1} ms)")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(values: &[Value]) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_read_as_sentences() {
        let answer = json!({
            "path": "/data/f",
            "found": {"holders": ["https://d1:1094"], "is_complete": true, "basis": {"asked": [
                {"node": "https://d1:1094", "says": {"has": "file", "size_bytes": 7}, "after_ms": 1.25},
                {"node": "https://d2:1094", "says": {"failed": "no answer in time"}, "after_ms": 2000.0},
                {"node": "https://d3:1094", "says": {"has": "nothing", "not_asked": true}, "after_ms": 0.0},
            ]}},
            "left_out": [],
            "chosen": {"node": "https://d1:1094", "reason": "the only one"},
        });
        let words = "path      /data/f\nis on     https://d1:1094, and perhaps on nodes that have not answered\n\
                     asked     https://d1:1094: has it, 7 bytes (after 1.2 ms)\n\
                     asked     https://d2:1094: no answer in time\n\
                     not asked https://d3:1094: does not have it (its filter says so)\n\
                     chosen    https://d1:1094: the only one";
        assert_eq!(in_lines(&answer).join("\n"), words);
        let nothing = json!({"path": "/x", "found": {"words": "no such file", "basis": {"known_for_ms": 1500}},
            "left_out": [{"node": "https://d3:1094", "reason": "it is drained"}],
            "chosen": {"words": "no such file"}});
        let told = in_lines(&nothing).join("\n");
        assert!(told.contains("left out  https://d3:1094: it is drained"), "{told}");
        // Others were not asked in vain: they were not asked.
        let known = json!({"path": "/x", "found": {"holders": ["https://d1:1094"], "is_complete": false,
            "basis": {"known_for_ms": 1500}}, "left_out": [], "chosen": {"node": "https://d1:1094", "reason": "r"}});
        assert!(
            in_lines(&known).join("\n").contains("is on     https://d1:1094\n"),
            "{}",
            in_lines(&known).join("\n")
        );
        assert!(
            told.contains("known     for 1.5 s") && told.contains("chosen    none: no such file"),
            "{told}"
        );
    }
}
