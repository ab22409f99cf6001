//! `crossload check` of nodes and redirectors: what it says about the message bus and the nodes.

use std::path::Path;

use conformance::{Lab, json_lines, run, until};
use serde_json::Value;
use testkit::{Crossload, available};

use crate::bus::{BusShape, BusSite, bus_name};
use crate::site::PATIENCE;

/// The findings about the bus and nodes, the worst first.
#[track_caller]
fn findings(lab: &Lab, file: &Path) -> Vec<Value> {
    let mut command = lab.client(["check", "--json", "--config"]).expect("the binary");
    let told = json_lines(&run(command.arg(file)));
    let is_about = |finding: &Value| {
        let code = finding["code"].as_str().unwrap_or_default();
        ["bus", "node", "configuration_fault"]
            .iter()
            .any(|part| code.starts_with(part))
    };
    told.into_iter().filter(is_about).collect()
}

fn codes(findings: &[Value]) -> Vec<&str> {
    findings.iter().filter_map(|finding| finding["code"].as_str()).collect()
}

/// The configuration of a server with something else in it, as another file beside it.
fn changed(server: &Crossload, changes: &[(&str, &str)]) -> std::path::PathBuf {
    let file = server.configuration();
    let mut text = std::fs::read_to_string(&file).expect("a configuration");
    for (from, to) in changes {
        assert!(text.contains(from), "{from} is not in\n{text}");
        text = text.replace(from, to);
    }
    let other = file.with_file_name("changed.toml");
    std::fs::write(&other, text).expect("a file");
    other
}

/// Demands a finding of this code, which says all of this in its sentence and remedy.
#[track_caller]
fn demand(findings: &[Value], code: &str, words: &[&str]) {
    let found = findings.iter().find(|finding| finding["code"] == code);
    let found = found.unwrap_or_else(|| panic!("no {code}: {findings:#?}"));
    let text = format!("{} {}", found["says"], found["change"]).replace('\\', "");
    for word in words {
        assert!(text.contains(word), "{word} is not in {text}");
    }
}

#[test]
fn a_sound_site_passes() {
    let shape = BusShape {
        tls: true,
        ..BusShape::default()
    };
    let Some(site) = available("a_sound_site_passes", BusSite::start(&shape)) else {
        return;
    };
    let told = findings(&site.lab, &site.nodes[0].configuration());
    let is_sound = |code: &&str| ["bus", "node_order_not_kept"].contains(code);
    assert!(codes(&told).iter().all(is_sound), "{told:#?}");
    demand(&told, "bus", &["takes us as node", &bus_name(site.ports[0]), "NATS 2."]);
    let told = findings(&site.lab, &site.redirector.configuration());
    assert_eq!(codes(&told), ["bus", "node", "node", "node"], "{told:#?}");
    demand(&told, "bus", &["as a redirector"]);
}

#[test]
fn what_is_wrong_with_the_bus_is_named() {
    let Some(mut site) = available(
        "what_is_wrong_with_the_bus_is_named",
        BusSite::start(&BusShape::default()),
    ) else {
        return;
    };
    let name = bus_name(site.ports[0]);
    let with = |changes: &[(&str, &str)]| findings(&site.lab, &changed(&site.nodes[0], changes));
    let user = format!("user = \"{name}\"");
    demand(
        &with(&[(&user, "user = \"nobody\"")]),
        "bus_login_refused",
        &["nobody", "authorization"],
    );
    demand(
        &with(&[("clear_text = true", "")]),
        "bus_without_tls",
        &["no TLS", "clear_text"],
    );
    let own = format!("name = \"{name}\"");
    let told = with(&[(&own, "name = \"d9\"")]);
    demand(
        &told,
        "bus_refused",
        &["may not publish to crossload.from.d9.state", "crossload.from.d9.>"],
    );
    demand(&told, "bus_refused", &["d9"]);
    assert_eq!(
        codes(&told).iter().filter(|code| **code == "bus_refused").count(),
        2,
        "{told:#?}"
    );
    let other = format!("nats://127.0.0.1:{}", site.ports[1]);
    demand(&with(&[(&site.bus.url(), &other)]), "bus_not_nats", &["4222"]);
    demand(
        &with(&[(&site.bus.url(), "http://127.0.0.1")]),
        "bus_server_malformed",
        &["tls://"],
    );
    let far = with(&[(&site.bus.url(), "nats://bus.invalid")]);
    demand(&far, "bus_clear_text", &["clear text"]);
    demand(&far, "bus_unreachable", &["bus.invalid"]);

    let told = findings(
        &site.lab,
        &changed(&site.redirector, &[("user = \"redirector\"", &user)]),
    );
    demand(&told, "bus_login_refused", &["let the user", &name]);
    site.bus.process().kill_hard();
    for server in [&site.nodes[0], &site.redirector] {
        let told = findings(&site.lab, &server.configuration());
        demand(&told, "bus_unreachable", &["start nats-server"]);
    }
}

#[test]
fn a_bus_that_is_not_trusted_is_named() {
    let shape = BusShape {
        nodes: 1,
        started: 1,
        tls: true,
        ..BusShape::default()
    };
    let Some(site) = available("a_bus_that_is_not_trusted_is_named", BusSite::start(&shape)) else {
        return;
    };
    let text = std::fs::read_to_string(site.nodes[0].configuration()).expect("a configuration");
    // The system's authorities do not know it.
    let line = text.lines().rfind(|line| line.starts_with("ca_files"));
    let file = changed(&site.nodes[0], &[(&format!("{}\nname", line.expect("a line")), "name")]);
    demand(&findings(&site.lab, &file), "bus_tls_failed", &["ca_files"]);
}

#[test]
fn what_is_wrong_with_a_node_is_named() {
    let shape = BusShape {
        nodes: 4,
        started: 4,
        on_bus: |number| number < 3,
        exports: |number| ["/data", "/data/absent", "/data", "/data"][number],
        ..BusShape::default()
    };
    let Some(mut site) = available("what_is_wrong_with_a_node_is_named", BusSite::start(&shape)) else {
        return;
    };
    let url = |number: usize| format!("https://localhost:{}", site.ports[number]);
    let urls: Vec<String> = (0..4).map(url).collect();
    let mut drain = site.lab.client(["node", "drain", &urls[0]]).expect("the binary");
    run(drain.arg("--cacert").arg(site.lab.authority().ca_file())).succeeded();
    // The redirector expects the last one on the bus, too.
    let file = changed(&site.redirector, &[("bus = false\n", "")]);
    let told = findings(&site.lab, &file);
    demand(&told, "node_drained", &[&urls[0], "no_writes", "undrain"]);
    demand(&told, "node_export_missing", &[&urls[1], "/data/absent"]);
    demand(
        &told,
        "node_not_on_bus",
        &[&urls[3], &bus_name(site.ports[3]), "bus = false"],
    );
    demand(&told, "node", &[&urls[2]]);
    let node = format!("url = \"{}\"", urls[0]);
    let itself = format!("url = \"{}\"", site.redirector.url(""));
    let told = findings(&site.lab, &changed(&site.redirector, &[(&node, &itself)]));
    // Its configuration has port 0 here, so that only its own answer shows what it is.
    demand(&told, "node_is_redirector", &["a redirector itself"]);
    demand(&told, "bus_strangers", &[&bus_name(site.ports[0])]);
    site.nodes[2].process().kill_hard();
    until("its death is known", PATIENCE, || site.logged("node_lost") == 1);
    let told = findings(&site.lab, &site.redirector.configuration());
    demand(&told, "node_unreachable", &[&urls[2], "open its port"]);
    demand(&told, "node_not_on_bus", &[&urls[2]]);
}
