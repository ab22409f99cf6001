//! A rename takes at both ends, and wherever below a rule differs, what it takes there.

use credentials::{Credential, Macaroon, MacaroonKey, read_bearer};
use policy::{AnonymousAccess, Area, ExportRules, Operation, Policy, Request, Rule, decide, parse_given, parse_taken};
use types::LogicalPath;

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

fn export(at: &str) -> ExportRules {
    ExportRules {
        path: path(at),
        anonymous: AnonymousAccess::None,
        ..ExportRules::default()
    }
}

/// A rule about anybody: what it gives, and what it takes.
fn rule(area: &str, may: &[&str], may_not: &[&str]) -> Rule {
    let all = |words: &[&str], parse: fn(&str) -> Result<credentials::Activities, String>| {
        let sets = words.iter().map(|word| parse(word).unwrap());
        sets.fold(credentials::Activities::NONE, credentials::Activities::union)
    };
    Rule {
        area: Area::parse(area).unwrap(),
        may: all(may, parse_given),
        may_not: all(may_not, parse_taken),
        ..Rule::default()
    }
}

fn moves_as(credential: &Credential, exports: &[ExportRules], rules: &[Rule], from: &str, to: &str) -> bool {
    let request = Request {
        operation: Operation::Rename {
            target: path(to),
            replaces: false,
            own: false,
        },
        path: path(from),
        client_address: "192.0.2.1".parse().unwrap(),
        now_s: 1000,
        size_bytes: None,
    };
    let policy = Policy::new(exports.to_vec(), rules.to_vec());
    decide(&policy, Ok(credential), &request).is_allowed()
}

fn moves(rules: &[Rule], from: &str, to: &str) -> bool {
    moves_as(&Credential::Anonymous, &[export("/a")], rules, from, to)
}

#[test]
fn what_lies_below_does_not_move_past_its_rule() {
    for taken in ["read", "delete", "write", "all"] {
        let rules = [
            rule("/a", &["read", "write", "delete"], &[]),
            rule("/a/x/private", &[], &[taken]),
        ];
        assert!(!moves(&rules, "/a/x", "/a/y"), "{taken}: out of the rule");
        assert!(!moves(&rules, "/a/x/private", "/a/y"), "{taken}: the closed one itself");
        assert!(!moves(&rules, "/a/x/private/f", "/a/f"), "{taken}: what is in it");
        assert!(moves(&rules, "/a/x/other", "/a/y"), "{taken}: beside it");
        let comes = moves(&rules, "/a/y", "/a/x");
        assert_eq!(comes, matches!(taken, "read" | "delete"), "{taken}: into the rule");
    }
    let exceptions = [Rule {
        except: vec![Area::parse("/a/x/private").unwrap()],
        ..rule("/a", &["all"], &[])
    }];
    assert!(!moves(&exceptions, "/a/x", "/a/y") && moves(&exceptions, "/a/z", "/a/y"));
    let patterns = [rule("/a", &["all"], &[]), rule("/a/x/p*", &[], &["write"])];
    assert!(!moves(&patterns, "/a/x", "/a/y") && !moves(&patterns, "/a/y", "/a/x"));
}

fn removes_tree(exports: &[ExportRules], rules: &[Rule], at: &str) -> bool {
    let request = Request {
        operation: Operation::RemoveTree,
        path: path(at),
        client_address: "192.0.2.1".parse().unwrap(),
        now_s: 1000,
        size_bytes: None,
    };
    let policy = Policy::new(exports.to_vec(), rules.to_vec());
    decide(&policy, Ok(&Credential::Anonymous), &request).is_allowed()
}

#[test]
fn a_tree_is_not_removed_past_a_rule_below() {
    let exports = [export("/a")];
    for (area, taken) in [("/a/x/private", "delete"), ("/a/x/p*", "all"), ("/a/x/*", "delete")] {
        let rules = [rule("/a", &["read", "write", "delete"], &[]), rule(area, &[], &[taken])];
        assert!(!removes_tree(&exports, &rules, "/a/x"), "{area}");
        assert!(
            !removes_tree(&exports, &rules, "/a/x/private"),
            "{area}: the closed one itself"
        );
        assert!(removes_tree(&exports, &rules, "/a/y"), "{area}: beside it");
    }
    let given = [rule("/a", &["read"], &[]), rule("/a/x", &["delete"], &[])];
    assert!(removes_tree(&exports, &given, "/a/x") && !removes_tree(&exports, &given, "/a"));
    // Who may make and remove directories only removes no files.
    let managed = [rule("/a", &["MANAGE"], &[])];
    assert!(!removes_tree(&exports, &managed, "/a/x"));
    let inner = [
        export("/a"),
        ExportRules {
            read_only: true,
            ..export("/a/x/frozen")
        },
    ];
    assert!(!removes_tree(&inner, &[rule("/a", &["all"], &[])], "/a/x"));
}

#[test]
fn nothing_moves_to_where_its_mover_can_read_it_who_could_not_before() {
    let rules = [
        rule("/a", &["write", "delete"], &[]),
        rule("/a/open", &["read"], &[]),
        rule("/a/y/open", &["read"], &[]),
    ];
    assert!(moves(&rules, "/a/in/f", "/a/out/f") && moves(&rules, "/a/open/f", "/a/out/f"));
    assert!(
        !moves(&rules, "/a/in/f", "/a/open/f"),
        "a mail box whose writer cannot read it"
    );
    assert!(!moves(&rules, "/a/in", "/a/y"), "below the target");
}

#[test]
fn deeper_exports_and_the_scopes_of_a_token_count_too() {
    let mut exports = [export("/a"), export("/a/x/frozen")];
    exports[1].read_only = true;
    let rules = [rule("/a", &["all"], &[])];
    let nobody = Credential::Anonymous;
    assert!(!moves_as(&nobody, &exports, &rules, "/a/x", "/a/y"));
    assert!(!moves_as(&nobody, &exports, &rules, "/a/y", "/a/x"));
    assert!(moves_as(&nobody, &exports, &rules, "/a/z", "/a/y"));
    let key = MacaroonKey::new(b"secret");
    let minted = Macaroon::mint(&key, "se", "id", ["activity:UPLOAD", "path:/a"]).unwrap();
    let creates = read_bearer(minted.to_text().expose(), &[key]).unwrap();
    assert!(
        !moves_as(&creates, &exports[..1], &[], "/a/x", "/a/y"),
        "others' files stay"
    );
}

#[test]
fn taking_the_right_to_delete_takes_that_to_move_away() {
    let rules = [rule("/a", &["write"], &[]), rule("/a", &[], &["delete"])];
    assert!(!moves(&rules, "/a/x", "/a/y"));
    let rules = [rule("/a", &["create"], &[])];
    assert!(!moves(&rules, "/a/x", "/a/y"));
}

#[test]
fn a_refusal_because_of_a_rule_below_names_what_its_reader_may_see_only() {
    let operations = [
        Operation::Rename {
            target: path("/a/y"),
            replaces: false,
            own: false,
        },
        Operation::RemoveTree,
        Operation::ReadTree,
        Operation::LockTree,
    ];
    for (taken, is_named) in [("all", false), ("write", true), ("delete", true)] {
        let rules = [
            rule("/a", &["read", "write", "delete"], &[]),
            rule("/a/x/private", &[], &[taken]),
        ];
        let policy = Policy::new(vec![export("/a")], rules.to_vec());
        let mut refused = 0;
        for operation in &operations {
            let request = Request {
                operation: operation.clone(),
                path: path("/a/x"),
                client_address: "192.0.2.1".parse().unwrap(),
                now_s: 1000,
                size_bytes: None,
            };
            let decision = decide(&policy, Ok(&Credential::Anonymous), &request);
            let Some(refusal) = &decision.refusal else { continue };
            refused += 1;
            let own = policy::Explanation::for_requester(&request, &decision).to_string();
            let site = policy::Explanation::new(&request, &decision).to_string();
            assert_eq!(
                refusal.detail.contains("private"),
                is_named,
                "{taken}: {}",
                refusal.detail
            );
            assert_eq!(own.contains("private"), is_named, "{taken}: {own}");
            assert!(refusal.detail.contains("/a/x"), "{}", refusal.detail);
            assert!(site.contains("/a/x/private"), "{site}");
        }
        assert!(refused > 0, "{taken}");
    }
}
