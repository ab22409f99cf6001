//! Targets for what a site sets down about rights: the words of rules, and an `authdb` that it
//! brings along.

use std::net::{IpAddr, Ipv4Addr};

use credentials::Credential;
use policy::{Area, ExportRules, Operation, Policy, Request, Who, decide, read_authdb};
use types::{ErrorCode, LogicalPath};

/// Pieces of an `authdb`.
pub(crate) const AUTHDB_WORDS: &[&str] = &[
    "u * ",
    "u ann ",
    "u = ",
    "g /atlas/de ",
    "o atlas ",
    "r production ",
    "t pub ",
    "= both o atlas r: production\n",
    "x both ",
    "s both ",
    "/data ",
    "/users/@=/ ",
    "pub ",
    "lr",
    "a-d",
    "rw-n",
    " \\\n",
    "# ",
    "\n",
];

/// Pieces of the words of rules.
pub(crate) const RULE_WORDS: &[&str] = &[
    "anyone",
    "dn:/CN=",
    "vo:",
    "fqan:/atlas/*/Role=production",
    "/Role=NULL/Capability=NULL",
    "group:/",
    "address:192.0.2.0/24",
    "address:::1",
    "/users/{user}",
    "{user}",
    "/*",
    "*",
    "..",
    "/",
];

/// What is taken over can be written as rules that mean the same, and a file that is about others
/// gives a stranger nothing.
pub(crate) fn authdb(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let lines = text.lines().count();
    let rules = match read_authdb(text) {
        Ok(rules) => rules,
        Err(faults) => {
            assert!(!faults.is_empty() && faults.iter().all(|fault| (1..=lines).contains(&fault.line)));
            return;
        }
    };
    for rule in &rules {
        assert!(rule.fault().is_none(), "{rule}");
        for area in std::iter::once(&rule.area).chain(&rule.except) {
            assert_eq!(Area::parse(&area.to_string()).as_ref(), Ok(area));
        }
        for who in &rule.who {
            assert_eq!(Who::parse(&who.to_string()).as_ref(), Ok(who));
        }
        let _ = rule.to_toml();
    }
    let about_others = rules.iter().all(|rule| rule.who.iter().any(|who| *who != Who::Anyone));
    let policy = Policy::new(vec![ExportRules::default()], rules);
    let Ok(path) = LogicalPath::parse("/data/f") else {
        return;
    };
    for operation in [Operation::Stat, Operation::Read, Operation::Create, Operation::Delete] {
        let request = Request {
            operation,
            path: path.clone(),
            client_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            now_s: 0,
            size_bytes: None,
        };
        let decision = decide(&policy, Ok(&Credential::Anonymous), &request);
        if about_others {
            let code = decision.refusal.map(|refusal| refusal.code);
            assert_eq!(code, Some(ErrorCode::Unauthenticated));
        }
    }
}

/// Words that are understood are written as they mean.
pub(crate) fn rule_words(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(who) = Who::parse(text) {
        assert_eq!(Who::parse(&who.to_string()), Ok(who));
    }
    if let Ok(area) = Area::parse(text) {
        assert_eq!(Area::parse(&area.to_string()), Ok(area));
    }
}
