//! What the examination finds.

use serde_json::{Value, json};

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// It is as it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// It works, and will not for long or not for all; or it is unsafe.
    Warning,
    /// It does not work.
    Error,
}

impl Severity {
    /// The word in tables and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A place in the configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) file: String,
    /// The line, where the key or its section is written.
    pub(crate) line: Option<usize>,
    /// The key with its section, such as `server.certificate`.
    pub(crate) key: String,
}

/// One thing that was found.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// The stable name.
    pub(crate) code: &'static str,
    /// What was found, in one sentence.
    pub(crate) says: String,
    /// Where it is set; for a key that is not set, the section.
    pub(crate) spot: Option<Spot>,
    /// What to do or to write.
    pub(crate) change: Option<String>,
}

impl Finding {
    /// A finding without a place.
    pub(crate) fn new(severity: Severity, code: &'static str, says: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            says: says.into(),
            spot: None,
            change: None,
        }
    }

    /// As it should be.
    pub(crate) fn ok(code: &'static str, says: impl Into<String>) -> Self {
        Self::new(Severity::Ok, code, says)
    }

    /// Worth knowing.
    pub(crate) fn note(code: &'static str, says: impl Into<String>) -> Self {
        Self::new(Severity::Note, code, says)
    }

    /// To be changed soon.
    pub(crate) fn warning(code: &'static str, says: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, says)
    }

    /// To be changed now.
    pub(crate) fn error(code: &'static str, says: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, says)
    }

    /// Where it is set.
    pub(crate) fn at(mut self, spot: Spot) -> Self {
        self.spot = Some(spot);
        self
    }

    /// What to do about it.
    pub(crate) fn change(mut self, words: impl Into<String>) -> Self {
        self.change = Some(words.into());
        self
    }

    /// As a JSON object.
    pub(crate) fn to_json(&self) -> Value {
        let spot = self.spot.as_ref();
        json!({
            "severity": self.severity.name(),
            "code": self.code,
            "says": self.says,
            "file": spot.map(|spot| spot.file.as_str()),
            "line": spot.and_then(|spot| spot.line),
            "key": spot.map(|spot| spot.key.as_str()),
            "change": self.change,
        })
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:8} {}: {}", self.severity.name(), self.code, self.says)?;
        if let Some(Spot { file, line, key }) = &self.spot
            && self.severity > Severity::Ok
        {
            match line {
                Some(line) => write!(formatter, "\n         at {file}:{line} {key}")?,
                None => write!(formatter, "\n         at {file} {key} (not set)")?,
            }
        }
        match &self.change {
            Some(words) => write!(formatter, "\n         do: {words}"),
            None => Ok(()),
        }
    }
}

/// How much was found of each severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) ok: usize,
    pub(crate) notes: usize,
    pub(crate) warnings: usize,
    pub(crate) errors: usize,
}

impl Sum {
    /// Counts.
    pub(crate) fn of(findings: &[Finding]) -> Self {
        let count = |severity| findings.iter().filter(|one| one.severity == severity).count();
        Self {
            ok: count(Severity::Ok),
            notes: count(Severity::Note),
            warnings: count(Severity::Warning),
            errors: count(Severity::Error),
        }
    }

    /// The exit code: 0 when there is nothing worse than notes, 1 with warnings, 2 with errors.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            _ if self.errors > 0 => 2,
            _ if self.warnings > 0 => 1,
            _ => 0,
        }
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            ok,
            notes,
            warnings,
            errors,
        } = self;
        write!(
            formatter,
            "{errors} errors, {warnings} warnings, {notes} notes; {ok} things are as they should be"
        )
    }
}
