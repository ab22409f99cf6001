//! Rules: whom they are about, how they add up, and what must hold for every rule, credential and
//! path.

use std::sync::Arc;

use credentials::{
    Activities, Activity, CertificateIssuer, Credential, Grant, Macaroon, MacaroonKey, Principal, Scope,
    VerifiedCertificate, VerifiedToken, read_bearer,
};
use policy::{
    AnonymousAccess, Area, Decision, ExportRules, Hint, Operation, Policy, Request, Rule, Who, decide, explain,
    handed_on, parse_given, parse_taken, read_authdb,
};
use proptest::prelude::*;
use types::{Error, ErrorCode, LogicalPath, Phase, Side};

const NOW_S: i64 = 1_000_000;

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

fn address() -> std::net::IpAddr {
    "192.0.2.1".parse().unwrap()
}

fn request(operation: Operation, at: &str) -> Request {
    Request {
        operation,
        path: path(at),
        client_address: address(),
        now_s: NOW_S,
        size_bytes: None,
    }
}

fn rule(who: &[&str], area: &str, may: &[&str], may_not: &[&str]) -> Rule {
    let all = |words: &[&str], read: fn(&str) -> Result<Activities, String>| {
        words
            .iter()
            .fold(Activities::NONE, |all, word| all.union(read(word).unwrap()))
    };
    Rule {
        place: format!("rule for {who:?}"),
        who: who.iter().map(|word| Who::parse(word).unwrap()).collect(),
        area: Area::parse(area).unwrap(),
        may: all(may, parse_given),
        may_not: all(may_not, parse_taken),
        ..Rule::default()
    }
}

fn closed(rules: Vec<Rule>) -> Policy {
    Policy::new(vec![ExportRules::default()], rules)
}

fn certificate(principal: Principal) -> Credential {
    Credential::Certificate(Box::new(VerifiedCertificate {
        principal,
        issuer: CertificateIssuer::default(),
        expires_s: NOW_S + 10,
        proxies: 1,
        is_limited: false,
        allows_proxies: true,
        attribute_faults: Vec::new(),
    }))
}

fn ann() -> Principal {
    Principal {
        dn: Some("/O=Grid/CN=Ann".to_owned()),
        vos: vec!["atlas".to_owned()],
        fqans: vec!["/atlas/de/Role=production".to_owned(), "/atlas".to_owned()],
        user: Some("ann".to_owned()),
        ..Principal::default()
    }
}

fn token(scopes: Option<&[(Activities, &str)]>) -> Credential {
    let scope = |(activities, at): &(Activities, &str)| Scope {
        activities: *activities,
        path: path(at),
        inside_only: false,
    };
    Credential::Token(Box::new(VerifiedToken {
        grant: scopes.map(|scopes| Grant {
            except: Vec::new(),
            scopes: scopes.iter().map(scope).collect(),
            expires_s: Some(NOW_S + 10),
            addresses: Vec::new(),
            max_upload_bytes: None,
            subject: None,
        }),
        principal: Principal {
            issuer: Some("https://iam.example.org/".to_owned()),
            subject: Some("s-1".to_owned()),
            groups: scopes.is_none().then(|| "/wlcg/test".to_owned()).into_iter().collect(),
            vos: vec!["wlcg".to_owned()],
            ..Principal::default()
        },
        token_id: None,
        expires_s: NOW_S + 10,
        not_before_s: Some(NOW_S - 10),
        audiences: Vec::new(),
        text: None,
    }))
}

fn ask(policy: &Policy, credential: &Credential, operation: Operation, at: &str) -> Decision {
    decide(policy, Ok(credential), &request(operation, at))
}

fn code(decision: &Decision) -> Option<ErrorCode> {
    decision.refusal.as_ref().map(|refusal| refusal.code)
}

#[test]
fn each_word_is_about_whom_it_says() {
    let holder = certificate(ann());
    let bearer = token(None);
    for (who, by_certificate, by_token) in [
        ("anyone", true, true),
        ("authenticated", true, true),
        ("dn:/O=Grid/CN=Ann", true, false),
        ("dn:/O=Grid/CN=Anna", false, false),
        ("vo:atlas", true, false),
        ("vo:wlcg", false, true),
        ("fqan:/atlas/*/Role=production", true, false),
        ("fqan:/atlas/Role=production", false, false),
        ("group:/atlas/de", true, false),
        ("group:/wlcg/test", false, true),
        ("group:/wlcg", false, false),
        ("role:production", true, false),
        ("issuer:https://iam.example.org/", false, true),
        ("issuer:https://iam.example.org", false, false),
        ("user:ann", true, false),
        ("address:192.0.2.0/24", true, true),
        ("address:198.51.100.0/24", false, false),
    ] {
        let policy = closed(vec![rule(&[who], "/", &["read"], &[])]);
        for (credential, about) in [(&holder, by_certificate), (&bearer, by_token)] {
            let decision = ask(&policy, credential, Operation::Read, "/f");
            assert_eq!(decision.is_allowed(), about, "{who} {:?}", credential.kind());
        }
    }
    let both = closed(vec![rule(&["vo:atlas", "role:pilot"], "/", &["read"], &[])]);
    assert!(
        !ask(&both, &holder, Operation::Read, "/f").is_allowed(),
        "all must hold"
    );
    let stranger = closed(vec![rule(&["authenticated"], "/", &["read"], &[])]);
    let decision = ask(&stranger, &Credential::Anonymous, Operation::Read, "/f");
    assert_eq!(code(&decision), Some(ErrorCode::Unauthenticated));
}

#[test]
fn a_group_counts_only_from_an_issuer_that_speaks_for_its_organisation() {
    let Credential::Token(mut other) = token(None) else {
        unreachable!()
    };
    other.principal.vos = vec!["cms".to_owned()];
    let other = Credential::Token(other);
    let alone = closed(vec![rule(&["group:/wlcg/test"], "/", &["read"], &[])]);
    assert!(!ask(&alone, &other, Operation::Read, "/f").is_allowed());
    let issuer = "issuer:https://iam.example.org/";
    let named = closed(vec![rule(&[issuer, "group:/wlcg/test"], "/", &["read"], &[])]);
    assert!(ask(&named, &other, Operation::Read, "/f").is_allowed());
    let imported = closed(read_authdb("g /wlcg/test / lr\n").unwrap());
    assert!(ask(&imported, &other, Operation::Read, "/f").is_allowed());
    // A name that merely begins so is another group.
    let shorter = closed(read_authdb("g /wlcg / lr\n").unwrap());
    assert!(!ask(&shorter, &other, Operation::Read, "/f").is_allowed());
    let trail = explain(&alone, Ok(&other), &request(Operation::Read, "/f")).trail;
    let told: Vec<String> = trail.iter().map(ToString::to_string).collect();
    let why = "the token has group:/wlcg/test, but its issuer";
    assert!(told.iter().any(|step| step.contains(why)), "{told:#?}");
}

#[test]
fn the_first_rule_that_names_somebody_says_in_whose_name_it_is_done() {
    let of = |who: &str, user: Option<&str>, vo: Option<&str>| Rule {
        user: user.map(Arc::from),
        vo: vo.map(Arc::from),
        ..rule(&[who], "/", &["all"], &[])
    };
    let policy = closed(vec![
        of("vo:cms", Some("cmsprd"), Some("cms")),
        of("role:production", None, Some("atlas-prod")),
        of("vo:atlas", Some("atlasprd"), None),
        of("dn:/O=Grid/CN=Ann", Some("other"), Some("other")),
    ]);
    let decision = ask(&policy, &certificate(ann()), Operation::Create, "/f");
    assert_eq!(
        (decision.user.as_deref(), decision.vo.as_deref()),
        (Some("atlasprd"), Some("atlas-prod"))
    );
    let open = Policy::new(policy.exports().to_vec(), vec![rule(&["vo:atlas"], "/", &["all"], &[])]);
    let decision = ask(&open, &certificate(ann()), Operation::Create, "/f");
    assert_eq!(
        (decision.user.as_deref(), decision.vo.as_deref()),
        (Some("ann"), Some("atlas"))
    );
}

#[test]
fn a_last_rule_ends_the_search_for_whom_it_is_about() {
    let last = Rule {
        last: true,
        ..rule(&["user:ann"], "/", &["read"], &[])
    };
    let policy = closed(vec![last, rule(&["vo:atlas"], "/", &["write"], &[])]);
    let bob = Principal { user: None, ..ann() };
    assert!(ask(&policy, &certificate(ann()), Operation::Read, "/f").is_allowed());
    assert!(!ask(&policy, &certificate(ann()), Operation::Create, "/f").is_allowed());
    assert!(ask(&policy, &certificate(bob), Operation::Create, "/f").is_allowed());
}

#[test]
fn a_credential_that_has_expired_meanwhile_has_its_own_code() {
    let policy = closed(vec![
        rule(&["authenticated"], "/", &["read"], &[]),
        rule(&["anyone"], "/pub", &["read"], &[]),
    ]);
    let late = |at: &str| Request {
        now_s: NOW_S + 10,
        ..request(Operation::Read, at)
    };
    let refusal = |credential: &Credential, request: &Request| code(&decide(&policy, Ok(credential), request));
    let holder = certificate(ann());
    assert_eq!(refusal(&holder, &late("/f")), Some(ErrorCode::CertificateExpired));
    assert_eq!(refusal(&holder, &late("/pub/f")), None, "what anybody may do");
    assert_eq!(refusal(&token(None), &late("/pub/f")), Some(ErrorCode::TokenExpired));
    let early = Request {
        now_s: NOW_S - 11,
        ..request(Operation::Read, "/pub/f")
    };
    assert_eq!(refusal(&token(None), &early), Some(ErrorCode::TokenNotYetValid));
    let error = Error::new(ErrorCode::CertificateExpired, Side::Client, Phase::Authenticate).with_detail("in May");
    let refused = Credential::RefusedCertificate(Box::new(error));
    assert_eq!(
        refusal(&refused, &request(Operation::Read, "/f")),
        Some(ErrorCode::CertificateExpired)
    );
    assert_eq!(refusal(&refused, &request(Operation::Read, "/pub/f")), None);
    let told = decide(&policy, Ok(&refused), &request(Operation::Read, "/f"));
    assert!(
        told.refusal
            .unwrap()
            .detail
            .ends_with("the certificate is not accepted: in May")
    );
    assert_eq!(told.hints[0], Hint::OtherCertificate);
}

#[test]
fn an_explanation_names_rules_and_clients_learn_of_their_own_only() {
    let policy = closed(vec![
        rule(&["vo:atlas"], "/", &["read"], &["delete"]),
        rule(&["dn:/O=Grid/CN=Bob"], "/", &["write"], &[]),
    ]);
    let asked = request(Operation::Create, "/f");
    let decision = explain(&policy, Ok(&certificate(ann())), &asked);
    let whole = policy::Explanation::new(&asked, &decision).to_string();
    for words in [
        "dn: /O=Grid/CN=Ann",
        "fqan: /atlas/de/Role=production",
        "on /: applies",
        "is for others: dn:/O=Grid/CN=Bob does not match",
        "belong to those to whom a rule gives the right: dn:/O=Grid/CN=Bob",
        "[[rule]] with who = \"dn:/O=Grid/CN=Ann\", path = \"/f\", may = [\"create\"]",
    ] {
        assert!(whole.contains(words), "{words}:\n{whole}");
    }
    let own = policy::Explanation::for_requester(&asked, &decision).to_string();
    assert!(
        own.contains("on /: applies") && own.contains("[[rule]] with who") && !own.contains("Bob"),
        "{own}"
    );
    let banned = explain(&policy, Ok(&certificate(ann())), &request(Operation::Delete, "/f"));
    assert_eq!(code(&banned), Some(ErrorCode::Forbidden));
    let scoped = explain(&policy, Ok(&token(Some(&[]))), &asked);
    assert!(
        scoped
            .trail
            .iter()
            .any(|step| step.to_string().contains("is for others"))
    );
}

fn any_activities() -> impl Strategy<Value = Activities> {
    proptest::collection::vec(0_usize..8, 0..4).prop_map(|picked| {
        let each = picked.into_iter().map(|index| Activities::of(&[Activity::ALL[index]]));
        each.fold(Activities::NONE, Activities::union)
    })
}

fn any_path() -> impl Strategy<Value = String> {
    "(/(a|b|ab|c)){1,3}"
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let who = prop_oneof![
        Just("anyone"),
        Just("authenticated"),
        Just("vo:atlas"),
        Just("vo:wlcg"),
        Just("user:ann"),
        Just("issuer:https://iam.example.org/"),
        Just("group:/atlas/de"),
        Just("fqan:/atlas/*"),
    ];
    let area = prop_oneof![
        any_path(),
        any_path().prop_map(|at| format!("{at}*")),
        any_path().prop_map(|at| format!("{at}/*")),
        Just("/".to_owned())
    ];
    (
        who,
        area,
        any_activities(),
        any_activities(),
        any::<bool>(),
        proptest::option::of(any_path()),
    )
        .prop_map(|(who, area, may, may_not, takes, except)| Rule {
            may,
            may_not: if takes { may_not } else { Activities::NONE },
            except: except.iter().map(|at| Area::parse(at).unwrap()).collect(),
            ..rule(&[who], &area, &[], &[])
        })
}

fn operations() -> Vec<Operation> {
    let words = [
        "stat",
        "read",
        "list",
        "create",
        "overwrite",
        "delete",
        "rmdir",
        "mkdir",
        "chmod",
    ];
    words
        .iter()
        .flat_map(|word| Operation::from_word(word, None).unwrap())
        .collect()
}

/// Credentials of all kinds.
fn any_credential() -> impl Strategy<Value = Credential> {
    let scopes = proptest::collection::vec((any_activities(), any_path()), 0..3);
    prop_oneof![
        Just(Credential::Anonymous),
        Just(certificate(ann())),
        Just(token(None)),
        scopes.prop_map(|scopes| {
            let scopes: Vec<(Activities, &str)> = scopes.iter().map(|(set, at)| (*set, at.as_str())).collect();
            token(Some(&scopes))
        }),
    ]
}

proptest! {
    /// Whatever rules say of its holder, a token with scopes does nothing but what they grant
    /// (parents can be looked at and made) and what anybody may do.
    #[test]
    fn no_token_does_more_than_its_scopes(
        rules in proptest::collection::vec(any_rule(), 0..6), may in any_activities(), scope in any_path(), at in any_path(),
    ) {
        let policy = closed(rules);
        let credential = token(Some(&[(may, &scope)]));
        let (scope, place) = (path(&scope), path(&at));
        for operation in operations() {
            let asked = request(operation.clone(), &at);
            let anybody = decide(&policy, Ok(&Credential::Anonymous), &asked).is_allowed();
            if decide(&policy, Ok(&credential), &asked).is_allowed() && !anybody {
                let on_the_way = matches!(operation, Operation::Stat | Operation::MakeDirectory);
                prop_assert!(place.is_within(&scope) || on_the_way && scope.is_within(&place));
                let alone = Policy::new(vec![ExportRules { anonymous: AnonymousAccess::None, ..ExportRules::default() }], Vec::new());
                let by_rules_of_all = policy.rules().iter().any(|rule| rule.who == [Who::Anyone] && !rule.may.is_empty());
                prop_assert!(by_rules_of_all || decide(&alone, Ok(&credential), &asked).is_allowed());
            }
        }
    }

    /// The ceiling of an export binds every credential.
    #[test]
    fn nobody_exceeds_the_ceiling(
        rules in proptest::collection::vec(any_rule(), 0..6), credential in any_credential(), ceiling in any_activities(),
        at in any_path(),
    ) {
        let export = ExportRules { anonymous: AnonymousAccess::Write, ceiling, ..ExportRules::default() };
        let policy = Policy::new(vec![export], rules);
        let up_to = Policy::new(vec![ExportRules::default()], vec![Rule { may: ceiling, ..Rule::default() }]);
        for operation in operations() {
            let asked = request(operation, &at);
            let allowed = decide(&policy, Ok(&credential), &asked).is_allowed();
            prop_assert!(!allowed || decide(&up_to, Ok(&Credential::Anonymous), &asked).is_allowed());
        }
        let handed_on = handed_on(&policy, &credential, address(), &path(&at), Activities::of(&Activity::ALL)).activities;
        prop_assert!(ceiling.contains(handed_on) || handed_on.without(ceiling).is_empty() || ceiling.contains(Activities::of(&[Activity::Manage])));
    }

    /// A right that a rule takes is gone, whatever gave it, in any order.
    #[test]
    fn what_is_taken_is_gone(
        mut rules in proptest::collection::vec(any_rule(), 0..6), credential in any_credential(), at in any_path(),
        place in 0_usize..6, word in 0_usize..4,
    ) {
        let (word, taken) = [("read", "read"), ("create", "create"), ("delete", "delete"), ("all", "overwrite")][word];
        rules.insert(place.min(rules.len()), rule(&["anyone"], "/", &[], &[word]));
        rules.push(rule(&["anyone"], "/", &["all"], &[]));
        let export = ExportRules { anonymous: AnonymousAccess::Write, ..ExportRules::default() };
        let policy = Policy::new(vec![export], rules);
        for operation in Operation::from_word(taken, None).unwrap() {
            prop_assert!(!decide(&policy, Ok(&credential), &request(operation, &at)).is_allowed());
        }
    }

    /// However a path is spelled, a rule's rights end at its edge.
    #[test]
    fn no_spelling_reaches_outside_of_a_rule(raw in "(/|\\.\\.|\\.|%2e|%2F|//|data|dat|a){0,10}") {
        let policy = closed(vec![rule(&["vo:atlas"], "/data", &["all"], &[])]);
        if let Ok(at) = LogicalPath::parse_url_path(&format!("/data{raw}")) {
            let asked = Request { path: at.clone(), ..request(Operation::Read, "/") };
            let inside = at.as_str() == "/data" || at.as_str().starts_with("/data/");
            prop_assert_eq!(decide(&policy, Ok(&certificate(ann())), &asked).is_allowed(), inside);
        }
    }

    /// The bearer of a macaroon can do only what its requester or an anonymous client could: a rule
    /// that takes from the requester by name does not bind clients without a credential.
    #[test]
    fn a_macaroon_hands_on_no_more_than_its_requester_has(
        rules in proptest::collection::vec(any_rule(), 0..6), credential in any_credential(), root in any_path(), at in any_path(),
    ) {
        let policy = closed(rules);
        let allowance = handed_on(&policy, &credential, address(), &path(&root), Activities::of(&Activity::ALL));
        let rights = allowance.activities;
        let key = MacaroonKey::new(b"secret");
        let mut caveats = vec![format!("activity:{rights}"), format!("path:{root}")];
        caveats.extend(allowance.except.iter().map(|exception| format!("except:{exception}")));
        if !rights.is_empty() {
            let minted = Macaroon::mint(&key, "se", "id", caveats.iter().map(String::as_str)).unwrap();
            let bearer = read_bearer(minted.to_text().expose(), &[key]).unwrap();
            for operation in operations() {
                // A path and what is on the way to it are not the same to its requester; only what
                // is below is handed on.
                let asked = request(operation, &at);
                if path(&at).is_within(&path(&root)) && decide(&policy, Ok(&bearer), &asked).is_allowed() {
                    let own = decide(&policy, Ok(&credential), &asked);
                    let anybody = decide(&policy, Ok(&Credential::Anonymous), &asked).is_allowed();
                    prop_assert!(own.is_allowed() || anybody, "{:?} {} {:?}", asked.operation, rights, own.trail);
                }
            }
        }
    }

    /// The index finds what a search through all rules finds.
    #[test]
    fn the_index_leaves_no_rule_out(rules in proptest::collection::vec(any_rule(), 0..12), credential in any_credential(), at in any_path()) {
        let policy = closed(rules.clone());
        for operation in operations() {
            let asked = request(operation, &at);
            let decision = explain(&policy, Ok(&credential), &asked);
            prop_assert_eq!(decision.is_allowed(), decide(&policy, Ok(&credential), &asked).is_allowed());
            // Rules that say nothing make the table larger and change nothing.
            let silent = rules.iter().flat_map(|rule| [Rule { may: Activities::NONE, may_not: Activities::NONE, ..rule.clone() }, rule.clone()]);
            let larger = closed(silent.collect());
            prop_assert_eq!(decision.is_allowed(), decide(&larger, Ok(&credential), &asked).is_allowed());
        }
    }
}
