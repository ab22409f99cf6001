//! Spans of traces: what a part of a transfer did, from when to when, and which traces are
//! exported.

use std::borrow::Cow;
use std::time::SystemTime;

use types::SpanContext;

/// Longest name of a span, in bytes. Names say what is done, never to what.
const NAME_BYTES_MAX: usize = 64;
/// Longest value of an attribute, in bytes. URLs and paths can be longer, and are cut.
const VALUE_BYTES_MAX: usize = 1024;
/// Bits of a trace identifier that are random, for samplers of all programs (OpenTelemetry,
/// "TraceState: Probability Sampling").
const RANDOM_BITS: u32 = 56;

/// Which side of a request a span is (OpenTelemetry's `SpanKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within a program.
    Internal,
    /// The answer to a request.
    Server,
    /// Requests to another server.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
}

/// A moment within a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanEvent {
    /// What happened.
    pub name: &'static str,
    /// When.
    pub at: SystemTime,
}

/// How a span ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpanStatus {
    /// Nothing is said about it: what a successful span has by convention.
    #[default]
    Unset,
    /// It failed, for this reason.
    Failed(String),
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub(crate) context: SpanContext,
    pub(crate) parent: Option<u64>,
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: SpanKind,
    pub(crate) began: SystemTime,
    pub(crate) ended: SystemTime,
    pub(crate) attributes: Vec<(&'static str, Value)>,
    pub(crate) events: Vec<SpanEvent>,
    pub(crate) status: SpanStatus,
}

impl Span {
    /// The span `context` below `parent` (`None`: the first of its trace). A name that is too long
    /// is cut.
    #[must_use]
    pub fn new(
        context: SpanContext,
        parent: Option<u64>,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        began: SystemTime,
        ended: SystemTime,
    ) -> Self {
        Self {
            context,
            parent,
            name: cut(name.into(), NAME_BYTES_MAX),
            kind,
            began,
            // A clock that was set back meanwhile must not end a span before its beginning.
            ended: ended.max(began),
            attributes: Vec::new(),
            events: Vec::new(),
            status: SpanStatus::Unset,
        }
    }

    /// A step of it, with this identifier.
    #[must_use]
    pub fn step(&self, id: u64, name: &'static str, began: SystemTime, ended: SystemTime) -> Self {
        let context = SpanContext {
            span: id,
            ..self.context
        };
        let parent = Some(self.context.span);
        Self::new(context, parent, name, SpanKind::Internal, began, ended)
    }

    /// Adds an attribute. A long text is cut; an empty one is left out.
    #[must_use]
    pub fn text(mut self, name: &'static str, value: &str) -> Self {
        if !value.is_empty() {
            let value = cut(Cow::Borrowed(value), VALUE_BYTES_MAX).into_owned();
            self.attributes.push((name, Value::Text(value)));
        }
        self
    }

    /// Adds an attribute.
    #[must_use]
    pub fn number(mut self, name: &'static str, value: u64) -> Self {
        self.attributes.push((name, Value::Number(value)));
        self
    }

    /// Adds a moment within it.
    #[must_use]
    pub fn event(mut self, name: &'static str, at: SystemTime) -> Self {
        self.events.push(SpanEvent { name, at });
        self
    }

    /// Marks it as failed, for this reason.
    #[must_use]
    pub fn failed(self, reason: &str) -> Self {
        let reason = cut(Cow::Borrowed(reason), VALUE_BYTES_MAX).into_owned();
        Self {
            status: SpanStatus::Failed(reason),
            ..self
        }
    }
}

/// A text of at most so many bytes, cut between two characters.
fn cut(text: Cow<'_, str>, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return text;
    }
    let end = (0..=bytes_max).rev().find(|index| text.is_char_boundary(*index));
    Cow::Owned(text[..end.unwrap_or(0)].to_owned())
}

/// Which traces are exported, where nothing before has decided it. All programs with the same share
/// take the same traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// Traces whose random bits are below this number are not exported.
    rejected_below: u64,
}

impl Sampler {
    /// All traces.
    pub const ALL: Self = Self { rejected_below: 0 };

    /// So many of 100 traces.
    #[must_use]
    pub fn of_percent(percent: u32) -> Self {
        let rejected = u64::from(100 - percent.min(100));
        Self {
            rejected_below: (rejected << RANDOM_BITS) / 100,
        }
    }

    /// Whether the spans of a trace are exported: where the caller exports its own, and else for
    /// the share of the traces.
    #[must_use]
    pub fn takes(&self, context: &SpanContext) -> bool {
        let random = context.trace & ((1 << RANDOM_BITS) - 1);
        context.is_sampled || random >= u128::from(self.rejected_below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(trace: u128, is_sampled: bool) -> SpanContext {
        SpanContext {
            trace,
            span: 7,
            is_sampled,
        }
    }

    #[test]
    fn a_share_of_the_traces_is_taken_and_what_was_decided_before_counts() {
        // The upper bits are not random in all programs.
        let traces = |index: u128| (1 << 100) | (index << 46);
        let taken = |percent| {
            let sampler = Sampler::of_percent(percent);
            (0..1024)
                .filter(|index| sampler.takes(&context(traces(*index), false)))
                .count()
        };
        assert_eq!((taken(0), taken(100)), (0, 1024));
        assert!((255..=257).contains(&taken(25)), "{}", taken(25));
        assert!(Sampler::of_percent(0).takes(&context(1, true)));
        assert_eq!(Sampler::of_percent(100), Sampler::ALL);
        let (few, many) = (Sampler::of_percent(10), Sampler::of_percent(60));
        let all = (0..1024).map(|index| context(traces(index), false));
        assert!(
            all.filter(|context| few.takes(context))
                .all(|context| many.takes(&context))
        );
    }

    #[test]
    fn names_and_values_are_bounded_and_cut_between_characters() {
        let (long, now) = ("ü".repeat(2000), SystemTime::UNIX_EPOCH);
        let span = Span::new(context(1, true), None, long.clone(), SpanKind::Server, now, now);
        let span = span.text("url.path", &long).text("vo", "").failed(&long);
        assert_eq!(span.name.len(), NAME_BYTES_MAX);
        assert_eq!(span.attributes, [("url.path", Value::Text("ü".repeat(512)))]);
        assert_eq!(span.status, SpanStatus::Failed("ü".repeat(512)));
        assert_eq!(cut(Cow::Borrowed("aü"), 2), "a");
    }
}
