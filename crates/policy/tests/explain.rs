//! Explanations: they agree with the decision, name every rule that was tried, and their hints are
//! true.

use credentials::{Credential, Macaroon, MacaroonKey, format_time, read_bearer};
use policy::{AnonymousAccess, Explanation, ExportRules, Hint, Operation, Policy, Request, decide, explain};
use proptest::prelude::*;
use types::{Error, LogicalPath};

const NOW_S: i64 = 1_000_000;
const SECRET: &[u8] = b"secret";

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

fn export(at: &str, anonymous: AnonymousAccess, read_only: bool) -> ExportRules {
    ExportRules {
        path: path(at),
        anonymous,
        read_only,
        ..ExportRules::default()
    }
}

fn macaroon(caveats: &[&str]) -> Credential {
    named_macaroon("id", caveats)
}

fn named_macaroon(identifier: &str, caveats: &[&str]) -> Credential {
    let key = MacaroonKey::new(SECRET);
    let made = Macaroon::mint(&key, "se", identifier, caveats.iter().copied()).unwrap();
    read_bearer(made.to_text().expose(), &[key]).unwrap()
}

fn request(operation: Operation, at: &str) -> Request {
    Request {
        operation,
        path: path(at),
        client_address: "192.0.2.1".parse().unwrap(),
        now_s: NOW_S,
        size_bytes: None,
    }
}

fn explained(exports: &[ExportRules], credential: Result<&Credential, &Error>, request: &Request) -> Explanation {
    let policy = Policy::new(exports.to_vec(), Vec::new());
    Explanation::new(request, &explain(&policy, credential, request))
}

fn operations() -> [Operation; 10] {
    let rename = |replaces| Operation::Rename {
        target: path("/data/new"),
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
    ]
}

#[test]
fn removing_a_directory_is_allowed_with_its_conditions() {
    let exports = [export("/", AnonymousAccess::Write, false)];
    let decision = |operation| {
        let told = explained(&exports, Ok(&Credential::Anonymous), &request(operation, "/d"));
        assert!(told.allowed, "{told}");
        told.decision
    };
    let empty = decision(Operation::RemoveDirectory);
    assert!(empty.contains("if it is empty") && empty.contains("rmtree"), "{empty}");
    assert!(decision(Operation::RemoveTree).contains("recursive_delete"));
    assert_eq!(decision(Operation::MakeDirectory), "allowed");
}

#[test]
fn a_refusal_is_told_from_what_was_received_to_what_would_help() {
    let exports = [
        export("/", AnonymousAccess::None, false),
        export("/data", AnonymousAccess::Read, false),
        export("/other", AnonymousAccess::None, false),
    ];
    let before = format!("before:{}", format_time(NOW_S + 1500));
    let identifier = "c0ffee00-0000-4000-8000-000000000000/user=jdoe";
    let caveats = ["name:jdoe", "activity:UPLOAD", "path:/data/mine", &before];
    let credential = named_macaroon(identifier, &caveats);
    let asked = request(Operation::Create, "/data/f");
    let text = explained(&exports, Ok(&credential), &asked).to_string();
    assert_eq!(
        text,
        "asked     create /data/f, from 192.0.2.1, at 1970-01-12T13:46:40Z\n\
         received  credential: macaroon c0ffee00-0000-4000-8000-000000000000/user=jdoe\n\
         read      the token grants UPLOAD on /data/mine\n          \
                   the token was issued by se for jdoe\n          \
                   user: jdoe\n          \
                   the token is valid for another 25 min\n\
         rules     the token may be used from any address\n          \
                   export / contains the path, but a deeper export counts\n          \
                   export /other does not contain the path\n          \
                   export /data: anonymous access \"read\"\n          \
                   to create /data/f: anonymous access is not enough\n          \
                   to create /data/f: the token grants nothing there, which is not enough\n          \
                   requires UPLOAD or MANAGE on /data/f\n\
         decision  refused, forbidden: requires UPLOAD or MANAGE on /data/f\n\
         to pass   send a token that grants UPLOAD or MANAGE on /data/f\n          \
                   or use a path in /data/mine, where the token grants that\n          \
                   or the site allows everyone: anonymous = \"write\" in the [[export]] of /data"
    );
    let allowed = explained(&exports, Ok(&credential), &request(Operation::Create, "/data/mine/f"));
    assert!(allowed.allowed && allowed.remedies.is_empty() && allowed.code.is_none());
    assert!(
        allowed.rules.iter().any(|rule| rule.ends_with("which is enough")),
        "{allowed}"
    );
    assert_eq!(allowed.rules.last().unwrap(), "it is done as the local user jdoe");
}

/// Exports, credential and request, and a piece of each hint.
type Case<'a> = (
    &'a [ExportRules],
    Result<&'a Credential, &'a Error>,
    &'a Request,
    &'a [&'a str],
);

#[test]
fn each_reason_has_its_hint() {
    let open = [export("/data", AnonymousAccess::Read, true)];
    let closed = [export("/data", AnonymousAccess::None, false)];
    let invalid = read_bearer("x", &[]).unwrap_err();
    let old = macaroon(&["before:1970-01-01T00:00:00Z"]);
    let far = macaroon(&["ip:198.51.100.0/24,198.51.100.7"]);
    let small = macaroon(&["max-upload:5"]);
    let (read, create) = (
        request(Operation::Read, "/data/f"),
        request(Operation::Create, "/data/f"),
    );
    let large = Request {
        size_bytes: Some(6),
        ..create.clone()
    };
    let nowhere = request(Operation::Read, "/else");
    let cases: [Case<'_>; 8] = [
        (
            &open,
            Err(&invalid),
            &read,
            &["send a token of this server", "send no token"],
        ),
        (&closed, Err(&invalid), &read, &["send a token of this server"]),
        (&open, Ok(&old), &read, &["get a new token", "send no token"]),
        (&closed, Ok(&far), &read, &["198.51.100.0/24, 198.51.100.7"]),
        (&closed, Ok(&small), &large, &["upload at most 5 bytes"]),
        (
            &closed,
            Ok(&small),
            &nowhere,
            &["use a path in one of the exports: /data"],
        ),
        (
            &open,
            Ok(&small),
            &create,
            &["read_only = false in the [[export]] of /data"],
        ),
        (
            &closed,
            Ok(&Credential::Anonymous),
            &read,
            &["send a token that grants DOWNLOAD on /data/f", "anonymous = \"read\""],
        ),
    ];
    for (exports, credential, request, words) in cases {
        let explanation = explained(exports, credential, request);
        assert_eq!(explanation.remedies.len(), words.len(), "{explanation}");
        for (remedy, words) in explanation.remedies.iter().zip(words) {
            assert!(remedy.contains(words), "{words}: {explanation}");
        }
    }
}

#[test]
fn a_trail_names_some_of_many_exports() {
    let many: Vec<ExportRules> = (0..100)
        .map(|n| export(&format!("/e{n}"), AnonymousAccess::None, false))
        .collect();
    let explanation = explained(&many, Ok(&Credential::Anonymous), &request(Operation::Read, "/e7/f"));
    assert!(explanation.rules.len() < 25, "{explanation}");
    assert!(
        explanation.to_string().contains("83 more exports do not apply"),
        "{explanation}"
    );
    let nowhere = explained(&many, Ok(&Credential::Anonymous), &request(Operation::Read, "/x"));
    assert!(nowhere.size_bytes() < 4096, "{}", nowhere.size_bytes());
}

fn find<'a>(exports: &'a mut [ExportRules], path: &LogicalPath) -> Option<&'a mut ExportRules> {
    exports.iter_mut().find(|export| export.path == *path)
}

/// Changes the world as a hint says; `None` when it is about something else than exports and
/// tokens.
fn follow(hint: &Hint, exports: &mut [ExportRules], credential: &mut Result<Credential, Error>) -> Option<()> {
    match hint {
        Hint::LeaveTokenOut => *credential = Ok(Credential::Anonymous),
        Hint::Token { sufficient, path } => {
            // For its directory, since a rename takes rights on two names in it.
            let path = path.parent().unwrap_or_else(LogicalPath::root);
            let activities = sufficient.first().map_or("STAGE".to_owned(), ToString::to_string);
            *credential = Ok(macaroon(&[&format!("activity:{activities}"), &format!("path:{path}")]));
        }
        Hint::OpenExport { export, anonymous } => find(exports, export)?.anonymous = *anonymous,
        Hint::LiftCeiling { export } => find(exports, export)?.read_only = false,
        Hint::OtherToken | Hint::FreshToken => *credential = Ok(macaroon(&[])),
        _ => return None,
    }
    Some(())
}

proptest! {
    /// Tracing does not change the decision, and following a hint removes its reason.
    #[test]
    fn hints_are_true(
        which in 0_usize..10, level in 0_usize..3, read_only in any::<bool>(), kind in 0_usize..5, choice in 0_usize..8,
    ) {
        let levels = [AnonymousAccess::None, AnonymousAccess::Read, AnonymousAccess::Write];
        let mut exports = vec![export("/data", levels[level], read_only)];
        let mut credential = match kind {
            0 => Ok(Credential::Anonymous),
            1 => Err(read_bearer("x", &[]).unwrap_err()),
            2 => Ok(macaroon(&["before:1970-01-01T00:00:00Z"])),
            3 => Ok(macaroon(&["path:/data/else"])),
            _ => Ok(macaroon(&["activity:LIST"])),
        };
        let asked = request(operations()[which].clone(), "/data/f");
        let mut reasons = Vec::new();
        for _ in 0..4 {
            let policy = Policy::new(exports.clone(), Vec::new());
            let decision = explain(&policy, credential.as_ref(), &asked);
            prop_assert_eq!(&decision.refusal, &decide(&policy, credential.as_ref(), &asked).refusal);
            let Some(refusal) = decision.refusal else { break };
            prop_assert!(!reasons.contains(&refusal), "again {:?}", refusal);
            reasons.push(refusal);
            let useful: Vec<&Hint> = decision
                .hints
                .iter()
                .filter(|hint| follow(hint, &mut exports.clone(), &mut Ok(Credential::Anonymous)).is_some())
                .collect();
            prop_assert!(!useful.is_empty(), "no hint: {:?}", decision.trail);
            prop_assert!(follow(useful[choice % useful.len()], &mut exports, &mut credential).is_some());
        }
    }
}
