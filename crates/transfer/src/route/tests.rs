//! The whole table of decisions.

use super::*;
use remote::Abilities;
use types::PeerStatus;

/// The places of the table.
#[derive(Clone, Copy, Debug)]
enum TestEnd {
    File,
    Stream,
    Http,
    Xrootd,
}

fn end(place: TestEnd) -> End {
    let server = |pulls, pushes| {
        End::server(Abilities {
            pulls,
            pushes,
            ..Abilities::default()
        })
    };
    match place {
        TestEnd::File => End::FILE,
        TestEnd::Stream => End::STREAM,
        TestEnd::Http => server(true, true),
        // XRootD servers pull and do not push.
        TestEnd::Xrootd => server(true, false),
    }
}

fn server(pulls: Ability, pushes: Ability) -> End {
    End {
        kind: EndKind::Server,
        pulls,
        pushes,
        evidence: None,
        proxy: None,
    }
}

fn ways(plan: &Plan) -> Vec<Way> {
    let left = plan.left().iter().map(|choice| choice.way);
    std::iter::once(plan.way()).chain(left).collect()
}

fn error(code: ErrorCode) -> Error {
    Error::new(code, Side::Destination, Phase::Open)
}

#[test]
fn every_pair_of_places_has_its_ways() {
    use TestEnd::{File, Http, Stream, Xrootd};
    let third_party = [Way::Pull, Way::Push, Way::Stream];
    let fetched = [Way::Pull, Way::Stream];
    let table: [(TestEnd, TestEnd, &[Way]); 13] = [
        (File, File, &[Way::Local]),
        (File, Http, &[Way::Upload]),
        (File, Xrootd, &[Way::Upload]),
        (Stream, Http, &[Way::Upload]),
        (Stream, Xrootd, &[Way::Upload]),
        (Http, File, &[Way::Download]),
        (Xrootd, File, &[Way::Download]),
        (Http, Stream, &[Way::Download]),
        (Xrootd, Stream, &[Way::Download]),
        (Http, Http, &third_party),
        (Http, Xrootd, &third_party),
        (Xrootd, Http, &fetched),
        (Xrootd, Xrootd, &fetched),
    ];
    for (source, destination, expected) in table {
        let plan = route(Preference::Any, &end(source), &end(destination)).unwrap();
        assert_eq!(ways(&plan), expected, "{source:?} to {destination:?}");
        assert!(plan.attempted().is_empty());
    }
    for (source, destination) in [(Stream, Stream), (Stream, File), (File, Stream)] {
        let refused = route(Preference::Any, &end(source), &end(destination)).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::NotImplemented);
    }
}

#[test]
fn what_is_known_of_the_servers_decides_who_acts() {
    use Ability::{No, Unknown, Yes};
    let table: [(Ability, Ability, &[Way]); 9] = [
        (Unknown, Unknown, &[Way::Pull, Way::Push, Way::Stream]),
        (Unknown, Yes, &[Way::Pull, Way::Push, Way::Stream]),
        (Unknown, No, &[Way::Pull, Way::Stream]),
        (Yes, Unknown, &[Way::Pull, Way::Push, Way::Stream]),
        (Yes, Yes, &[Way::Pull, Way::Push, Way::Stream]),
        (Yes, No, &[Way::Pull, Way::Stream]),
        (No, Unknown, &[Way::Push, Way::Stream]),
        (No, Yes, &[Way::Push, Way::Stream]),
        (No, No, &[Way::Stream]),
    ];
    for (pulls, pushes, expected) in table {
        // Pulling by the source and pushing by the destination do not matter.
        for other in [No, Unknown, Yes] {
            let (source, destination) = (server(other, pushes), server(pulls, other));
            let plan = route(Preference::Any, &source, &destination).unwrap();
            assert_eq!(ways(&plan), expected, "{pulls:?} {pushes:?}");
            assert_eq!(ways(&plan).len() + plan.passed_over().len(), 3);
        }
    }
}

#[test]
fn an_ordered_way_is_the_only_one() {
    let (http, xrootd) = (end(TestEnd::Http), end(TestEnd::Xrootd));
    for (preference, way) in [
        (Preference::Pull, Way::Pull),
        (Preference::Push, Way::Push),
        (Preference::Stream, Way::Stream),
    ] {
        let mut plan = route(preference, &http, &http).unwrap();
        assert_eq!(ways(&plan), [way]);
        assert_eq!(plan.chosen().reason, Reason::Ordered);
        assert_eq!(plan.after(&error(ErrorCode::PeerUnsupported)), None);
        // With this machine at one end there is only one way.
        assert_eq!(
            route(preference, &end(TestEnd::File), &http).unwrap().way(),
            Way::Upload
        );
    }
    let refused = route(Preference::Push, &xrootd, &http).unwrap_err();
    assert_eq!(
        (refused.code(), refused.side(), refused.detail()),
        (
            ErrorCode::PeerUnsupported,
            Side::Source,
            Some("the source cannot send to other servers")
        )
    );
    let refused = route(Preference::Pull, &http, &server(Ability::No, Ability::Yes)).unwrap_err();
    assert_eq!(
        (refused.code(), refused.side()),
        (ErrorCode::PeerUnsupported, Side::Destination)
    );
}

#[test]
fn after_each_error_the_table_says_whether_another_way_is_tried() {
    let fresh = || route(Preference::Any, &end(TestEnd::Http), &end(TestEnd::Http)).unwrap();
    for code in ErrorCode::ALL {
        let error = error(*code);
        let mut plan = fresh();
        let next = plan.after(&error);
        let goes_on = error.another_way() || *code == ErrorCode::PeerDenied;
        assert_eq!(next, goes_on.then_some(Way::Push), "{code:?}");
        assert_eq!(plan.attempted().len(), 1);
        assert_eq!(
            (plan.attempted()[0].way, plan.attempted()[0].error.code),
            (Way::Pull, *code)
        );
    }
    // Errors at which gfal's tools stop, and errors that no other way avoids.
    for code in [
        ErrorCode::PeerForbidden,
        ErrorCode::PeerNotFound,
        ErrorCode::PeerExists,
        ErrorCode::PeerNoSpace,
        ErrorCode::QuotaExceeded,
        ErrorCode::Cancelled,
        ErrorCode::ClientGone,
        ErrorCode::ChecksumMismatch,
        ErrorCode::SourceChanged,
        ErrorCode::ParentMissing,
        ErrorCode::IsDirectory,
    ] {
        assert_eq!(fresh().after(&error(code)), None, "{code:?}");
    }
    for code in [
        ErrorCode::PeerUnsupported,
        ErrorCode::NotImplemented,
        ErrorCode::PeerUnreachable,
        ErrorCode::PeerClosed,
        ErrorCode::PeerStalled,
        ErrorCode::PeerTlsFailed,
        ErrorCode::PeerAddressRefused,
        ErrorCode::Overloaded,
    ] {
        assert_eq!(fresh().after(&error(code)), Some(Way::Push), "{code:?}");
    }
    let failed = |status| error(ErrorCode::PeerFailed).with_peer(Some(PeerStatus::Http(status)), "");
    assert_eq!(fresh().after(&failed(409)), None, "a conflict stays one");
    assert_eq!(fresh().after(&failed(500)), Some(Way::Push));
}

#[test]
fn a_refusal_of_an_active_server_without_the_clients_credential_leaves_other_ways() {
    let plan = |preference| route(preference, &end(TestEnd::Http), &end(TestEnd::Http)).unwrap();
    let refusal = |code, side| Error::new(code, side, Phase::Open);
    for code in [ErrorCode::PeerDenied, ErrorCode::PeerForbidden] {
        let mut plan = plan(Preference::Any);
        assert_eq!(plan.after_unshown(&refusal(code, Side::Source)), Some(Way::Push));
        assert_eq!(plan.after_unshown(&refusal(code, Side::Destination)), Some(Way::Stream));
    }
    // The destination of a pull was shown it, and so was the source by an active server that acts
    // as the client.
    let forbidden = |side| refusal(ErrorCode::PeerForbidden, side);
    assert_eq!(plan(Preference::Any).after_unshown(&forbidden(Side::Destination)), None);
    assert_eq!(plan(Preference::Any).after(&forbidden(Side::Source)), None);
    // No other way was allowed, or can help.
    assert_eq!(plan(Preference::Pull).after_unshown(&forbidden(Side::Source)), None);
    let missing = refusal(ErrorCode::PeerNotFound, Side::Source);
    assert_eq!(plan(Preference::Any).after_unshown(&missing), None);
}

#[test]
fn ways_are_used_up_in_order_and_all_attempts_are_known() {
    let mut plan = route(Preference::Any, &end(TestEnd::Http), &end(TestEnd::Http)).unwrap();
    assert_eq!(plan.after(&error(ErrorCode::PeerUnsupported)), Some(Way::Push));
    assert_eq!(plan.after(&error(ErrorCode::PeerClosed)), Some(Way::Stream));
    assert_eq!(plan.way(), Way::Stream);
    assert_eq!(plan.after(&error(ErrorCode::PeerClosed)), None);
    let tried: Vec<_> = plan
        .attempted()
        .iter()
        .map(|attempt| (attempt.way, attempt.error.code))
        .collect();
    assert_eq!(
        tried,
        [
            (Way::Pull, ErrorCode::PeerUnsupported),
            (Way::Push, ErrorCode::PeerClosed),
            (Way::Stream, ErrorCode::PeerClosed)
        ]
    );
    assert!(!plan.attempted()[0].error.retry && plan.attempted()[1].error.retry);
}

#[test]
fn a_plan_can_be_stored_and_taken_up_again() {
    let mut plan = route(Preference::Any, &end(TestEnd::Xrootd), &end(TestEnd::Http)).unwrap();
    plan.after(&error(ErrorCode::PeerUnsupported).with_subject("https://a/f"));
    let text = serde_json::to_string(&plan).unwrap();
    let mut stored: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(stored, plan);
    assert_eq!(stored.way(), Way::Stream);
    assert_eq!(stored.after(&error(ErrorCode::PeerFailed)), None);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["chosen"]["way"], "stream");
    assert_eq!(value["passed_over"][0]["reason"], "source_cannot_push");
    assert_eq!(value["attempted"][0]["error"]["code"], "peer_unsupported");
    assert_eq!(value["attempted"][0]["error"]["side"], "destination");
    assert_eq!(value["attempted"][0]["error"]["phase"], "open");
    let unknown = text.replace("peer_unsupported", "no_such_code");
    assert!(serde_json::from_str::<Plan>(&unknown).is_err());
    let end: End = serde_json::from_str(r#"{"kind":"server","pulls":"no","pushes":"unknown"}"#).unwrap();
    assert_eq!(end, server(Ability::No, Ability::Unknown));
}

#[test]
fn a_plan_says_what_it_is_and_why() {
    let plan = |source, destination| {
        route(Preference::Any, &end(source), &end(destination))
            .unwrap()
            .to_string()
    };
    assert_eq!(
        plan(TestEnd::Http, TestEnd::Http),
        "pull (the destination fetches directly from the source, if it can); if that fails, push, then stream"
    );
    assert_eq!(
        plan(TestEnd::Xrootd, TestEnd::Http),
        "pull (the destination fetches directly from the source, if it can); if that fails, stream; no push: the \
         source cannot send to other servers"
    );
    assert_eq!(
        plan(TestEnd::File, TestEnd::Http),
        "upload (the source is on this machine)"
    );
}

/// A destination that the client gives a proxy.
fn with_proxy(pulls: Ability, ability: Ability, evidence: Option<Evidence>) -> End {
    End {
        proxy: Some(ProxyUse { ability, evidence }),
        ..server(pulls, Ability::No)
    }
}

#[test]
fn a_delegated_pull_comes_before_the_rendezvous() {
    use Ability::{No, Unknown, Yes};
    let source = end(TestEnd::Xrootd);
    let (delegated, pull, stream) = (Way::DelegatedPull, Way::Pull, Way::Stream);
    let table: [(Ability, Ability, &[Way]); 6] = [
        (Unknown, Unknown, &[delegated, pull, stream]),
        (Unknown, Yes, &[delegated, pull, stream]),
        (Unknown, No, &[pull, stream]),
        (No, Unknown, &[stream]),
        (No, Yes, &[stream]),
        (No, No, &[stream]),
    ];
    for (pulls, proxy, expected) in table {
        let plan = route(Preference::Any, &source, &with_proxy(pulls, proxy, None)).unwrap();
        assert_eq!(ways(&plan), expected, "{pulls:?} {proxy:?}");
    }
    // A client that delegates nothing does not see it.
    let plan = route(Preference::Any, &source, &end(TestEnd::Xrootd)).unwrap();
    assert_eq!(ways(&plan), [pull, stream]);
    // As with `xrdcp --tpc delegate only`, an ordered pull is one of the two.
    let to = with_proxy(Unknown, Unknown, None);
    assert_eq!(ways(&route(Preference::Pull, &source, &to).unwrap()), [delegated, pull]);
    let only = route(Preference::DelegatedPull, &source, &to).unwrap();
    assert_eq!((ways(&only), only.chosen().reason), (vec![delegated], Reason::Ordered));
    let refused = route(Preference::DelegatedPull, &source, &with_proxy(Unknown, No, None)).unwrap_err();
    let (code, words) = (
        ErrorCode::PeerUnsupported,
        "the destination does not fetch with delegated proxies",
    );
    assert_eq!((refused.code(), refused.detail()), (code, Some(words)));
    let refused = route(Preference::DelegatedPull, &source, &end(TestEnd::Http)).unwrap_err();
    assert_eq!((refused.code(), refused.side()), (code, Side::Destination));
}

#[test]
fn the_rendezvous_follows_where_no_proxy_could_be_delegated_and_not_a_refusal_by_the_source() {
    let plan = || {
        let to = with_proxy(Ability::Unknown, Ability::Unknown, None);
        route(Preference::Any, &end(TestEnd::Xrootd), &to).unwrap()
    };
    let at = |code, side, phase| Error::new(code, side, phase);
    for (error, next) in [
        // It asks for no proxy, or does not use it.
        (error(ErrorCode::PeerUnsupported), Some(Way::Pull)),
        // Ours cannot sign one.
        (
            at(ErrorCode::CertificateUnusable, Side::Client, Phase::Authenticate),
            Some(Way::Pull),
        ),
        (
            at(ErrorCode::PeerMisbehaved, Side::Destination, Phase::Authenticate),
            Some(Way::Pull),
        ),
        (
            at(ErrorCode::PeerDenied, Side::Destination, Phase::Authenticate),
            Some(Way::Pull),
        ),
        (at(ErrorCode::PeerForbidden, Side::Source, Phase::Transfer), None),
        (at(ErrorCode::PeerNotFound, Side::Source, Phase::Open), None),
    ] {
        assert_eq!(plan().after(&error), next, "{error}");
    }
    // The rendezvous has no proxy that could fail.
    let mut plan = plan();
    plan.after(&error(ErrorCode::PeerUnsupported));
    let unusable = at(ErrorCode::CertificateUnusable, Side::Client, Phase::Authenticate);
    assert_eq!(plan.after(&unusable), None);
}

#[test]
fn a_plan_says_what_is_known_of_delegation() {
    let plan = |ability, evidence| {
        let to = with_proxy(Ability::Unknown, ability, evidence);
        route(Preference::Any, &end(TestEnd::Xrootd), &to).unwrap().to_string()
    };
    assert_eq!(
        plan(Ability::Yes, Some(Evidence::Told)),
        "delegated pull (the destination fetches as the user, with a delegated proxy: it says so); if that fails, \
         pull, then stream; no push: the source cannot send to other servers"
    );
    assert_eq!(
        plan(Ability::No, Some(Evidence::Told)),
        "pull (the destination fetches directly from the source, if it can); if that fails, stream; no delegated \
         pull: the destination does not fetch with delegated proxies: it says so; no push: the source cannot send to \
         other servers"
    );
    let to = with_proxy(Ability::Unknown, Ability::Yes, Some(Evidence::Told));
    let text = serde_json::to_string(&route(Preference::Any, &end(TestEnd::Xrootd), &to).unwrap()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["chosen"]["way"], "delegated_pull");
    assert_eq!(value["chosen"]["evidence"], "told");
    let end: End = serde_json::from_str(&serde_json::to_string(&to).unwrap()).unwrap();
    assert_eq!(end, to);
}

#[test]
fn what_operators_say_rules_a_way_out_for_good() {
    let server = End::server(Abilities {
        pulls: true,
        pushes: true,
        ..Abilities::default()
    });
    let (only_sends, only_fetches) = (server.configured(false, true), server.configured(true, false));
    let plan = route(Preference::Any, &only_sends, &only_sends).unwrap();
    assert_eq!((plan.way(), plan.passed_over()[0].way), (Way::Push, Way::Pull));
    assert_eq!(plan.passed_over()[0].evidence, Some(Evidence::Configured));
    let plan = route(Preference::Any, &only_fetches, &only_sends).unwrap();
    assert_eq!((plan.way(), plan.passed_over().len()), (Way::Stream, 2));
    // Not through this machine: none is left.
    let error = route(Preference::Direct, &only_fetches, &only_sends).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerUnsupported);
    let error = route(Preference::Pull, &server, &only_sends).unwrap_err();
    assert_eq!(error.side(), Side::Destination);
    let plan = route(Preference::Direct, &server, &server).unwrap();
    assert_eq!((plan.way(), plan.left().len()), (Way::Pull, 1));
    assert_eq!(server.configured(true, true), server);
}
