//! What the chart makes of its values: valid objects, rights of pods, configurations that the
//! program accepts, and refusals in words.

use std::collections::BTreeSet;
use std::process::Command;

use conformance::run;
use serde_json::{Value, json};
use testkit::{Crossload, available};

use crate::rendered::{Charts, configurations, pods, repository};

/// At least so many sets of values come with the chart.
const SETS_MIN: usize = 12;

#[test]
fn each_set_of_values_gives_valid_objects_and_configurations() {
    let test = "each_set_of_values_gives_valid_objects_and_configurations";
    let needed = Charts::new("chart").and_then(|charts| Ok((charts, Crossload::binary()?)));
    let Some((charts, program)) = available(test, needed) else {
        return;
    };
    let sets = Charts::sets();
    assert!(sets.len() >= SETS_MIN, "{sets:?}");
    for (name, objects) in charts.objects(&sets) {
        assert_restricted(&name, &objects);
        assert_volumes_are_mounted(&name, &objects);
        let configurations = configurations(&objects);
        assert!(!configurations.is_empty(), "{name}");
        for (file, text) in configurations {
            let path = charts.scratch.join(&format!("{name}-{file}"));
            std::fs::write(&path, &text).expect("a configuration");
            let mut read = Command::new(&program);
            match file.as_str() {
                "mesh.toml" => read.args(["mesh", "--dry-run"]),
                _ => read.args(["config", "check"]),
            };
            let said = run(read.arg(&path));
            assert_eq!(said.code, Some(0), "{name} {file}: {}\n{text}", said.said());
        }
    }
}

/// The pod security standard `restricted`, but for the two volumes and networks that sites choose.
fn assert_restricted(name: &str, objects: &[Value]) {
    let pods = pods(objects);
    assert!(!pods.is_empty(), "{name}: no pods");
    for pod in pods {
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{name}: {pod}");
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault",
            "{name}"
        );
        assert_eq!(pod["automountServiceAccountToken"], false, "{name}: {pod}");
        assert!(pod["hostPID"].is_null() && pod["hostIPC"].is_null(), "{name}: {pod}");
        for container in pod["containers"].as_array().expect("containers") {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{name}: {container}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{name}: {container}");
            assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}), "{name}: {container}");
            // A file by itself would not be replaced in a running pod. The bus is for the start.
            let mounts = container["volumeMounts"].as_array().expect("mounts");
            let single = mounts.iter().filter(|mount| mount.get("subPath").is_some());
            assert_eq!(single.count(), 0, "{name}: {container}");
        }
    }
}

/// Each volume of a pod is mounted, and each mount has a volume.
fn assert_volumes_are_mounted(name: &str, objects: &[Value]) {
    let names = |list: &Value| -> BTreeSet<String> {
        let entries = list.as_array().into_iter().flatten();
        entries
            .filter_map(|entry| entry["name"].as_str().map(str::to_owned))
            .collect()
    };
    for object in objects {
        let Some(pod) = pods(std::slice::from_ref(object)).pop() else {
            continue;
        };
        let mut volumes = names(&pod["volumes"]);
        volumes.extend(
            object["spec"]["volumeClaimTemplates"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|claim| claim["metadata"]["name"].as_str().map(str::to_owned)),
        );
        let mounted: BTreeSet<String> = pod["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|container| names(&container["volumeMounts"]))
            .collect();
        assert_eq!(volumes, mounted, "{name}: {}", object["metadata"]["name"]);
    }
}

#[test]
fn wrong_values_are_refused_in_words() {
    let Some(charts) = available("wrong_values_are_refused_in_words", Charts::new("wrong-values")) else {
        return;
    };
    for (values, words) in [
        ("endpoint: {replicas: two}", "endpoint"),
        ("endpoint: {replica: 2}", "replica"),
        ("endpoint: {port: 443}", "port"),
        ("endpoint: {config: {exports: []}}", "exports"),
        ("endpoint: {config: {export: {path: /}}}", "export"),
        ("endpoint: {kind: DaemonSet}", "kind"),
        ("tls: {certManager: {enabled: true}}", "name"),
        (
            "endpoint: {replicas: 2, publicHosts: [a.example]}",
            "give one name for each replica",
        ),
        ("endpoint: {kind: Deployment}", "set endpoint.storage.volume"),
        (
            "endpoint: {kind: Deployment, storage: {enabled: false}}\nbus: {enabled: true}",
            "bus.enabled needs endpoint.kind StatefulSet",
        ),
        ("bus: {enabled: true}", "enable the redirector too"),
        ("queue: {enabled: true, replicas: 2}", "set queue.database.url"),
        ("queue: {database: {url: \"postgres://u:secret@h/d\"}}", "url"),
        ("redirector: {enabled: true, capabilities: true}", "redirector.networks"),
        ("mesh: {enabled: true}", "mesh.config.endpoint"),
        ("networkPolicy: {metricsFrom: [{}]}", "metricsFrom"),
        (
            "endpoint: {config: {server: {listen: [\"[::]:443\"]}}}",
            "set endpoint.port too",
        ),
    ] {
        let refused = charts.template(&charts.values("wrong", values)).failed_with(1);
        assert!(refused.stderr.contains(words), "{values}: {}", refused.said());
    }
}

#[test]
fn a_policy_that_names_no_reader_of_metrics_admits_none() {
    let test = "a_policy_that_names_no_reader_of_metrics_admits_none";
    let Some(charts) = available(test, Charts::new("metrics-readers")) else {
        return;
    };
    let policies = |values: &str| {
        let rendered = charts.template(&charts.values("policy", values)).succeeded();
        let text = String::from_utf8_lossy(&rendered.stdout).into_owned();
        let objects = text.split("\n---\n");
        let policies: Vec<String> = objects
            .filter(|object| object.contains("kind: NetworkPolicy"))
            .map(str::to_owned)
            .collect();
        assert!(policies.iter().any(|policy| policy.contains("port: data")), "{text}");
        policies.concat()
    };
    let usual = policies("networkPolicy: {enabled: true}");
    assert!(
        usual.contains("port: admin") && usual.contains("namespaceSelector"),
        "{usual}"
    );
    let closed = policies("networkPolicy: {enabled: true, metricsFrom: []}");
    assert!(!closed.contains("port: admin"), "{closed}");
}

#[test]
fn a_pod_drains_itself_and_takes_tokens_for_each_port_of_its_services() {
    let test = "a_pod_drains_itself_and_takes_tokens_for_each_port_of_its_services";
    let Some(charts) = available(test, Charts::new("joined")) else {
        return;
    };
    let values = "tls: {existingSecret: c}\nredirector: {enabled: true, publicHost: se.example}\nendpoint:\n  \
                  publicHosts: [d.example]\n  config: {cluster: {operators: [\"group:/atlas\"]}}\n";
    let text = charts.template(&charts.values("joined", values)).succeeded().text();
    let operators = "operators = [\"address:127.0.0.1\", \"address:::1\", \"group:/atlas\"]";
    assert!(text.contains(operators), "{text}");
    let lists: Vec<&str> = text.lines().filter(|line| line.contains("audiences = ")).collect();
    let [endpoint, redirector] = lists[..] else {
        panic!("{text}");
    };
    for host in ["d.example", "se.example"] {
        for form in ["", ":443", ":1094"] {
            let url = format!("\"https://{host}{form}\"");
            assert!(endpoint.contains(&url), "{url}: {endpoint}");
            assert!(host == "d.example" || redirector.contains(&url), "{url}: {redirector}");
        }
    }
}

#[test]
fn subscribers_of_a_queue_reach_its_messages() {
    let Some(charts) = available("subscribers_of_a_queue_reach_its_messages", Charts::new("messages")) else {
        return;
    };
    let values = "networkPolicy: {enabled: true}\nqueue:\n  enabled: true\n  config:\n    messages: {listen: \
                  [\"[::]:61613\"]}\n";
    let text = charts.template(&charts.values("messages", values)).succeeded().text();
    let service = "{name: messages-61613, port: 61613, targetPort: 61613}";
    assert_eq!(text.matches(service).count(), 2, "{text}");
    assert_eq!(text.matches("- {port: 61613}").count(), 1, "{text}");
}

#[test]
fn the_chart_has_the_rules_and_boards_of_the_repository() {
    let same = |inside: &str, outside: &str| {
        let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("a file");
        let (ours, theirs) = (
            Charts::path("files").join(inside),
            repository("monitoring").join(outside),
        );
        assert!(
            read(&ours) == read(&theirs),
            "copy {} to {}",
            theirs.display(),
            ours.display()
        );
    };
    same("alerts.yaml", "alerts.yaml");
    let boards = |directory: std::path::PathBuf| -> BTreeSet<String> {
        let entries = std::fs::read_dir(directory).expect("boards");
        entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect()
    };
    let names = boards(repository("monitoring/grafana"));
    assert_eq!(names, boards(Charts::path("files/grafana")));
    for name in names {
        same(&format!("grafana/{name}"), &format!("grafana/{name}"));
    }
}

#[test]
fn the_chart_knows_all_sections_of_the_configuration() {
    let manual = std::fs::read_to_string(repository("docs/configuration.md")).expect("the manual");
    let (mut all, mut many, mut restarting) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for part in manual.split("\n## [").skip(1) {
        let (head, rows) = part.split_once(']').expect("a heading");
        let name = head.trim_start_matches('[').to_owned();
        if head.starts_with('[') {
            many.insert(name.clone());
        }
        // `server.name` and the like take effect at once; one key that does not is enough.
        if rows.contains("| restart |") {
            restarting.insert(name.clone());
        }
        all.insert(name);
    }
    assert!(all.len() > 20 && restarting.contains("server"), "{all:?}");
    let schema = std::fs::read_to_string(Charts::path("values.schema.json")).expect("the schema");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let known = schema["$defs"]["config"]["properties"].as_object().expect("sections");
    let keys: BTreeSet<String> = known.keys().cloned().collect();
    assert_eq!(keys, all, "the sections in values.schema.json");
    let lists = known.iter().filter(|(_, kind)| kind["type"] == "array");
    assert_eq!(lists.map(|(name, _)| name.clone()).collect::<BTreeSet<_>>(), many);
    let template = std::fs::read_to_string(Charts::path("templates/_config.tpl")).expect("a template");
    let line = template
        .lines()
        .find(|line| line.contains("pick . "))
        .expect("the sections");
    let picked: BTreeSet<String> = line.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert_eq!(
        picked, restarting,
        "the sections that restart pods, in templates/_config.tpl"
    );
}

#[test]
fn the_table_of_values_is_complete() {
    let schema = std::fs::read_to_string(Charts::path("values.schema.json")).expect("the schema");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let table = std::fs::read_to_string(Charts::path("README.md")).expect("the table");
    for (name, value) in schema["properties"].as_object().expect("values") {
        if name == "global" {
            continue;
        }
        let rows: String = table
            .lines()
            .filter(|row| row.starts_with("| `") && row.contains(&format!("`{name}")))
            .collect();
        assert!(!rows.is_empty(), "{name} is not in README.md of the chart");
        let parts = value["properties"].as_object().into_iter().flatten();
        let missing: Vec<&String> = parts
            .map(|(part, _)| part)
            .filter(|part| rows.contains(&format!("`{name}.")) && !rows.contains(&format!(".{part}")))
            .collect();
        assert!(
            missing.is_empty(),
            "{name}: {missing:?} are not in README.md of the chart"
        );
    }
}
