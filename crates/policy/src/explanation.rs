//! A decision in words: what was asked, what was received, how it was read, each rule tried, the
//! decision, and what would make it pass.
//!
//! It holds no secret: credentials appear by kind and their own names.

use std::fmt;

use credentials::format_time;
use serde::Serialize;

use crate::decide::{Decision, Request};
use crate::operation::Operation;
use crate::trail::{Part, Step};

/// The words. Its `Display` is a text of several lines; as JSON the fields have these names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What was asked, from where, and when.
    pub asked: String,
    /// What was received.
    pub received: Vec<String>,
    /// How it was read.
    pub read: Vec<String>,
    /// Each rule tried, in order.
    pub rules: Vec<String>,
    /// Who the client is at the server that has the file, if another one has it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upstream: Vec<String>,
    /// Whether it is allowed.
    pub allowed: bool,
    /// The name of the code with which it is refused.
    pub code: Option<&'static str>,
    /// The decision as a sentence.
    pub decision: String,
    /// What would make it pass.
    pub remedies: Vec<String>,
}

impl Explanation {
    /// The words of a decision on that request. The trail is there when the decision is a refusal
    /// or was made by [`crate::explain`].
    #[must_use]
    pub fn new(request: &Request, decision: &Decision) -> Self {
        let said = |part: Part| {
            let steps = decision.trail.iter().filter(move |step| step.part() == part);
            steps.map(ToString::to_string).collect()
        };
        let (code, verdict) = match &decision.refusal {
            None => (None, allowed(&request.operation).to_owned()),
            Some(refusal) => {
                let (code, detail) = (refusal.code, &refusal.detail);
                (Some(code.name()), format!("refused, {}: {detail}", code.name()))
            }
        };
        Self {
            asked: asked(request),
            received: said(Part::Received),
            read: said(Part::Read),
            rules: said(Part::Rule),
            upstream: Vec::new(),
            allowed: decision.is_allowed(),
            code,
            decision: verdict,
            remedies: decision.hints.iter().map(ToString::to_string).collect(),
        }
    }

    /// The words of a decision for the client itself: without rules about others and other exports.
    #[must_use]
    pub fn for_requester(request: &Request, decision: &Decision) -> Self {
        let mut own = decision.clone();
        // What would make it pass is about the path that is hidden.
        if own.trail.iter().any(|step| matches!(step, Step::Hidden(_))) {
            own.hints.clear();
        }
        own.trail.retain(|step| !step.is_about_others());
        own.hints.retain(|hint| !hint.is_about_others());
        Self::new(request, &own)
    }

    /// How much memory its words take, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let lists = [&self.received, &self.read, &self.rules, &self.upstream, &self.remedies];
        let words: usize = lists
            .into_iter()
            .flatten()
            .map(|line| line.capacity() + size_of::<String>())
            .sum();
        size_of::<Self>() + self.asked.capacity() + self.decision.capacity() + words
    }
}

/// What of the operation is allowed: a directory's rights say nothing of what is in it, and the
/// export has a say.
fn allowed(operation: &Operation) -> &'static str {
    match operation {
        Operation::RemoveDirectory => "allowed if it is empty; ask about rmtree for a directory with content",
        Operation::RemoveTree => "allowed if the export has recursive_delete = true",
        _ => "allowed",
    }
}

fn asked(request: &Request) -> String {
    let mut text = format!("{} {}", request.operation.name(), request.path);
    if let Operation::Rename { target, replaces, .. } = &request.operation {
        let existing = if *replaces { ", which exists" } else { "" };
        text.push_str(&format!(" to {target}{existing}"));
    }
    if let Some(size_bytes) = request.size_bytes {
        text.push_str(&format!(", {size_bytes} bytes"));
    }
    format!(
        "{text}, from {}, at {}",
        request.client_address,
        format_time(request.now_s)
    )
}

impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "asked     {}", self.asked)?;
        let decision = std::slice::from_ref(&self.decision);
        let parts: [(&str, &[String]); 6] = [
            ("received", &self.received),
            ("read", &self.read),
            ("rules", &self.rules),
            ("upstream", &self.upstream),
            ("decision", decision),
            ("to pass", &self.remedies),
        ];
        for (name, lines) in parts {
            for (index, line) in lines.iter().enumerate() {
                let head = if index == 0 { name } else { "" };
                write!(out, "\n{head:8}  {line}")?;
            }
        }
        Ok(())
    }
}
