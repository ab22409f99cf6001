//! Who is believed, and for what.

use std::time::Duration;

use cluster::explanation::Undirected;
use cluster::nats::filter::Generation;
use cluster::nats::limits::{ANNOUNCEMENT_BYTES_MAX, CHANGES_A_SECOND};
use cluster::nats::message::{Changes, Coming, NameChange, Reply, Request};
use cluster::nats::redirector::Event;
use cluster::nats::trial::as_redirector;
use cluster::nats::{Access, BusName, ClientCertificate, Identity, Subjects};
use cluster::node::{Node as Known, NodeId};
use testkit::{Authority, KeyKind, NatsOptions, NatsProof, NatsServer, NatsTls, NatsVersion, Scratch, available};
use types::Secret;

use crate::site::{
    Node, Redirector, access, client, node_settings, node_user, path, redirector_user, start_server, until, user,
};

fn announcement(exports: &str) -> String {
    format!("{{\"format\":1,\"exports\":[\"{exports}\"],\"status\":{{\"total_bytes\":5}}}}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_the_bus_cannot_speak_for_a_node() {
    let scratch = Scratch::new("nats-rogue").unwrap();
    let users = vec![redirector_user(), node_user("d0"), node_user("d1")];
    let Some(server) = available("a_client_of_the_bus", start_server(&scratch, users)) else {
        return;
    };
    let url = server.url();
    let node = Node::start(&url, "d0", ["/d/file".to_owned()]).await;
    let redirector = Redirector::start(&url, 1).await;
    redirector.until_ready(1).await;
    let before = redirector.view().nodes[0].counts;

    // It may do what the node d1 may, which is not configured here.
    let rogue = client(&url, "d1").await;
    let lie = Changes {
        generation: Generation(1),
        sequence: 1,
        list: vec![NameChange::Missed, NameChange::File(path("/d/lie"))],
    };
    let says = Reply::Says {
        id: 1,
        says: cluster::locator::Says::File { size_bytes: None },
    };
    let coming = Coming::File {
        node: BusName::parse("d0").unwrap(),
        path: path("/d/comes"),
    };
    let tries = [
        ("crossload.from.d0.state", announcement("/d").into_bytes()),
        ("crossload.from.d0.changes", lie.encode()),
        ("crossload.from.d0.to.r-0", says.encode()),
        ("crossload.to.d0", b"nonsense".to_vec()),
        ("crossload.all.hello", Vec::new()),
        ("crossload.from.d1.placed", coming.encode()),
        // Its own, which the redirector does not know.
        ("crossload.from.d1.state", announcement("/d").into_bytes()),
    ];
    for (subject, bytes) in tries {
        rogue.publish(subject, bytes.into()).await.unwrap();
    }
    rogue.flush().await.unwrap();
    until("the stranger was counted", || redirector.view().strangers >= 2).await;
    assert!(!redirector.director.expects(&path("/d/comes")));
    let after = redirector.view().nodes[0].counts;
    assert_eq!((after.changes, after.malformed, after.gaps), (before.changes, 0, 0));
    assert_eq!(redirector.locate("/d/lie").await, None);
    assert_eq!(redirector.locate("/d/file").await, Some(vec![NodeId(0)]));
    assert_eq!(node.member.view().malformed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_believed_for_its_own_exports_only_and_nonsense_is_counted() {
    let scratch = Scratch::new("nats-foreign").unwrap();
    let users = vec![redirector_user(), node_user("d0"), node_user("d1")];
    let Some(server) = available("a_node_is_believed", start_server(&scratch, users)) else {
        return;
    };
    let url = server.url();
    let node = Node::start(&url, "d0", ["/d/file".to_owned()]).await;
    // d1 is configured, and has gone bad.
    let redirector = Redirector::start(&url, 2).await;
    redirector.until_ready(1).await;
    let rogue = client(&url, "d1").await;
    let tell = async |subject: &str, bytes: Vec<u8>| {
        let subject = format!("crossload.from.d1.{subject}");
        rogue.publish(subject, bytes.into()).await.unwrap();
    };
    tell("state", announcement("/").into_bytes()).await;
    until("it is there", || redirector.present() == 2).await;
    assert_eq!(redirector.view().nodes[1].foreign_exports, ["/"]);
    let changes = |sequence: u64| Changes {
        generation: Generation(1),
        sequence,
        list: vec![NameChange::File(path("/other/file"))],
    };
    tell("changes", changes(1).encode()).await;
    until("the foreign name was counted", || {
        redirector.view().nodes[1].counts.foreign == 1
    })
    .await;
    assert!(redirector.known("/other/file").await.is_err());

    let nonsense = [
        b"{".to_vec(),
        b"\xff".repeat(100),
        format!(
            "{{\"format\":1,\"version\":\"{}\"}}",
            "x".repeat(ANNOUNCEMENT_BYTES_MAX)
        )
        .into_bytes(),
        b"{\"format\":1,\"names\":{\"generation\":\"1\",\"blocks\":4294967295}}".to_vec(),
    ];
    for bytes in nonsense {
        tell("state", bytes.clone()).await;
        tell("changes", bytes.clone()).await;
        tell("to.nobody", bytes).await;
    }
    until("nonsense was counted", || {
        redirector.view().nodes[1].counts.malformed >= 7
    })
    .await;
    for sequence in 0..4 * u64::from(CHANGES_A_SECOND) {
        tell("changes", changes(sequence).encode()).await;
    }
    rogue.flush().await.unwrap();
    until("the flood was cut off", || redirector.view().nodes[1].counts.flood > 0).await;
    let tells = |nodes: &cluster::node::Nodes, _| nodes.get(NodeId(1)).is_some_and(Known::tells_changes);
    until("it counts as one that tells nothing", || {
        !redirector.director.with_nodes(tells)
    })
    .await;
    // The other node has noticed nothing.
    until("its names are certain", || redirector.view().nodes[0].has_filter).await;
    assert_eq!(redirector.view().nodes[0].counts.gaps, 0);
    let located = redirector.director.locate(&path("/d/file"), true).await.unwrap();
    assert_eq!(located.holders, [NodeId(0)]);
    drop(node);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_servers_with_one_name_neither_is_believed() {
    let scratch = Scratch::new("nats-doubled").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(server) = available("of_two_servers", start_server(&scratch, users)) else {
        return;
    };
    let url = server.url();
    let node = Node::start(&url, "d0", ["/d/file".to_owned()]).await;
    let mut redirector = Redirector::start(&url, 1).await;
    redirector.until_ready(1).await;
    // Its configuration was copied to another host.
    let mut settings = node_settings(access(&url, "d0"), "d0");
    settings.doors = vec!["https://copy:1094".to_owned()];
    let copy = Node::with(settings, Node::disk([])).await;
    let is_doubled = |event: &Event| matches!(event, Event::Went { reason, .. } if reason.contains("two servers") && reason.contains("https://copy:1094"));
    redirector.until_event(is_doubled).await;
    // Neither "here" nor "not found", whatever the copy says.
    let located = redirector.director.locate(&path("/d/file"), true).await;
    assert!(matches!(located, Err(Undirected::Unsure { .. })), "{located:?}");
    assert!(redirector.view().nodes[0].is_doubled);
    let (bus, subjects, names) = (
        access(&url, "redirector"),
        Subjects::default(),
        [BusName::parse("d0").unwrap()],
    );
    let tried = as_redirector(&bus, &subjects, &names);
    assert!(tried.await.unwrap().doubled.contains("d0"));
    // It stops, and says so.
    copy.member.stop(Duration::from_secs(1)).await;
    redirector.until_ready(1).await;
    assert_eq!(redirector.locate("/d/file").await, Some(vec![NodeId(0)]));
    drop(node);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_permissions_and_passwords_are_told() {
    let scratch = Scratch::new("nats-permissions").unwrap();
    let users = vec![
        redirector_user(),
        node_user("d1"),
        user(
            "d0",
            &["crossload.from.other.>"],
            &["crossload.to.d0", "crossload.all.>"],
        ),
    ];
    let Some(server) = available("wrong_permissions", start_server(&scratch, users)) else {
        return;
    };
    let url = server.url();
    let node = Node::start(&url, "d0", []).await;
    until("the node says that it may not speak", || {
        let view = node.member.view().bus;
        view.refusals > 0
            && view
                .fault
                .is_some_and(|fault| fault.contains("Permissions Violation for Publish"))
    })
    .await;
    let mut settings = node_settings(access(&url, "d1"), "d1");
    settings.access.identity = Identity::User {
        name: "d1".to_owned(),
        password: Secret::new("wrong"),
    };
    let node = Node::with(settings, Node::disk([])).await;
    until("the node says that its password is wrong", || {
        let fault = node.member.view().bus.fault;
        fault.is_some_and(|fault| fault.to_lowercase().contains("authorization"))
    })
    .await;
    assert!(!node.member.view().bus.is_connected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_names_no_one_but_its_redirector() {
    let scratch = Scratch::new("nats-questions").unwrap();
    let users = vec![redirector_user(), node_user("d0")];
    let Some(server) = available("a_question_names_no_one", start_server(&scratch, users)) else {
        return;
    };
    let node = Node::start(&server.url(), "d0", ["/d/file".to_owned()]).await;
    let asks = client(&server.url(), "redirector").await;
    let question = |name: &str| Request::Who {
        id: 1,
        redirector: BusName::parse("r").unwrap(),
        path: path(name),
    };
    let mut bytes = question("/d/file").encode();
    // A subject in place of a name.
    let at = bytes.iter().position(|byte| *byte == b'r').unwrap();
    bytes[at] = b'.';
    until("the node is there", || node.member.view().bus.is_connected).await;
    // It may not have subscribed yet.
    while node.member.view().malformed == 0 {
        asks.publish("crossload.to.d0", bytes.clone().into()).await.unwrap();
        asks.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(node.member.view().questions, 0);
    // Names that it does not export are not looked for.
    let bytes = question("/other/file").encode();
    asks.publish("crossload.to.d0", bytes.into()).await.unwrap();
    until("the question was heard", || node.member.view().questions == 1).await;
    assert_eq!(node.member.view().found, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_keys_say_who_is_who() {
    for version in [NatsVersion::Debian, NatsVersion::Later] {
        let scratch = Scratch::new("nats-tls").unwrap();
        let made = Authority::new(scratch.path());
        let Some(authority) = available("certificates_and_keys", made) else {
            return;
        };
        let with = |user: testkit::NatsUser, proof: NatsProof| testkit::NatsUser { proof, ..user };
        let options = NatsOptions {
            version,
            users: vec![
                with(redirector_user(), NatsProof::Certificate),
                with(node_user("d0"), NatsProof::Certificate),
            ],
            tls: Some(NatsTls {
                certificate: authority.issue_localhost().unwrap(),
                authority: authority.ca_file(),
                verifies: true,
            }),
        };
        let started = NatsServer::start(&scratch.join("nats"), &options);
        let Some(server) = available("certificates_and_keys", started) else {
            continue;
        };
        let by_certificate = |name: &str| {
            let host = authority.issue_host(name, &[name], KeyKind::EcdsaP256).unwrap();
            Access {
                servers: vec![server.url()],
                authorities: vec![authority.ca_file()],
                certificate: Some(ClientCertificate {
                    certificate: host.certificate,
                    key: host.key,
                }),
                requires_tls: true,
                ..Access::default()
            }
        };
        let settings = node_settings(by_certificate("d0"), "d0");
        let _node = Node::with(settings, Node::disk(["/d/file".to_owned()])).await;
        let redirector = Redirector::with(by_certificate("redirector"), 1, None).await;
        redirector.until_ready(1).await;
        assert_eq!(redirector.locate("/d/file").await, Some(vec![NodeId(0)]));
        // Another authority is not believed.
        let other = Authority::new(&scratch.create("other").unwrap()).unwrap();
        let mut settings = node_settings(by_certificate("d0"), "d0");
        settings.access.authorities = vec![other.ca_file()];
        let node = Node::with(settings, Node::disk([])).await;
        until("the node says why", || node.member.view().bus.fault.is_some()).await;
        assert!(!node.member.view().bus.is_connected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_may_use_nkeys() {
    let scratch = Scratch::new("nats-nkeys").unwrap();
    let keys = nkeys::KeyPair::new_user();
    let mut node = node_user("d0");
    node.proof = NatsProof::Nkey(keys.public_key());
    let Some(server) = available(
        "nodes_may_use_nkeys",
        start_server(&scratch, vec![redirector_user(), node]),
    ) else {
        return;
    };
    let mut settings = node_settings(access(&server.url(), "d0"), "d0");
    settings.access.identity = Identity::Nkey(Secret::new(keys.seed().unwrap()));
    let _node = Node::with(settings, Node::disk(["/d/file".to_owned()])).await;
    let redirector = Redirector::start(&server.url(), 1).await;
    redirector.until_ready(1).await;
    assert_eq!(redirector.locate("/d/file").await, Some(vec![NodeId(0)]));
}
