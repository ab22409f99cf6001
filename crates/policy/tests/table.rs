//! The mapping table cell by cell (operation by credential), the order of the rules, and what must
//! hold for every request.

use credentials::{Activities, Activity, Allowance, Credential, Macaroon, MacaroonKey, read_bearer};
use policy::{
    AnonymousAccess, Area, Decision, ExportRules, Operation, Policy, Request, Rule, Who, allows_at_most, decide,
    explain, handed_on, parse_given, parse_taken,
};
use proptest::prelude::*;
use types::{ErrorCode, LogicalPath};

const NOW_S: i64 = 1_000_000;
const SECRET: &[u8] = b"secret";

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

fn export(at: &str, anonymous: AnonymousAccess) -> ExportRules {
    ExportRules {
        path: path(at),
        anonymous,
        ..ExportRules::default()
    }
}

fn macaroon(caveats: &[&str]) -> Credential {
    let key = MacaroonKey::new(SECRET);
    let text = Macaroon::mint(&key, "se", "id", caveats.iter().copied())
        .unwrap()
        .to_text();
    read_bearer(text.expose(), &[key]).unwrap()
}

fn request(operation: Operation, at: &str) -> Request {
    let client_address = "192.0.2.1".parse().unwrap();
    Request {
        operation,
        path: path(at),
        client_address,
        now_s: NOW_S,
        size_bytes: None,
    }
}

fn of(exports: &[ExportRules]) -> Policy {
    Policy::new(exports.to_vec(), Vec::new())
}

fn rights(exports: &[ExportRules], credential: &Credential, at: &LogicalPath) -> Activities {
    handed(exports, credential, at).activities
}

fn handed(exports: &[ExportRules], credential: &Credential, at: &LogicalPath) -> Allowance {
    let wanted = Activities::of(&Activity::ALL);
    handed_on(&of(exports), credential, "192.0.2.1".parse().unwrap(), at, wanted)
}

fn ask(exports: &[ExportRules], credential: &Credential, operation: Operation, at: &str) -> Decision {
    decide(&of(exports), Ok(credential), &request(operation, at))
}

fn code(decision: &Decision) -> Option<ErrorCode> {
    decision.refusal.as_ref().map(|refusal| refusal.code)
}

fn operations(target: &str) -> [Operation; 11] {
    let rename = |replaces| Operation::Rename {
        target: path(target),
        replaces,
        own: false,
    };
    [
        Operation::Stat,
        Operation::Read,
        Operation::List,
        Operation::Create,
        Operation::Overwrite,
        Operation::Delete,
        Operation::RemoveDirectory,
        Operation::MakeDirectory,
        rename(false),
        rename(true),
        Operation::ChangeMode,
    ]
}

/// One letter per operation, in the order of [`operations`]: `+` allowed, `-` refused.
#[test]
fn the_mapping_table() {
    let table: [(&[&str], &str); 11] = [
        //                                       S R L C O D d M r R m
        (&["activity:READ_METADATA"], "+----------"),
        (&["activity:UPDATE_METADATA"], "+---------+"),
        (&["activity:STAGE"], "+----------"),
        (&["activity:LIST"], "+-+--------"),
        (&["activity:DOWNLOAD"], "++---------"),
        (&["activity:UPLOAD"], "+--+---+---"),
        (&["activity:MANAGE"], "+--++-++++-"),
        (&["activity:DELETE"], "+----++----"),
        (&["activity:UPLOAD,DELETE"], "+--+++++++-"),
        (&["activity:LIST,DOWNLOAD,MANAGE,UPLOAD,DELETE"], "++++++++++-"),
        (&[], "+++++++++++"),
    ];
    for (caveats, cells) in table {
        let credential = macaroon(caveats);
        for (operation, cell) in operations("/data/new").into_iter().zip(cells.chars()) {
            let decision = ask(
                &[export("/data", AnonymousAccess::None)],
                &credential,
                operation.clone(),
                "/data/f",
            );
            let expected = (cell == '-').then_some(ErrorCode::Forbidden);
            assert_eq!(
                code(&decision),
                expected,
                "{caveats:?} {operation:?}: {:?}",
                explain(
                    &of(&[export("/data", AnonymousAccess::None)]),
                    Ok(&credential),
                    &request(operation.clone(), "/data/f")
                )
                .trail
            );
        }
    }
    for (access, cells) in [
        (AnonymousAccess::None, "-----------"),
        (AnonymousAccess::Read, "+++--------"),
        (AnonymousAccess::Write, "+++++++++++"),
    ] {
        for (operation, cell) in operations("/data/new").into_iter().zip(cells.chars()) {
            let decision = ask(&[export("/data", access)], &Credential::Anonymous, operation, "/data/f");
            assert_eq!(code(&decision), (cell == '-').then_some(ErrorCode::Unauthenticated));
        }
    }
}

#[test]
fn parents_can_be_looked_at_and_made_but_nothing_more() {
    let exports = [export("/data", AnonymousAccess::None)];
    let credential = macaroon(&["activity:UPLOAD,LIST,DELETE", "path:/data/a/b/f"]);
    for (operation, allowed) in operations("/data/a/b/f").into_iter().zip("+------+---".chars()) {
        let decision = ask(&exports, &credential, operation.clone(), "/data/a");
        assert_eq!(decision.is_allowed(), allowed == '+', "{operation:?}");
    }
    assert_eq!(
        code(&ask(&exports, &credential, Operation::Stat, "/data/a/bc")),
        Some(ErrorCode::Forbidden)
    );
    assert_eq!(
        code(&ask(&exports, &credential, Operation::Create, "/data/a/b/f2")),
        Some(ErrorCode::Forbidden)
    );
    let reader = macaroon(&["activity:DOWNLOAD", "path:/data/a/b"]);
    assert!(!ask(&exports, &reader, Operation::MakeDirectory, "/data/a").is_allowed());
}

#[test]
fn an_invalid_token_is_never_anonymous() {
    let exports = [export("/data", AnonymousAccess::Write)];
    let error = read_bearer("a.b.c", &[]).unwrap_err();
    let decision = decide(&of(&exports), Err(&error), &request(Operation::Read, "/data/f"));
    assert_eq!(code(&decision), Some(ErrorCode::TokenMalformed), "its own code");
    for caveats in [["before:1970-01-12T13:46:40Z"], ["ip:198.51.100.0/24"]] {
        let decision = ask(&exports, &macaroon(&caveats), Operation::Read, "/data/f");
        assert_eq!(code(&decision), Some(ErrorCode::InvalidToken), "{caveats:?}");
    }
    assert!(
        ask(
            &exports,
            &macaroon(&["before:1970-01-12T13:46:41Z", "ip:192.0.2.0/24"]),
            Operation::Read,
            "/data/f"
        )
        .is_allowed()
    );
}

#[test]
fn a_valid_token_never_has_fewer_rights_than_none() {
    let exports = [export("/data", AnonymousAccess::Read)];
    let credential = macaroon(&["activity:UPLOAD", "path:/data/in"]);
    assert!(ask(&exports, &credential, Operation::Read, "/data/other").is_allowed());
    assert_eq!(
        code(&ask(&exports, &credential, Operation::Create, "/data/other")),
        Some(ErrorCode::Forbidden)
    );
}

#[test]
fn what_was_decided_earlier_is_held_against_the_ceilings_of_today() {
    let closed = |change: fn(&mut ExportRules)| {
        let mut rules = export("/data", AnonymousAccess::None);
        change(&mut rules);
        of(&[rules])
    };
    let open = closed(|_| {});
    let read_only = closed(|rules| rules.read_only = true);
    let reads = closed(|rules| rules.ceiling = Activities::of(&[Activity::Download]));
    for (operation, in_read_only, in_reads) in [
        (Operation::Read, true, true),
        (Operation::List, true, false),
        (Operation::Create, false, false),
        (Operation::Overwrite, false, false),
    ] {
        let may =
            |policy: &Policy, at: &str| allows_at_most(policy, &operation, &path(at)).map_err(|error| error.code());
        let expected = |allowed: bool| if allowed { Ok(()) } else { Err(ErrorCode::Forbidden) };
        assert_eq!(may(&open, "/data/f"), Ok(()));
        assert_eq!(may(&open, "/other/f"), Err(ErrorCode::NotFound));
        assert_eq!(may(&read_only, "/data/f"), expected(in_read_only), "{operation:?}");
        assert_eq!(may(&reads, "/data/f"), expected(in_reads), "{operation:?}");
    }
}

#[test]
fn exports_and_their_ceilings() {
    let mut exports = [
        export("/data", AnonymousAccess::Write),
        export("/data/frozen", AnonymousAccess::Read),
    ];
    exports[1].read_only = true;
    let all = macaroon(&[]);
    assert_eq!(
        code(&ask(&exports, &all, Operation::Create, "/data/frozen/f")),
        Some(ErrorCode::Forbidden)
    );
    assert!(ask(&exports, &all, Operation::Read, "/data/frozen/f").is_allowed());
    assert!(ask(&exports, &all, Operation::Create, "/data/frozen2").is_allowed());
    let into = Operation::Rename {
        target: path("/data/frozen/f"),
        replaces: false,
        own: false,
    };
    assert_eq!(code(&ask(&exports, &all, into, "/data/f")), Some(ErrorCode::Forbidden));
    assert_eq!(
        code(&ask(&exports, &all, Operation::Stat, "/elsewhere")),
        Some(ErrorCode::NotFound)
    );
    assert_eq!(rights(&exports, &all, &path("/data/frozen/f")), Activities::READ);
    assert_eq!(
        rights(&exports, &Credential::Anonymous, &path("/data/f")),
        Activities::of(&Activity::ALL)
    );
    assert_eq!(
        rights(&exports, &Credential::Anonymous, &path("/elsewhere")),
        Activities::NONE
    );
}

#[test]
fn nobody_hands_on_what_a_deeper_export_refuses_him() {
    let exports = [
        export("/data", AnonymousAccess::Write),
        export("/data/open", AnonymousAccess::Read),
        export("/data/open/closed", AnonymousAccess::None),
    ];
    let own = |at: &str| {
        let allowance = handed(&exports, &Credential::Anonymous, &path(at));
        let except = allowance.except.iter().map(ToString::to_string);
        (allowance.activities, except.collect::<Vec<_>>().join(" "))
    };
    let all = Activities::of(&Activity::ALL);
    let writing = all.without(Activities::READ);
    assert_eq!(
        own("/data"),
        (all, format!("{writing}:/data/open {all}:/data/open/closed"))
    );
    let reading = Activities::READ;
    assert_eq!(own("/data/open"), (reading, format!("{reading}:/data/open/closed")));
    assert_eq!(own("/data/open/other"), (reading, String::new()));
    assert_eq!(own("/data/other"), (all, String::new()));
}

/// A macaroon with the activities in `/data` that an identity may hand on, used under other rules.
#[test]
fn a_macaroon_keeps_its_activities_and_its_exceptions_whatever_the_rules_become() {
    let rule = |area: &str, who: &str, may: &str, may_not: &str| Rule {
        who: vec![Who::parse(who).unwrap()],
        area: Area::parse(area).unwrap(),
        may: parse_given(may).unwrap(),
        may_not: if may_not.is_empty() {
            Activities::NONE
        } else {
            parse_taken(may_not).unwrap()
        },
        ..Rule::default()
    };
    let policy = |closed: &[&str]| {
        let mut rules = vec![rule("/data", "user:ann", "all", "")];
        rules.extend(closed.iter().map(|area| rule(area, "user:ann", "stat", "all")));
        Policy::new(vec![export("/", AnonymousAccess::None)], rules)
    };
    let key = MacaroonKey::new(SECRET);
    let principal = credentials::Principal {
        user: Some("ann".to_owned()),
        ..credentials::Principal::default()
    };
    let holder = Credential::Certificate(Box::new(credentials::VerifiedCertificate {
        principal,
        issuer: credentials::CertificateIssuer::default(),
        expires_s: i64::MAX,
        proxies: 0,
        is_limited: false,
        allows_proxies: true,
        attribute_faults: Vec::new(),
    }));
    let address = "192.0.2.1".parse().unwrap();
    let wanted = Activities::of(&[Activity::Download, Activity::List]);
    let old = policy(&["/data/closed", "/data/x*", "/data/deep/*"]);
    let allowance = handed_on(&old, &holder, address, &path("/data"), wanted);
    assert_eq!((allowance.activities, allowance.except.len()), (wanted, 3));
    let mut caveats = vec![format!("activity:{wanted}"), "path:/data".to_owned()];
    caveats.extend(allowance.except.iter().map(|exception| format!("except:{exception}")));
    let text = Macaroon::mint(&key, "se", "id", caveats.iter().map(String::as_str))
        .unwrap()
        .to_text();
    let bearer = read_bearer(text.expose(), &[key]).unwrap();
    for rules in [old, policy(&[]), policy(&["/data/other"])] {
        let may = |at: &str| decide(&rules, Ok(&bearer), &request(Operation::Read, at));
        assert!(may("/data/f").is_allowed() && may("/data/deep").is_allowed());
        for at in [
            "/data/closed",
            "/data/closed/f",
            "/data/x",
            "/data/xy/f",
            "/data/deep/f",
        ] {
            let decision = may(at);
            assert!(!decision.is_allowed(), "{at}");
            let detail = decision.refusal.unwrap().detail;
            assert!(
                detail.contains("requester did not have here") || detail.contains("a rule takes"),
                "{detail}"
            );
        }
    }
    // With too many of them the activity is not handed on, and the answer says so.
    let many: Vec<String> = (0..40).map(|number| format!("/data/closed{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let allowance = handed_on(&policy(&many), &holder, address, &path("/data"), wanted);
    assert_eq!(allowance, Allowance::default());
}

#[test]
fn uploads_are_limited_in_size() {
    let exports = [export("/data", AnonymousAccess::None)];
    let credential = macaroon(&["max-upload:10"]);
    for (size_bytes, expected) in [(None, None), (Some(10), None), (Some(11), Some(ErrorCode::Forbidden))] {
        let decision = decide(
            &of(&exports),
            Ok(&credential),
            &Request {
                size_bytes,
                ..request(Operation::Create, "/data/f")
            },
        );
        assert_eq!(code(&decision), expected);
        assert_eq!(decision.max_upload_bytes, expected.is_none().then_some(10));
    }
}

#[test]
fn the_trail_says_what_would_make_it_pass() {
    let exports = [export("/data", AnonymousAccess::Read)];
    let decision = ask(
        &exports,
        &macaroon(&["activity:UPLOAD", "path:/data"]),
        Operation::Overwrite,
        "/data/f",
    );
    let text: Vec<String> = decision.trail.iter().map(ToString::to_string).collect();
    assert_eq!(text[0], "credential: macaroon id");
    assert_eq!(text[1], "the token grants UPLOAD on /data");
    assert_eq!(text[2], "the token was issued by se, without a subject");
    assert_eq!(text[3], "the token never expires");
    assert_eq!(text.last().unwrap(), "requires UPLOAD,DELETE or MANAGE on /data/f");
}

proptest! {
    /// Whatever the caveats, nothing outside of their path (but parents) and activities is allowed.
    #[test]
    fn no_macaroon_does_more_than_its_caveats(
        only in "(/[ab]{1,2}){1,3}", at in "(/{1,2}(\\.|[ab]{1,2})){1,4}", which in 0_usize..10, upload in any::<bool>(),
    ) {
        let activity = if upload { "activity:UPLOAD" } else { "activity:DOWNLOAD" };
        let credential = macaroon(&[activity, &format!("path:{only}")]);
        let operation = operations(&at)[which].clone();
        let decision = ask(&[export("/", AnonymousAccess::None)], &credential, operation, &at);
        let (only, at) = (path(&only), path(&at));
        if decision.is_allowed() {
            let parent_of_it = only.is_within(&at) && (which == 0 || which == 7 && upload);
            prop_assert!(at.is_within(&only) || parent_of_it);
            prop_assert!(matches!((which, upload), (0, _) | (1, false) | (3 | 7 | 8, true)));
        }
    }

    /// However a path is spelled, an export's rights end at its edge.
    #[test]
    fn no_spelling_reaches_outside(raw in "(/|\\.\\.|\\.|%2e|%2F|data|dat|a){0,12}") {
        if let Ok(at) = LogicalPath::parse_url_path(&format!("/data{raw}")) {
            let decision = decide(
                &of(&[export("/data", AnonymousAccess::Write)]),
                Ok(&Credential::Anonymous),
                &Request { path: at.clone(), ..request(Operation::Read, "/") },
            );
            let inside = at.as_str() == "/data" || at.as_str().starts_with("/data/");
            prop_assert_eq!(decision.is_allowed(), inside);
            prop_assert!(at.components().all(|name| name != ".."));
        }
    }
}
