//! Conditions: `if HOST... exec PROGRAM... && named INSTANCE...`, as `XrdOucUtils::doIf` reads
//! them.

use std::collections::BTreeMap;

/// For which process the files are read.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// Its host.
    pub(crate) host: String,
    /// `xrootd` or `cmsd`.
    pub(crate) program: &'static str,
    /// Its instance; XRootD calls the one without a name `anon`.
    pub(crate) instance: String,
}

/// Whether the words behind `if` hold.
///
/// # Errors
/// Why XRootD would refuse them.
pub(crate) fn holds(words: &[String], process: &Process, variables: &BTreeMap<String, String>) -> Result<bool, String> {
    if words.is_empty() {
        return Err("nothing stands behind \"if\"".to_owned());
    }
    let is_keyword = |word: &String| matches!(word.as_str(), "defined" | "exec" | "named");
    let hosts = words.iter().position(is_keyword).unwrap_or(words.len());
    if hosts > 0 && !words[..hosts].iter().any(|pattern| matches(pattern, &process.host)) {
        return Ok(false);
    }
    for clause in words[hosts..].split(|word| word == "&&") {
        let Some((keyword, names)) = clause.split_first() else {
            // Hosts alone, or hosts before "&&".
            continue;
        };
        let is_named = |wanted: &str| names.iter().any(|name| name == wanted);
        let is_true = match keyword.as_str() {
            "exec" => is_named(process.program),
            "named" => is_named(&process.instance),
            "defined" => names.iter().any(|name| {
                let name = name.trim_start_matches('?');
                // ?~ asks for a variable of the environment, which is not known here.
                !name.starts_with('~') && variables.contains_key(name)
            }),
            other => return Err(format!("\"{other}\" is none of defined, exec, named")),
        };
        if !is_true {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a name fits a pattern with at most one star.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((begin, end)) => name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(line: &str) -> Result<bool, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let process = Process {
            host: "d1.example.org".to_owned(),
            program: "xrootd",
            instance: "clustered".to_owned(),
        };
        let variables = BTreeMap::from([("known".to_owned(), String::new())]);
        holds(&words, &process, &variables)
    }

    #[test]
    fn hosts_programs_and_instances_must_all_fit() {
        for line in [
            "d1.example.org",
            "d*.example.org other",
            "d1* exec xrootd",
            "exec cmsd xrootd",
            "exec xrootd && named a clustered",
            "named clustered",
            "defined ?unknown ?known && exec xrootd",
        ] {
            assert_eq!(ask(line), Ok(true), "{line}");
        }
        for line in [
            "d2.example.org",
            "d1.example.org exec cmsd",
            "x* exec xrootd",
            "exec xrootd && named other",
            "defined ?unknown",
            "defined ?~HOME",
            "*.example.org.com",
        ] {
            assert_eq!(ask(line), Ok(false), "{line}");
        }
        assert!(ask("").is_err());
        assert!(ask("exec xrootd && fly").is_err());
    }
}
