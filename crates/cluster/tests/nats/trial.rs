//! A trial of the bus: what it shows, and that it disturbs no one.

use cluster::nats::trial::{Refusal, Trial, Unusable, as_node, as_redirector};
use cluster::nats::{Access, BusName, Subjects};
use testkit::{Authority, NatsOptions, NatsServer, NatsTls, NatsUser, Scratch, available};

use crate::site::{Node, Redirector, access, client, node_user, path, redirector_user, start_server, until, user};

fn name(text: &str) -> BusName {
    BusName::parse(text).unwrap()
}

/// Tries the bus as a node.
async fn node_trial(access: Access, node: &str, exports: &[&str]) -> Result<Trial, Unusable> {
    let exports: Vec<_> = exports.iter().map(|export| path(export)).collect();
    as_node(&access, &Subjects::default(), &name(node), &exports).await
}

fn refusal(is_publishing: bool, subject: &str) -> Refusal {
    Refusal {
        is_publishing,
        subject: subject.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trial_with_the_rights_of_the_manual_finds_nothing_and_disturbs_no_one() {
    let scratch = Scratch::new("nats-trial").unwrap();
    let users = vec![redirector_user(), node_user("d0"), node_user("d1")];
    let Some(server) = available("a_trial_with_the_rights", start_server(&scratch, users)) else {
        return;
    };
    let (url, subjects) = (server.url(), Subjects::default());
    let node = Node::start(&url, "d0", ["/d/file".to_owned()]).await;
    let redirector = Redirector::start(&url, 2).await;
    until("the node is there", || redirector.present() == 1).await;
    let trial = as_redirector(&access(&url, "redirector"), &subjects, &[name("d0")])
        .await
        .unwrap();
    assert_eq!(trial.refused, []);
    assert!(!trial.version.is_empty());
    assert_eq!(trial.announced.keys().collect::<Vec<_>>(), ["d0"]);
    assert_eq!(trial.announced["d0"].exports, ["/d"]);
    for other in ["d0", "d1"] {
        let trial = node_trial(access(&url, other), other, &["/d"]);
        let trial = trial.await.unwrap();
        assert_eq!(trial.refused, [], "{other}");
        assert!(!trial.speaks_for_others, "{other}");
    }
    // What came after them has been heard, so they have been, too.
    node.create("/d/new");
    until("the new file is known", || {
        redirector.view().nodes[0].counts.changes > 0
    })
    .await;
    let counts = redirector.view().nodes[0].counts;
    assert_eq!((counts.malformed, counts.gaps, redirector.view().strangers), (0, 0, 0));
    assert_eq!(node.member.view().malformed, 0);
    assert_eq!(redirector.present(), 1, "a trial is no announcement");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_subject_that_is_refused_is_named() {
    let scratch = Scratch::new("nats-refused").unwrap();
    let users = vec![
        user("d0", &["crossload.from.d0.state"], &["crossload.all.>"]),
        user("redirector", &["crossload.all.>"], &["crossload.from.*.*"]),
        user("mute", &[], &[]),
    ];
    let Some(server) = available("each_subject_that_is_refused", start_server(&scratch, users)) else {
        return;
    };
    let (url, subjects) = (server.url(), Subjects::default());
    let mut trial = node_trial(access(&url, "d0"), "d0", &["/d"]).await.unwrap();
    // The last one is to a redirector that no one is.
    let last = trial.refused.pop().unwrap();
    assert!(
        last.subject.starts_with("crossload.from.d0.to.") && last.is_publishing,
        "{last:?}"
    );
    let expected = [
        refusal(false, "crossload.to.d0"),
        refusal(true, "crossload.from.d0.changes"),
    ];
    assert_eq!(trial.refused, expected);
    let trial = as_redirector(&access(&url, "redirector"), &subjects, &[])
        .await
        .unwrap();
    assert_eq!(trial.refused.len(), 3, "{:?}", trial.refused);
    let trial = node_trial(access(&url, "mute"), "d0", &["/d"]).await.unwrap();
    assert_eq!(trial.refused.len(), 6, "{:?}", trial.refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_to_everything_does_not_hold_a_trial_up() {
    let scratch = Scratch::new("nats-listener").unwrap();
    let users = vec![user("all", &[">"], &[">"]), node_user("d0")];
    let Some(server) = available("a_listener_to_everything", start_server(&scratch, users)) else {
        return;
    };
    let listener = client(&server.url(), "all").await;
    let _heard = listener.subscribe(">").await.unwrap();
    listener.flush().await.unwrap();
    for (who, may_speak) in [("d0", false), ("all", true)] {
        let trial = node_trial(access(&server.url(), who), "d0", &[]);
        let trial = trial.await.unwrap();
        assert_eq!((trial.refused.len(), trial.speaks_for_others), (0, may_speak), "{who}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_us_out_is_told() {
    let scratch = Scratch::new("nats-out").unwrap();
    let Some(mut server) = available("what_keeps_us_out", start_server(&scratch, vec![node_user("d0")])) else {
        return;
    };
    let wrong = access(&server.url(), "d7");
    let told = node_trial(wrong, "d7", &[]).await.unwrap_err();
    assert!(matches!(told, Unusable::Login(_)), "{told:?}");
    let with_tls = Access {
        requires_tls: true,
        ..access(&server.url(), "d0")
    };
    let told = node_trial(with_tls, "d0", &[]).await.unwrap_err();
    assert!(matches!(told, Unusable::Tls(_) | Unusable::Unreachable(_)), "{told:?}");
    server.process().kill_hard();
    let told = node_trial(access(&server.url(), "d0"), "d0", &[]);
    assert!(matches!(told.await.unwrap_err(), Unusable::Unreachable(_)));
    let told = node_trial(access("nats://bus.invalid", "d0"), "d0", &[]);
    assert!(matches!(told.await.unwrap_err(), Unusable::Unresolved(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_authority_and_a_missing_certificate_are_faults_of_tls() {
    let scratch = Scratch::new("nats-out-tls").unwrap();
    let made = Authority::new(scratch.path());
    let Some(authority) = available("another_authority", made) else {
        return;
    };
    let options = NatsOptions {
        users: Vec::<NatsUser>::new(),
        tls: Some(NatsTls {
            certificate: authority.issue_localhost().unwrap(),
            authority: authority.ca_file(),
            verifies: true,
        }),
        ..NatsOptions::default()
    };
    let started = NatsServer::start(&scratch.join("nats"), &options);
    let Some(server) = available("another_authority", started) else {
        return;
    };
    let other = Authority::new(&scratch.create("other").unwrap()).unwrap();
    for believed in [other.ca_file(), authority.ca_file()] {
        let access = Access {
            servers: vec![server.url()],
            authorities: vec![believed],
            requires_tls: true,
            ..Access::default()
        };
        let told = node_trial(access, "d0", &[]).await.unwrap_err();
        assert!(matches!(&told, Unusable::Tls(words) if !words.is_empty()), "{told:?}");
    }
}
