//! What the pods of the chart would run, run from the rendered configuration: as the pod's user,
//! with files as Kubernetes mounts them.

use std::process::Command;
use std::time::Duration;

use conformance::{Lab, until};
use serde_json::Value;
use testkit::{Process, Result, available, free_port, require};

use crate::mounted::{Pod, Server};
use crate::rendered::{Charts, NAMESPACE, Objects, RELEASE, configurations, object};

/// Limit for what must happen.
const SOON: Duration = Duration::from_secs(30);

fn needed(name: &str) -> Result<(Charts, Lab)> {
    Ok((Charts::new(name)?, Lab::new(name)?))
}

/// The objects for these values.
fn objects(charts: &Charts, name: &str, values: &str) -> Objects {
    let set = charts.values(name, values);
    let mut rendered = charts.objects(&[set]);
    rendered.remove(name).expect("the rendering")
}

fn named(component: &str) -> String {
    format!("{RELEASE}-crossload-{component}")
}

fn container<'a>(objects: &'a [Value], kind: &str, component: &str) -> &'a Value {
    &object(objects, kind, &named(component))["spec"]["template"]["spec"]["containers"][0]
}

fn url(server: &Server, path: &str) -> String {
    format!("http://127.0.0.1:{}{path}", server.port)
}

/// A pod of the endpoints, with its secrets and its configuration.
fn endpoint(charts: &Charts, objects: &[Value], index: usize) -> Result<Pod> {
    let pod = Pod::new(&charts.scratch, &format!("endpoint-{index}"))?;
    let secret = object(objects, "Secret", &named("macaroons"));
    pod.mount_secret("/etc/crossload/secrets/macaroons", secret);
    Ok(pod)
}

#[test]
fn an_endpoint_runs_takes_changes_over_and_drains() {
    let test = "an_endpoint_runs_takes_changes_over_and_drains";
    let Some((charts, lab)) = available(test, needed("chart-endpoint")) else {
        return;
    };
    let render = |anonymous: &str| {
        let values = format!(
            "endpoint: {{config: {{cluster: {{drain_grace: 100ms}}, export: [{{path: /, anonymous: {anonymous}}}]}}}}"
        );
        objects(&charts, "endpoint", &values)
    };
    let rendered = render("write");
    let container = container(&rendered, "StatefulSet", "endpoint");
    let pod = endpoint(&charts, &rendered, 0).expect("a pod");
    let file = "endpoint-0.toml";
    pod.mount_configuration(file, &configurations(&rendered)[file]);
    // What `helm test` runs: warnings are no failure, mistakes are one.
    let check = &object(&rendered, "Pod", &format!("{}-check", named("endpoint")))["spec"]["containers"][0];
    let checked = conformance::run(&pod.command_of(check, 0).expect("setpriv is installed")).succeeded();
    assert!(checked.text().contains("0 errors"), "{}", checked.said());
    let server = pod.start(container, 0).expect("a server");
    let admin = format!("http://127.0.0.1:{}", server.admin_port);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().expect("a path");
        lab.curl(&[&format!("{admin}{path}")]).expect(200);
    }
    let content = lab.file(b"hello");
    let upload = |name: &str| lab.curl(&["-T", content.to_str().expect("plain"), &url(&server, name)]);
    upload("/f").expect(201);
    assert_eq!(std::fs::read(pod.data().join("f")).expect("stored"), b"hello");

    // As after `helm upgrade` with another value: no restart, since no checksum differs.
    let changed = render("read");
    let template = |objects: &[Value]| object(objects, "StatefulSet", &named("endpoint"))["spec"]["template"].clone();
    assert_eq!(template(&rendered), template(&changed), "the pods would restart");
    pod.mount_configuration(file, &configurations(&changed)[file]);
    until("it is read only", SOON, || matches!(upload("/g").status, 401 | 403));
    lab.curl(&[&url(&server, "/f")]).expect(200);

    // What Kubernetes runs before it ends the pod.
    let hook = container["lifecycle"]["preStop"]["exec"]["command"].as_array();
    let hook: Vec<&str> = hook.expect("a hook").iter().filter_map(Value::as_str).collect();
    assert_eq!(hook[..3], ["/usr/bin/crossload", "node", "drain"], "{hook:?}");
    let mut drain: Vec<String> = hook[3..].iter().map(|word| (*word).to_owned()).collect();
    drain[0] = url(&server, "");
    let mut arguments = vec!["node".to_owned(), "drain".to_owned()];
    arguments.append(&mut drain);
    let drained = conformance::run(&lab.client(arguments).expect("the client is built"));
    assert!(drained.succeeded().text().ends_with("nothing left\n"));
    lab.run_client("healthy", &[&admin]).succeeded();
}

/// Starts NATS with the rendered configuration, on other ports.
fn bus(charts: &Charts, objects: &[Value]) -> Result<(Process, u16)> {
    let directory = charts.scratch.create("nats")?;
    let (port, monitor) = (free_port()?, free_port()?);
    let secret = object(objects, "Secret", &named("bus"))["data"]["nats.conf"].clone();
    let files = serde_json::json!({"data": {"nats.conf": secret}});
    let pod = Pod::new(&charts.scratch, "nats-pod")?;
    pod.mount_secret("/etc/nats", &files);
    let read = std::fs::read_to_string(charts.scratch.join("nats-pod/etc/nats/nats.conf"))?;
    let own = read
        .replace("port: 4222", &format!("port: {port}"))
        .replace("http_port: 8222", &format!("http_port: {monitor}"))
        .replace("/tmp/nats.pid", &directory.join("pid").display().to_string());
    let file = directory.join("nats.conf");
    std::fs::write(&file, own)?;
    let mut command = Command::new(require("nats-server")?);
    let mut process = Process::spawn("nats-server", command.arg("-c").arg(&file), &directory)?;
    process.wait_listening(std::net::SocketAddr::from(([127, 0, 0, 1], port)), SOON)?;
    Ok((process, port))
}

const CLUSTER: &str = "
endpoint:
  replicas: 2
  config: {export: [{path: /data, anonymous: write}]}
redirector:
  enabled: true
  config: {redirector: {path: /data, anonymous: write}}
bus: {enabled: true}
";

#[test]
fn a_redirector_finds_its_endpoints_over_the_bus_of_the_chart() {
    let test = "a_redirector_finds_its_endpoints_over_the_bus_of_the_chart";
    let needed = require("nats-server").and_then(|_| needed("chart-cluster"));
    let Some((charts, lab)) = available(test, needed) else {
        return;
    };
    let objects = objects(&charts, "cluster", CLUSTER);
    let files = configurations(&objects);
    let (_bus, port) = bus(&charts, &objects).expect("a bus");
    let bus_host = format!("{}.{NAMESPACE}.svc.cluster.local:4222", named("bus"));
    let here = format!("127.0.0.1:{port}");
    let passwords = object(&objects, "Secret", &named("bus"));
    let password = |user: &str| serde_json::json!({"data": {"password": passwords["data"][user]}});

    let mut redirector = Pod::new(&charts.scratch, "redirector").expect("a pod");
    redirector.say(&bus_host, &here);
    let mut servers = Vec::new();
    for index in 0..2 {
        let mut pod = endpoint(&charts, &objects, index).expect("a pod");
        pod.say(&bus_host, &here);
        pod.mount_secret("/etc/crossload/bus", &password(&format!("node-{index}")));
        let file = format!("endpoint-{index}.toml");
        pod.mount_configuration(&file, &files[&file]);
        let server = pod.start(container(&objects, "StatefulSet", "endpoint"), index);
        let server = server.expect("a server");
        let host = format!(
            "{0}-{index}.{0}-pods.{NAMESPACE}.svc.cluster.local:1094",
            named("endpoint")
        );
        redirector.say(&host, &format!("127.0.0.1:{}", server.port));
        servers.push((pod, server));
    }
    redirector.mount_secret(
        "/etc/crossload/secrets/macaroons",
        object(&objects, "Secret", &named("macaroons")),
    );
    redirector.mount_secret("/etc/crossload/bus", &password("redirector"));
    let file = "redirector.toml";
    redirector.mount_configuration(file, &files[file]);
    let front = redirector.start(container(&objects, "Deployment", "redirector"), 0);
    let front = front.expect("a redirector");

    let admin = format!("http://127.0.0.1:{}", front.admin_port);
    let mut said = String::new();
    until("the bus and both nodes work", SOON, || {
        said = lab.run_client("healthy", &[&admin]).text();
        said.contains("message bus") && !said.contains("not ok")
    });
    let content = lab.file(b"hello");
    let content = content.to_str().expect("plain");
    let place = url(&front, "/data/f");
    lab.curl(&["-L", "-T", content, &place]).expect(201);
    assert_eq!(lab.curl(&["-L", &place]).expect(200).text(), "hello");
    let stored = servers.iter().filter(|(pod, _)| pod.data().join("f").is_file());
    assert_eq!(stored.count(), 1, "{said}");
}

#[test]
fn a_queue_runs_from_the_chart() {
    let Some((charts, lab)) = available("a_queue_runs_from_the_chart", needed("chart-queue")) else {
        return;
    };
    let values = "endpoint: {enabled: false}\nqueue: {enabled: true, config: {queue: {anonymous: true}}}";
    let objects = objects(&charts, "queue", values);
    let pod = Pod::new(&charts.scratch, "queue").expect("a pod");
    let file = "queue.toml";
    pod.mount_configuration(file, &configurations(&objects)[file]);
    let server = pod
        .start(container(&objects, "StatefulSet", "queue"), 0)
        .expect("a queue");
    let admin = format!("http://127.0.0.1:{}", server.admin_port);
    lab.run_client("healthy", &[&admin]).succeeded();
    let asked = lab.curl(&[&url(&server, "/whoami")]).expect(200).text();
    assert!(asked.contains("user_dn"), "{asked}");
}
