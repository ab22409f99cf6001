//! Tokens as they arrive and paths as they are written, against whole policies: exports within each
//! other, ceilings, rules that give and take. What may be done is also calculated by a second
//! reading of the specifications, which shares nothing with the crates under test, on texts alone.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credentials::{Activities, Credential, IssuerRules, TokenRules, UnverifiedToken};
use policy::{Area, ExportRules, Operation, Policy, Request, Rule, Who, decide, parse_given, parse_taken};
use proptest::prelude::*;
use types::LogicalPath;

const NOW_S: i64 = 1_000_000;
const ISSUER: &str = "https://issuer.example/";

/// A scope as text: what it is for, and where.
type ScopeText = (&'static str, String);

/// The second reading: components without what says nothing; `None` for what must be refused.
fn components(raw: &str) -> Option<Vec<String>> {
    if raw.to_ascii_lowercase().contains("%2f") {
        return None;
    }
    let plain = raw.replace("%61", "a").replace("%2e", ".").replace("%2E", ".");
    let names = plain.split('/').filter(|name| !name.is_empty() && *name != ".");
    let names: Vec<String> = names.map(str::to_owned).collect();
    (!names.iter().any(|name| name == "..")).then_some(names)
}

fn begins_with(path: &[String], start: &[String]) -> bool {
    path.len() >= start.len() && path[..start.len()] == *start
}

/// The second reading of WLCG Common JWT Profiles §2.2.1 and of SciTokens: whether a scope is about
/// that very path. Only in WLCG's a slash at the end leaves out the directory itself.
fn covers((kind, at): &ScopeText, base: &[String], path: &[String]) -> bool {
    let Some(inner) = components(at) else { return false };
    let whole = [base, &inner].concat();
    let inside_only = kind.starts_with("storage.") && at.ends_with('/') && !inner.is_empty();
    begins_with(path, &whole) && !(inside_only && path.len() == whole.len())
}

/// Whether the path is a directory above that of the scope, or the same.
fn is_above((_, at): &ScopeText, base: &[String], path: &[String]) -> bool {
    components(at).is_some_and(|inner| begins_with(&[base, &inner].concat(), path))
}

/// The mapping table: which kinds of scope do for an operation on one path.
fn kinds(operation: &str) -> &'static [&'static str] {
    match operation {
        "stat" => &[
            "storage.read",
            "storage.create",
            "storage.modify",
            "storage.stage",
            "read",
            "write",
        ],
        "read" | "list" => &["storage.read", "read"],
        "create" | "make_directory" | "move" => &["storage.create", "storage.modify", "write"],
        _ => &["storage.modify", "write"],
    }
}

fn scopes_do(scopes: &[ScopeText], base: &[String], operation: &str, path: &[String]) -> bool {
    let reaches_up = matches!(operation, "stat" | "make_directory");
    scopes.iter().any(|scope| {
        kinds(operation).contains(&scope.0) && (covers(scope, base, path) || reaches_up && is_above(scope, base, path))
    })
}

/// An operation and what it takes on which path, by the second reading.
fn parts<'a>(operation: &Operation, path: &'a [String], target: &'a [String]) -> Vec<(&'static str, &'a [String])> {
    match operation {
        Operation::Rename { replaces: false, .. } => vec![("move_away", path), ("move", target)],
        Operation::Rename { replaces: true, .. } => vec![("move_away", path), ("overwrite", target)],
        one => vec![(one.name(), path)],
    }
}

fn operations(target: &LogicalPath) -> [Operation; 11] {
    let rename = |replaces| Operation::Rename {
        target: target.clone(),
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
        Operation::ChangeMode,
        rename(false),
        rename(true),
    ]
}

/// The token as a client sends it, read as a server does; the signature is another test's matter.
fn token(version: &str, scopes: &[ScopeText], base: &str) -> Option<Credential> {
    let words: Vec<String> = scopes.iter().map(|(kind, at)| format!("{kind}:{at}")).collect();
    let claims = format!(
        r#"{{"iss":"{ISSUER}","sub":"ann","aud":"https://se","exp":{},"iat":1,"nbf":1,"jti":"j",{version},"scope":"{}"}}"#,
        NOW_S + 60,
        words.join(" ")
    );
    let text = format!("eyJhbGciOiJSUzI1NiJ9.{}.YQ", URL_SAFE_NO_PAD.encode(claims));
    let issuer = IssuerRules {
        base_paths: vec![LogicalPath::parse(base).unwrap()],
        ..IssuerRules::new(ISSUER)
    };
    let rules = TokenRules {
        issuers: Vec::new(),
        audiences: vec!["https://se".to_owned()],
        skew_s: 60,
    };
    let read = UnverifiedToken::parse(&text)
        .unwrap()
        .read(&rules, &issuer, NOW_S)
        .ok()?;
    read.grant.is_some().then(|| Credential::Token(Box::new(read)))
}

fn any_spelling() -> impl Strategy<Value = String> {
    "(/(a|b|ab|%61|\\.|%2e|%2E%2e|\\.\\.|)){0,5}/?".prop_map(|raw| format!("/{raw}"))
}

fn any_plain_path() -> impl Strategy<Value = String> {
    prop_oneof![Just("/".to_owned()), "(/(a|b|ab)){1,3}"]
}

/// The path of a scope, in spellings that a token may have.
fn any_scope_path() -> impl Strategy<Value = String> {
    prop_oneof![4 => "(/(a|b|ab|%61|\\.)){1,3}/?", 1 => Just("/".to_owned()), 1 => any_spelling()]
}

fn any_wlcg_scope() -> impl Strategy<Value = ScopeText> {
    let kind = prop::sample::select(vec![
        "storage.read",
        "storage.create",
        "storage.modify",
        "storage.stage",
    ]);
    (kind, any_scope_path())
}

fn any_scitokens_scope() -> impl Strategy<Value = ScopeText> {
    (prop::sample::select(vec!["read", "write"]), any_scope_path())
}

/// The version that a token claims, and scopes of that profile.
fn any_scopes() -> impl Strategy<Value = (&'static str, Vec<ScopeText>)> {
    prop_oneof![
        proptest::collection::vec(any_wlcg_scope(), 1..4).prop_map(|all| (r#""wlcg.ver":"1.0""#, all)),
        proptest::collection::vec(any_scitokens_scope(), 1..4).prop_map(|all| (r#""ver":"scitoken:2.0""#, all)),
    ]
}

fn any_export() -> impl Strategy<Value = ExportRules> {
    (any_plain_path(), any::<bool>()).prop_map(|(at, read_only)| ExportRules {
        path: LogicalPath::parse(&at).unwrap(),
        read_only,
        ..ExportRules::default()
    })
}

fn any_area() -> impl Strategy<Value = Area> {
    (any_plain_path(), prop::sample::select(vec!["", "*", "/*"])).prop_map(|(at, end)| {
        let text = format!("{}{end}", at.trim_end_matches('/'));
        Area::parse(&text).unwrap_or_else(|_| Area::everything())
    })
}

/// Rules that name people: the token's holder among them, whom they may give nothing and take
/// everything.
fn any_rule() -> impl Strategy<Value = Rule> {
    let who = prop::sample::select(vec![
        "issuer:https://issuer.example/",
        "authenticated",
        "vo:atlas",
        "user:ann",
    ]);
    let may = prop::sample::select(vec!["read", "write", "delete", "all"]);
    let may_not = prop::sample::select(vec!["", "", "read", "create", "write", "delete", "all"]);
    (
        who,
        may,
        may_not,
        any_area(),
        proptest::option::of(any_area()),
        any::<bool>(),
    )
        .prop_map(|(who, may, may_not, area, except, last)| Rule {
            who: vec![Who::parse(who).unwrap()],
            area,
            except: except.into_iter().collect(),
            may: parse_given(may).unwrap(),
            may_not: match may_not {
                "" => Activities::NONE,
                word => parse_taken(word).unwrap(),
            },
            last,
            ..Rule::default()
        })
}

/// The export that counts, by the second reading, and whether it lets anything be changed.
fn may_write(exports: &[ExportRules], path: &[String]) -> Option<bool> {
    let names = |export: &ExportRules| components(export.path.as_str()).unwrap();
    let holding = exports.iter().filter(|export| begins_with(path, &names(export)));
    let mut deepest: Option<&ExportRules> = None;
    for export in holding {
        // Of two with the same path any may be the one that counts here; there is only one in these
        // tests.
        if deepest.is_none_or(|known| names(export).len() > names(known).len()) {
            deepest = Some(export);
        }
    }
    deepest.map(|export| !export.read_only)
}

/// Whether nothing that binds everybody stands in the way.
fn exports_allow(exports: &[ExportRules], operation: &str, path: &[String]) -> bool {
    match may_write(exports, path) {
        None => false,
        Some(writable) => writable || matches!(operation, "stat" | "read" | "list"),
    }
}

fn one_of_each(mut exports: Vec<ExportRules>) -> Vec<ExportRules> {
    let mut seen = std::collections::HashSet::new();
    exports.retain(|export| seen.insert(export.path.clone()));
    exports
}

fn request(operation: Operation, path: &LogicalPath) -> Request {
    Request {
        operation,
        path: path.clone(),
        client_address: "192.0.2.1".parse().unwrap(),
        now_s: NOW_S,
        size_bytes: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A token does what its scopes say where an export lets it, whatever spelling is used, and
    /// rules only take from it.
    #[test]
    fn a_token_does_what_its_scopes_say_and_nothing_more(
        (version, scopes) in any_scopes(), base in any_plain_path(), rules in proptest::collection::vec(any_rule(), 0..5),
        exports in proptest::collection::vec(any_export(), 1..4), at in any_spelling(), target in any_spelling(),
    ) {
        let exports = one_of_each(exports);
        let base_names = components(&base).unwrap();
        let Some(credential) = token(version, &scopes, &base) else { return Ok(()) };
        prop_assert!(scopes.iter().all(|(_, at)| components(at).is_some()), "{scopes:?}");
        let (Ok(path), Ok(to)) = (LogicalPath::parse_url_path(&at), LogicalPath::parse_url_path(&target)) else {
            prop_assert!(components(&at).is_none() || components(&target).is_none(), "{at} {target}");
            return Ok(());
        };
        let (names, to_names) = (components(&at).unwrap(), components(&target).unwrap());
        prop_assert_eq!(path.as_str(), format!("/{}", names.join("/")));
        let takes = rules.iter().any(|rule| !rule.may_not.is_empty());
        let policy = Policy::new(exports.clone(), rules);
        for operation in operations(&to) {
            let expected = parts(&operation, &names, &to_names).iter().all(|(word, path)| {
                exports_allow(&exports, word, path) && scopes_do(&scopes, &base_names, word, path)
            });
            let decision = decide(&policy, Ok(&credential), &request(operation.clone(), &path));
            let allowed = decision.is_allowed();
            prop_assert!(!allowed || expected, "{operation:?} {scopes:?} below {base} on {path}");
            // A rename is also about what lies below, where a further scope or export may begin.
            let is_about_more = matches!(operation, Operation::Rename { .. }) && (scopes.len() > 1 || exports.len() > 1);
            prop_assert!(allowed || !expected || takes || is_about_more, "{operation:?} {scopes:?} below {base} on {path}: {:?}", decision.trail);
        }
    }
}
