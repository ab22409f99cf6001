//! Statics that change, and variables of threads: what is shared is a field of its owner, so the
//! crates of the house have none but those that are listed here.

use super::floors::floor;
use super::source::{Kind, SourceFile, Token};
use super::{Finding, Rule};

/// Crate, name and reason of each that stays.
const STAYING: [(&str, &str, &str); 13] = [
    (
        "crossload",
        "ALLOCATOR",
        "the language takes an allocator from a static only",
    ),
    (
        "crossload",
        "DESK",
        "room in which a thread writes its log lines; nothing is kept in it",
    ),
    (
        "crossload",
        "FAILURE",
        "a fact about the process: its standard output cannot be written",
    ),
    (
        "endpoint",
        "SEQUENCE",
        "identifiers of a thread, without a lock that all requests would take",
    ),
    (
        "execution",
        "AT_HAND",
        "the thread's way to what its owner keeps for all threads",
    ),
    (
        "storage-remote",
        "CREATING",
        "several exports may show one bucket, each with a store of its own",
    ),
    ("execution", "CURRENT", "the owner of the thread"),
    ("execution", "HERE", "where the task is that the thread is polling"),
    ("execution", "IS_NICER", "a fact about the thread: its nice value"),
    (
        "execution",
        "WANTED",
        "where the task wants to be that the thread is polling",
    ),
    (
        "net",
        "HEARD",
        "rustls has one listener for all handshakes; the thread tells them apart",
    ),
    (
        "storage",
        "OWN",
        "a fact about the process, asked once: its users and groups",
    ),
    (
        "storage",
        "SWITCHED",
        "a fact about the thread: the user as whom it acts",
    ),
];

/// Checks one file.
pub(crate) fn check(source: &SourceFile) -> Vec<Finding> {
    let krate = source.crate_name();
    if floor(krate).is_none() {
        return Vec::new();
    }
    let tokens: Vec<&Token> = source.product_tokens().collect();
    let stays = |name: &str| STAYING.iter().any(|(of, known, _)| *of == krate && *known == name);
    let statics = (1..tokens.len()).filter_map(|at| Some((tokens[at].line, static_at(&tokens, at)?)));
    let found = statics.filter(|(_, name)| !stays(name));
    found
        .map(|(line, name)| Finding::new(&source.path, line, Rule::Statics, format!("`static {name}`")))
        .collect()
}

/// The name of the static that is declared there, unless it is a constant table: a reference or an
/// array of what cannot change.
fn static_at<'t>(tokens: &[&'t Token], at: usize) -> Option<&'t str> {
    let word = |at: usize| match tokens.get(at).map(|token| &token.kind) {
        Some(Kind::Ident(word)) => Some(word.as_str()),
        _ => None,
    };
    let sign = |at: usize| match tokens.get(at).map(|token| &token.kind) {
        Some(Kind::Other(sign)) => Some(*sign),
        _ => None,
    };
    // Not of a lifetime.
    if word(at) != Some("static") || sign(at - 1) == Some('\'') {
        return None;
    }
    let name_at = if word(at + 1) == Some("mut") { at + 2 } else { at + 1 };
    let name = word(name_at).filter(|_| sign(name_at + 1) == Some(':'))?;
    let kind = name_at + 2..tokens.len();
    let mut words = kind.clone().take_while(|at| sign(*at) != Some('=')).filter_map(word);
    let is_table = matches!(sign(kind.start), Some('&' | '[')) && !words.any(changes);
    (!is_table).then_some(name)
}

/// Whether a type of this name can change behind a shared reference.
fn changes(word: &str) -> bool {
    word.starts_with("Atomic")
        || word.starts_with("Once")
        || word.ends_with("Cell")
        || ["Mutex", "RwLock", "LazyLock", "Semaphore", "mut"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    fn rules(krate: &str, code: &str) -> Vec<Rule> {
        let found = findings_in(&format!("crates/{krate}/src/a.rs"), &format!("//! Doc.\n{code}\n"));
        found.into_iter().map(|(rule, _)| rule).collect()
    }

    #[test]
    fn what_changes_is_found() {
        for code in [
            "static COUNT: AtomicU64 = AtomicU64::new(0);",
            "static SHELF: Shelf = Shelf::new();",
            "static COUNTS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];",
            "fn f() { static ONCE: OnceLock<u8> = OnceLock::new(); }",
            "thread_local! { static HERE: Cell<u8> = const { Cell::new(0) }; }",
        ] {
            assert_eq!(rules("net", code), [Rule::Statics], "{code}");
        }
    }

    #[test]
    fn tables_lifetimes_tests_and_what_is_listed_are_not() {
        for code in [
            "static TABLE: [&str; 1] = [\"a\"];",
            "pub(super) static ALL: &[&dyn Send] = &[];",
            "fn f(text: &'static str, other: u8) {}",
            "#[cfg(test)]\nmod tests {\n    static COUNT: AtomicU64 = AtomicU64::new(0);\n}",
            "thread_local! { static HEARD: RefCell<Heard> = RefCell::default(); }",
        ] {
            assert!(rules("net", code).is_empty(), "{code}");
        }
        assert!(rules("testkit", "static COUNT: AtomicU64 = AtomicU64::new(0);").is_empty());
        assert_eq!(rules("remote", "static HEARD: Heard = Heard;"), [Rule::Statics]);
    }
}
