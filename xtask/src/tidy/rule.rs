//! The rules by name, each with its reason, and what is said when one is broken.

use std::fmt;

/// A house rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// A crate uses only crates on floors below its own.
    Floors,
    /// The modules of a crate form no circle.
    Circles,
    /// `unsafe` only in `net` and `storage`.
    UnsafePlace,
    /// Each `unsafe` is explained.
    UnsafeReason,
    /// Every other crate forbids `unsafe`.
    ForbidUnsafe,
    /// Names of a wire protocol stay in its wire crate.
    WireNames,
    /// No HTTP status number above the doors.
    StatusNumbers,
    /// Arguments and environment are read by the binary alone.
    Environment,
    /// The product starts no program.
    Programs,
    /// Threads are started in one crate.
    Threads,
    /// What is shared belongs to an owner.
    Statics,
    /// Pure crates read no file and no clock.
    Purity,
    /// Functions fit a screen.
    FunctionLength,
    /// Parameters have names of their own.
    TupleParameters,
    /// Files can be read in one sitting.
    FileLength,
    /// Each file says what it is for.
    ModuleDoc,
    /// Nothing unfinished is left behind.
    Leftovers,
    /// No path that exists on one machine only.
    MachinePaths,
    /// Generated documents agree with the code.
    GeneratedDocs,
    /// Links in documents lead somewhere.
    Links,
    /// Prose is plain English in the words of the glossary.
    Prose,
    /// Sources can be parsed.
    Syntax,
}

impl Rule {
    /// The name used in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Floors => "floors",
            Self::Circles => "circles",
            Self::UnsafePlace => "unsafe-place",
            Self::UnsafeReason => "unsafe-reason",
            Self::ForbidUnsafe => "forbid-unsafe",
            Self::WireNames => "wire-names",
            Self::StatusNumbers => "status-numbers",
            Self::Environment => "environment",
            Self::Programs => "programs",
            Self::Threads => "threads",
            Self::Statics => "statics",
            Self::Purity => "purity",
            Self::FunctionLength => "function-length",
            Self::TupleParameters => "tuple-parameters",
            Self::FileLength => "file-length",
            Self::ModuleDoc => "module-doc",
            Self::Leftovers => "leftovers",
            Self::MachinePaths => "machine-paths",
            Self::GeneratedDocs => "generated-docs",
            Self::Links => "links",
            Self::Prose => "prose",
            Self::Syntax => "syntax",
        }
    }

    /// Why the rule exists.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Floors => "dependencies that only point down keep each crate testable without the ones above it",
            Self::Circles => "modules that use each other can only be understood and changed together",
            Self::UnsafePlace => {
                "unsafe code sits next to the sockets and files that need it, where reviewers look for it"
            }
            Self::UnsafeReason => "the reader of an unsafe block must be able to check the claim that makes it sound",
            Self::ForbidUnsafe => "the compiler, not a reviewer, keeps the other crates free of unsafe code",
            Self::WireNames => "a protocol's spelling is known to one crate, so it is parsed and written in one way",
            Self::StatusNumbers => "one table turns error codes into statuses; a number elsewhere is a second table",
            Self::Environment => {
                "only the binary reads arguments and environment, so every input is visible in one place"
            }
            Self::Programs => "serving never starts a program: it would cost milliseconds and open a way in",
            Self::Statics => {
                "what is shared is a field of its owner, so two owners in one process have nothing in common; what \
                 must stay is listed with its reason in xtask/src/tidy/statics.rs"
            }
            Self::Threads => "what runs where is decided in one place, the crate `execution`",
            Self::Purity => "decisions are handed their inputs, so that each can be repeated and tested exactly",
            Self::FunctionLength => "a function that fits a screen can be checked by reading it",
            Self::TupleParameters => "what belongs together is a type with a name, and the rest is two parameters",
            Self::FileLength => "a file that can be read in one sitting has one subject",
            Self::ModuleDoc => "the reader of a file learns first what it is for",
            Self::Leftovers => {
                "unfinished work is recorded as an issue, where it is planned, not as a mark in the code"
            }
            Self::MachinePaths => "a path of one machine is wrong on every other",
            Self::GeneratedDocs => "documents made from code are only right when they are made again: cargo xtask docs",
            Self::Links => "a link to nothing leaves its reader alone, and a page without a chapter has no reader",
            Self::Prose => {
                "a sentence that reads like a translation is read twice, and a word with two meanings misleads"
            }
            Self::Syntax => "a file that does not parse cannot be checked",
        }
    }
}

/// One broken rule at one place.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// Relative to the repository's root.
    pub(crate) path: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// What was broken.
    pub(crate) rule: Rule,
    /// What exactly is there.
    pub(crate) detail: String,
}

impl Finding {
    /// A finding at `path:line`.
    pub(crate) fn new(path: &str, line: usize, rule: Rule, detail: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule.name(), self.detail)
    }
}
