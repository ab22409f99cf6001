//! Names and numbers that belong to one floor and may not appear above it.

use super::floors::floor;
use super::source::{Kind, SourceFile, Token};
use super::{Finding, Rule};

/// The prefix of every constant of the XRootD protocol, and the only crate that spells it.
const XROOT_PREFIX: &str = "kXR_";
const XROOT_WIRE: &str = "xroot-wire";
/// The highest floor that may spell a header name or hold a status number as a peer sent it.
const WIRE_FLOOR: u8 = 1;
/// The highest floor that may decide by a status number.
const DOOR_FLOOR: u8 = 7;

/// Crates that compute only: they read no file and no clock, and open no connection.
const PURE: [&str; 7] = [
    "types",
    "http-wire",
    "xroot-wire",
    "gsi-wire",
    "records",
    "credentials",
    "policy",
];

/// Crates that stand for another program (a peer, a load generator), or read what is written for
/// one, and so speak the protocol by hand, on purpose.
const SPEAKS_BY_HAND: [&str; 7] = [
    "testkit",
    "conformance",
    "bench-peers",
    "probe",
    "fuzz-targets",
    "migrate",
    "xtask",
];

/// Header names that no other text in this project resembles: compared without regard to case.
const DISTINCT_HEADERS: [&str; 54] = [
    "accept-encoding",
    "accept-ranges",
    "authorization",
    "cache-control",
    "client-info",
    "clientinfo",
    "content-digest",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "copy-header",
    "etag",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "last-modified",
    "lock-token",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "repr-digest",
    "requirechecksumverification",
    "retry-after",
    "set-cookie",
    "strict-transport-security",
    "te",
    "tracestate",
    "traceparent",
    "transfer-encoding",
    "transferheaderauthorization",
    "user-agent",
    "want-content-digest",
    "want-digest",
    "want-repr-digest",
    "www-authenticate",
    "x-content-type-options",
    "x-forwarded-for",
    "x-frame-options",
    "x-number-of-streams",
    "x-request-id",
    "x-transfer-status",
    "x-checksum",
    "oc-checksum",
    "x-amz-date",
    "x-oc-mtime",
    "content-security-policy",
];

/// Header names that are also plain words: only this spelling is the header.
const WORD_HEADERS: [&str; 23] = [
    "Accept",
    "Age",
    "Allow",
    "Connection",
    "Cookie",
    "Credential",
    "Date",
    "Depth",
    "Destination",
    "Digest",
    "Expect",
    "Expires",
    "Forwarded",
    "Host",
    "Location",
    "Origin",
    "Overwrite",
    "Range",
    "SciTag",
    "Server",
    "Source",
    "Trailer",
    "Vary",
];

/// Checks one file.
pub(crate) fn check(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let name = source.crate_name();
    if SPEAKS_BY_HAND.contains(&name) {
        return findings;
    }
    let here = floor(name);
    for token in source.product_tokens() {
        let mut find = |rule: Rule, detail: String| {
            findings.push(Finding::new(&source.path, token.line, rule, detail));
        };
        if name != XROOT_WIRE && spells_xroot(token) {
            find(Rule::WireNames, format!("`{XROOT_PREFIX}` outside of {XROOT_WIRE}"));
        }
        if here > Some(WIRE_FLOOR)
            && let Some(header) = header_in(token)
        {
            find(
                Rule::WireNames,
                format!("header name \"{header}\" outside of http-wire"),
            );
        }
    }
    if here > Some(DOOR_FLOOR) {
        findings.extend(status_numbers(source));
    }
    findings.extend(reaches(source));
    findings
}

fn spells_xroot(token: &Token) -> bool {
    match &token.kind {
        Kind::Ident(text) | Kind::Text(text) => text.contains(XROOT_PREFIX),
        Kind::Integer(_) | Kind::Other(_) => false,
    }
}

/// The header a literal names: the whole literal, or the start of a header line in it.
fn header_in(token: &Token) -> Option<String> {
    let Kind::Text(text) = &token.kind else { return None };
    let is_header = |word: &str| {
        DISTINCT_HEADERS.iter().any(|header| header.eq_ignore_ascii_case(word)) || WORD_HEADERS.contains(&word)
    };
    if is_header(text) {
        return Some(text.clone());
    }
    let in_lines = text.contains("\r\n");
    text.split("\r\n")
        .filter_map(|line| line.split_once(':'))
        .map(|(word, _)| word)
        .find(|word| is_header(word) && (in_lines || !WORD_HEADERS.contains(word)))
        .map(str::to_owned)
}

/// Integers that look like a status, on a line that speaks of a status.
fn status_numbers(source: &SourceFile) -> Vec<Finding> {
    let speaks_of_status = |line: usize| {
        source
            .product_tokens()
            .filter(|token| token.line == line)
            .any(|token| match &token.kind {
                Kind::Ident(word) => word.to_ascii_lowercase().contains("status"),
                _ => false,
            })
    };
    let mut findings = Vec::new();
    for token in source.product_tokens() {
        if let Kind::Integer(number @ 100..=599) = token.kind
            && speaks_of_status(token.line)
        {
            let detail = format!("HTTP status {number} above floor {DOOR_FLOOR}");
            findings.push(Finding::new(&source.path, token.line, Rule::StatusNumbers, detail));
        }
    }
    findings
}

/// Commands of an administrator that work with programs of the machine: PostgreSQL's, systemd's.
const ADMINISTRATION: [&str; 2] = ["crates/crossload/src/backup/", "crates/crossload/src/upgrade/"];

/// What a crate may reach for: a path of identifiers, the rule, and the crates that may.
const REACHES: [(&[&str], Rule, Reach); 12] = [
    (&["env", "var"], Rule::Environment, Reach::OnlyIn("crossload")),
    (&["env", "var_os"], Rule::Environment, Reach::OnlyIn("crossload")),
    (&["env", "args"], Rule::Environment, Reach::OnlyIn("crossload")),
    (&["process", "Command"], Rule::Programs, Reach::Below(&ADMINISTRATION)),
    (&["thread", "spawn"], Rule::Threads, Reach::OnlyIn("execution")),
    (&["thread", "Builder"], Rule::Threads, Reach::OnlyIn("execution")),
    (&["runtime", "Builder"], Rule::Threads, Reach::OnlyIn("execution")),
    (&["spawn_blocking"], Rule::Threads, Reach::OnlyIn("execution")),
    (&["std", "fs"], Rule::Purity, Reach::NotIn(&PURE)),
    (&["std", "net", "TcpStream"], Rule::Purity, Reach::NotIn(&PURE)),
    (&["Instant", "now"], Rule::Purity, Reach::NotIn(&PURE)),
    (&["SystemTime", "now"], Rule::Purity, Reach::NotIn(&PURE)),
];

enum Reach {
    OnlyIn(&'static str),
    /// Only in these directories.
    Below(&'static [&'static str]),
    /// Everywhere but in these crates.
    NotIn(&'static [&'static str]),
}

impl Reach {
    fn permits(&self, source: &SourceFile) -> bool {
        let name = source.crate_name();
        match self {
            Self::OnlyIn(only) => name == *only,
            Self::Below(directories) => directories.iter().any(|directory| source.path.starts_with(directory)),
            Self::NotIn(crates) => !crates.contains(&name),
        }
    }
}

fn reaches(source: &SourceFile) -> Vec<Finding> {
    let tokens: Vec<&Token> = source.product_tokens().collect();
    let mut findings = Vec::new();
    for (path, rule, reach) in &REACHES {
        if reach.permits(source) {
            continue;
        }
        for start in 0..tokens.len() {
            if is_path_at(&tokens[start..], path) {
                let detail = format!("`{}` in {}", path.join("::"), source.crate_name());
                findings.push(Finding::new(&source.path, tokens[start].line, *rule, detail));
            }
        }
    }
    findings
}

/// Whether the tokens begin with `a::b::…`.
fn is_path_at(tokens: &[&Token], path: &[&str]) -> bool {
    let mut position = 0;
    for (index, word) in path.iter().enumerate() {
        if index > 0 {
            let colons = tokens.iter().skip(position).take(2);
            if colons.filter(|token| token.kind == Kind::Other(':')).count() != 2 {
                return false;
            }
            position += 2;
        }
        let matches = tokens
            .get(position)
            .is_some_and(|token| token.kind == Kind::Ident((*word).to_owned()));
        if !matches {
            return false;
        }
        position += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    fn rules(path: &str, line: &str) -> Vec<Rule> {
        findings_in(path, &format!("//! Doc.\n{line}\n"))
            .into_iter()
            .map(|(rule, _)| rule)
            .collect()
    }

    #[test]
    fn xrootd_constants_stay_in_their_wire_crate() {
        assert_eq!(
            rules("crates/remote/src/a.rs", "const A: u16 = kXR_read;"),
            [Rule::WireNames]
        );
        assert!(rules("crates/xroot-wire/src/a.rs", "const A: u16 = kXR_read;").is_empty());
        assert!(rules("crates/remote/src/a.rs", "// Answers to kXR_read.").is_empty());
    }

    #[test]
    fn header_names_stay_in_the_wire_crate() {
        for text in [
            "\"Content-Length\"",
            "\"want-digest\"",
            "b\"Etag\"",
            "\"Depth\"",
            "\"X\\r\\nHost: a\"",
        ] {
            let line = format!("const A: &T = {text};");
            assert_eq!(rules("crates/door-http/src/a.rs", &line), [Rule::WireNames], "{text}");
            assert!(rules("crates/http-wire/src/a.rs", &line).is_empty(), "{text}");
            assert!(rules("crates/conformance/src/a.rs", &line).is_empty(), "{text}");
        }
    }

    #[test]
    fn plain_words_are_no_headers() {
        for text in [
            "\"source\"",
            "\"destination\"",
            "\"Source: not found\"",
            "\"the Range is empty\"",
        ] {
            assert!(
                rules("crates/door-http/src/a.rs", &format!("const A: &str = {text};")).is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn a_test_may_spell_what_it_expects() {
        let text = "//! Doc.\n#[cfg(test)]\nmod tests {\n    const A: &str = \"Content-Length\";\n}\n";
        assert!(findings_in("crates/door-http/src/a.rs", text).is_empty());
    }

    #[test]
    fn status_numbers_end_at_the_doors() {
        assert_eq!(
            rules(
                "crates/crossload/src/a.rs",
                "fn f(s: u16) -> bool { s.status() == 404 }"
            ),
            [Rule::StatusNumbers]
        );
        assert!(rules("crates/crossload/src/a.rs", "const WAIT_MS: u64 = 500;").is_empty());
        assert!(rules("crates/door-http/src/a.rs", "fn f() { status(404) }").is_empty());
    }

    #[test]
    fn only_the_binary_reads_the_environment() {
        let line = "fn f() { std::env::var(\"A\"); }";
        assert_eq!(rules("crates/net/src/a.rs", line), [Rule::Environment]);
        assert!(rules("crates/crossload/src/a.rs", line).is_empty());
    }

    #[test]
    fn no_program_is_started() {
        assert_eq!(
            rules("crates/net/src/a.rs", "use std::process::Command;"),
            [Rule::Programs]
        );
        assert!(rules("crates/net/src/a.rs", "use std::process::ExitCode;").is_empty());
        let line = "use std::process::Command;";
        assert_eq!(rules("crates/crossload/src/server/a.rs", line), [Rule::Programs]);
        assert!(rules("crates/crossload/src/upgrade/a.rs", line).is_empty());
    }

    #[test]
    fn threads_are_started_in_one_crate() {
        for line in [
            "fn f() { std::thread::spawn(g); }",
            "use tokio::runtime::Builder;",
            "fn f() { tokio::task::spawn_blocking(g); }",
        ] {
            assert_eq!(rules("crates/net/src/a.rs", line), [Rule::Threads], "{line}");
            assert!(
                rules("crates/execution/src/a.rs", &format!("#![forbid(unsafe_code)] {line}")).is_empty(),
                "{line}"
            );
        }
    }

    #[test]
    fn policy_has_no_clock_and_no_files() {
        assert_eq!(
            rules("crates/policy/src/a.rs", "fn f() { SystemTime::now(); }"),
            [Rule::Purity]
        );
        assert_eq!(rules("crates/policy/src/a.rs", "use std::fs;"), [Rule::Purity]);
        assert!(rules("crates/storage/src/a.rs", "use std::fs;").is_empty());
    }
}
