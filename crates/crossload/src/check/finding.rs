//! Findings of `crossload check`.

use serde_json::{Value, json};

use crate::output;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Correct.
    Ok,
    /// Worth knowing.
    Note,
    /// It works, but not for long or not for everyone, or it is unsafe.
    Warning,
    /// It does not work.
    Error,
}

impl Severity {
    /// The name in tables and JSON.
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
pub(crate) struct Position {
    pub(crate) file: String,
    /// The line of the key or its section.
    pub(crate) line: Option<usize>,
    /// The key with its section, such as `server.certificate`.
    pub(crate) key: String,
}

/// A finding.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// The stable name.
    pub(crate) code: &'static str,
    /// One sentence.
    pub(crate) says: String,
    /// The key; for a key that is not set, its section.
    pub(crate) position: Option<Position>,
    /// The remedy.
    pub(crate) change: Option<String>,
}

impl Finding {
    /// A finding that belongs to no key.
    pub(crate) fn new(severity: Severity, code: &'static str, says: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            says: says.into(),
            position: None,
            change: None,
        }
    }

    /// Something correct.
    pub(crate) fn ok(code: &'static str, says: impl Into<String>) -> Self {
        Self::new(Severity::Ok, code, says)
    }

    /// Something worth knowing.
    pub(crate) fn note(code: &'static str, says: impl Into<String>) -> Self {
        Self::new(Severity::Note, code, says)
    }

    /// Something to change soon.
    pub(crate) fn warning(code: &'static str, says: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, says)
    }

    /// Something to change now.
    pub(crate) fn error(code: &'static str, says: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, says)
    }

    /// With the key's position.
    pub(crate) fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    /// With a remedy.
    pub(crate) fn change(mut self, words: impl Into<String>) -> Self {
        self.change = Some(words.into());
        self
    }

    /// As a JSON object.
    pub(crate) fn to_json(&self) -> Value {
        let position = self.position.as_ref();
        json!({
            "severity": self.severity.name(),
            "code": self.code,
            "says": self.says,
            "file": position.map(|position| position.file.as_str()),
            "line": position.and_then(|position| position.line),
            "key": position.map(|position| position.key.as_str()),
            "change": self.change,
        })
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:8} {}: {}", self.severity.name(), self.code, self.says)?;
        if let Some(Position { file, line, key }) = &self.position
            && self.severity > Severity::Ok
        {
            match line {
                Some(line) if key.is_empty() => write!(formatter, "\n         at {file}:{line}")?,
                Some(line) => write!(formatter, "\n         at {file}:{line} {key}")?,
                None if key.is_empty() => write!(formatter, "\n         at {file}")?,
                None => write!(formatter, "\n         at {file} {key} (not set)")?,
            }
        }
        match &self.change {
            Some(words) => write!(formatter, "\n         do: {words}"),
            None => Ok(()),
        }
    }
}

/// The number of findings by severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) ok: usize,
    pub(crate) notes: usize,
    pub(crate) warnings: usize,
    pub(crate) errors: usize,
}

impl Sum {
    /// Counts findings.
    pub(crate) fn of(findings: &[Finding]) -> Self {
        let count = |severity| findings.iter().filter(|one| one.severity == severity).count();
        Self {
            ok: count(Severity::Ok),
            notes: count(Severity::Note),
            warnings: count(Severity::Warning),
            errors: count(Severity::Error),
        }
    }

    /// The exit code if nothing is worse than a warning.
    pub(crate) const WARNINGS: u8 = 1;

    /// The exit code: 0 for nothing worse than notes, 1 with warnings, 2 with errors.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            _ if self.errors > 0 => 2,
            _ if self.warnings > 0 => Self::WARNINGS,
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
        let [errors, warnings, notes] = [(errors, "error"), (warnings, "warning"), (notes, "note")]
            .map(|(count, noun)| output::counted(*count as u64, noun));
        write!(formatter, "{errors}, {warnings}, {notes}, {ok} passed")
    }
}
