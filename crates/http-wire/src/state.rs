//! Headers about locks (RFC 4918 §10.4, §10.5, §10.7): the `If` header with its conditions on the
//! state of resources, `Lock-Token`, and the timeout that a client asks for.

use crate::limits::IF_CONDITIONS_MAX;
use types::Error;

use crate::fault::bad_request;
use crate::head::RequestHead;
use crate::names::LOCK_TOKEN;

const IF: &str = "If";
const TIMEOUT: &str = "Timeout";

/// The `If` header: it holds when one of its lists holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateConditions {
    /// The lists in their order.
    pub lists: Vec<StateList>,
}

/// Conditions on one resource; all must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateList {
    /// The URL or absolute path that the list is about; `None`: that of the request.
    pub resource: Option<String>,
    /// The conditions; at least one.
    pub conditions: Vec<StateCondition>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateCondition {
    /// Whether it holds where the resource is *not* in this state.
    pub negated: bool,
    /// The state.
    pub state: State,
}

/// A state of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is locked, and this is a token of its locks. `DAV:no-lock` is never one.
    Token(String),
    /// This is its entity tag, with quotes. Weak and strong tags compare alike.
    Tag(String),
}

/// A resource as conditions are weighed against it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceState {
    /// The tokens of the locks that it is under.
    pub tokens: Vec<String>,
    /// Its entity tag, with quotes.
    pub tag: Option<String>,
}

impl StateConditions {
    /// Reads the value of the header (RFC 4918 §10.4.2).
    ///
    /// # Errors
    /// `bad_request` when it is malformed, or has more than [`IF_CONDITIONS_MAX`] conditions.
    pub fn parse(value: &str) -> Result<Self, Error> {
        let mut rest = value.trim();
        let mut conditions = Self::default();
        let mut resource = None;
        let mut count = 0;
        let is_tagged = rest.starts_with('<');
        while !rest.is_empty() {
            if is_tagged && rest.starts_with('<') {
                let (tag, behind) = bracketed(rest, '<', '>')?;
                resource = Some(tag.to_owned());
                rest = behind;
            }
            let (inside, behind) = list_of(rest)?;
            let list = StateList {
                resource: resource.clone(),
                conditions: conditions_of(inside)?,
            };
            count += list.conditions.len();
            if count > IF_CONDITIONS_MAX {
                return Err(bad_request(format!(
                    "{IF}: the limit is {IF_CONDITIONS_MAX} conditions"
                )));
            }
            conditions.lists.push(list);
            rest = behind;
        }
        match conditions.lists.is_empty() {
            true => Err(malformed("it has no list")),
            false => Ok(conditions),
        }
    }

    /// Every state token in the header, wherever it stands: by naming it, the client submits it
    /// (§10.4.1).
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        let conditions = self.lists.iter().flat_map(|list| &list.conditions);
        conditions.filter_map(|condition| match &condition.state {
            State::Token(token) => Some(token.as_str()),
            State::Tag(_) => None,
        })
    }
}

impl StateList {
    /// Whether all conditions hold for a resource in this state.
    #[must_use]
    pub fn holds(&self, resource: &ResourceState) -> bool {
        self.conditions.iter().all(|condition| {
            let is_so = match &condition.state {
                State::Token(token) => resource.tokens.contains(token),
                State::Tag(tag) => resource.tag.as_ref() == Some(tag),
            };
            is_so != condition.negated
        })
    }
}

fn malformed(why: &str) -> Error {
    bad_request(format!("{IF}: {why}"))
}

/// The text between two brackets at the beginning, and what stands behind them.
fn bracketed(text: &str, open: char, close: char) -> Result<(&str, &str), Error> {
    let inner = text
        .strip_prefix(open)
        .ok_or_else(|| malformed("a bracket is missing"))?;
    let (inside, behind) = inner
        .split_once(close)
        .ok_or_else(|| malformed("a bracket is not closed"))?;
    let inside = inside.trim();
    if inside.is_empty() || inside.contains([' ', '\t', open]) {
        return Err(malformed("what stands between two brackets is no URL or tag"));
    }
    Ok((inside, behind.trim_start()))
}

/// The text of a list in parentheses, and what stands behind it. A tag in quotes may hold a
/// parenthesis.
fn list_of(text: &str) -> Result<(&str, &str), Error> {
    let inner = text
        .strip_prefix('(')
        .ok_or_else(|| malformed("a list begins with a parenthesis"))?;
    let mut quoted = false;
    for (at, character) in inner.char_indices() {
        match character {
            '"' => quoted = !quoted,
            ')' if !quoted => return Ok((inner[..at].trim(), inner[at + 1..].trim_start())),
            _ => {}
        }
    }
    Err(malformed("a list is not closed"))
}

fn conditions_of(mut text: &str) -> Result<Vec<StateCondition>, Error> {
    let mut conditions = Vec::new();
    while !text.is_empty() {
        let negated = text.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("not"));
        if negated {
            text = text[3..].trim_start();
        }
        let (state, behind) = match text.starts_with('[') {
            true => tag_of(text)?,
            false => {
                let (token, behind) = bracketed(text, '<', '>')?;
                (State::Token(token.to_owned()), behind)
            }
        };
        conditions.push(StateCondition { negated, state });
        text = behind;
    }
    match conditions.is_empty() {
        true => Err(malformed("a list is empty")),
        false => Ok(conditions),
    }
}

/// An entity tag in brackets, with or without the mark of a weak one.
fn tag_of(text: &str) -> Result<(State, &str), Error> {
    let broken = || malformed("an entity tag is broken");
    let inner = text.strip_prefix('[').ok_or_else(broken)?.trim_start();
    let quoted = inner.strip_prefix("W/").unwrap_or(inner);
    let length = quoted
        .strip_prefix('"')
        .and_then(|tag| tag.find('"'))
        .ok_or_else(broken)?
        + 2;
    let (tag, behind) = quoted.split_at(length);
    let behind = behind.trim_start().strip_prefix(']').ok_or_else(broken)?;
    Ok((State::Tag(tag.to_owned()), behind.trim_start()))
}

impl RequestHead {
    /// The conditions of the `If` header, when there is one.
    ///
    /// # Errors
    /// As [`StateConditions::parse`]; `bad_request` for two such headers.
    pub fn state_conditions(&self) -> Result<Option<StateConditions>, Error> {
        let mut values = self.headers.all(IF);
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => StateConditions::parse(value).map(Some),
            (Some(_), Some(_)) => Err(malformed("it occurs twice")),
        }
    }

    /// The token of the lock that an UNLOCK is about (RFC 4918 §10.5).
    ///
    /// # Errors
    /// `bad_request` when there is none in angle brackets.
    pub fn lock_token(&self) -> Result<&str, Error> {
        let value = self.headers.get(LOCK_TOKEN).map(str::trim);
        let token = value.and_then(|value| value.strip_prefix('<')?.strip_suffix('>'));
        token.ok_or_else(|| bad_request(format!("{LOCK_TOKEN}: a token in angle brackets is needed")))
    }

    /// For how many seconds a lock is asked for: the first of the wishes that is understood,
    /// [`u64::MAX`] for `Infinite` (RFC 4918 §10.7).
    #[must_use]
    pub fn lock_timeout_s(&self) -> Option<u64> {
        self.headers.elements(TIMEOUT).find_map(|wish| {
            if wish.eq_ignore_ascii_case("infinite") {
                return Some(u64::MAX);
            }
            let (unit, digits) = wish.split_once('-')?;
            // Longer than a number can say is as good as for ever.
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            (unit.eq_ignore_ascii_case("second") && is_number).then(|| digits.parse().unwrap_or(u64::MAX))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeadLimits, parse_request};
    use types::ErrorCode;

    fn condition(negated: bool, state: State) -> StateCondition {
        StateCondition { negated, state }
    }

    fn token(text: &str) -> State {
        State::Token(text.to_owned())
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let value = "(<urn:uuid:181d4fae-7d8c-11d0-a765-00a0c91e6bf2> [\"I am an ETag\"]) ([\"I am another ETag\"])";
        let read = StateConditions::parse(value).unwrap();
        let first = [
            condition(false, token("urn:uuid:181d4fae-7d8c-11d0-a765-00a0c91e6bf2")),
            condition(false, State::Tag("\"I am an ETag\"".to_owned())),
        ];
        assert_eq!(read.lists[0].conditions, first);
        assert_eq!(read.lists.len(), 2);
        let value = "(Not <urn:uuid:1> <urn:uuid:2>)";
        let read = StateConditions::parse(value).unwrap();
        assert_eq!(
            read.lists[0].conditions,
            [
                condition(true, token("urn:uuid:1")),
                condition(false, token("urn:uuid:2"))
            ]
        );
        let value = "</resource1> (<urn:uuid:1> [W/\"A weak ETag\"]) ([\"strong (ETag)\"]) <http://h/2>([\"x\"])";
        let read = StateConditions::parse(value).unwrap();
        let resources: Vec<_> = read.lists.iter().map(|list| list.resource.as_deref()).collect();
        assert_eq!(resources, [Some("/resource1"), Some("/resource1"), Some("http://h/2")]);
        assert_eq!(
            read.lists[1].conditions,
            [condition(false, State::Tag("\"strong (ETag)\"".to_owned()))]
        );
        assert_eq!(read.tokens().collect::<Vec<_>>(), ["urn:uuid:1"]);
    }

    #[test]
    fn a_list_holds_when_all_of_it_does() {
        let here = ResourceState {
            tokens: vec!["urn:uuid:1".to_owned()],
            tag: Some("\"e\"".to_owned()),
        };
        let table = [
            ("(<urn:uuid:1>)", true),
            ("(<urn:uuid:1> [\"e\"])", true),
            ("(<urn:uuid:1> [W/\"e\"])", true),
            ("(<urn:uuid:1> [\"f\"])", false),
            ("(<urn:uuid:2>)", false),
            ("(Not <DAV:no-lock>)", true),
            ("(not <urn:uuid:1>)", false),
            ("(<DAV:no-lock>)", false),
        ];
        for (value, holds) in table {
            let read = StateConditions::parse(value).unwrap();
            assert_eq!(read.lists[0].holds(&here), holds, "{value}");
        }
    }

    #[test]
    fn what_is_malformed_or_too_long_is_refused() {
        let many = "(<urn:uuid:1>)".repeat(IF_CONDITIONS_MAX + 1);
        for bad in [
            "",
            "x",
            "()",
            "(",
            "(<a>",
            "(<a)",
            "(a)",
            "(<>)",
            "(Not)",
            "(Not Not <a>)",
            "<a>",
            "<a> <b> (<c>)",
            "([e])",
            "([\"e\")",
            "([\"e])",
            "(<a>) <b> (<c>)",
            "(<a b>)",
            &many,
        ] {
            let error = StateConditions::parse(bad).unwrap_err();
            assert_eq!(error.code(), ErrorCode::BadRequest, "{bad}");
        }
        assert!(StateConditions::parse(&"(<urn:uuid:1>)".repeat(IF_CONDITIONS_MAX)).is_ok());
    }

    #[test]
    fn tokens_and_timeouts_are_read_out_of_requests() {
        let head = |lines: &str| {
            let text = format!("LOCK /f HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\n");
            let parsed = parse_request(text.as_bytes(), &HeadLimits::default());
            parsed.unwrap().unwrap().0
        };
        assert_eq!(head("Lock-Token: <urn:uuid:1>").lock_token().unwrap(), "urn:uuid:1");
        assert!(head("Lock-Token: urn:uuid:1").lock_token().is_err());
        assert!(head("A: b").lock_token().is_err());
        let timeout = |value: &str| head(&format!("Timeout: {value}")).lock_timeout_s();
        assert_eq!(timeout("Infinite, Second-4100000000"), Some(u64::MAX));
        assert_eq!(timeout("Extend, Second-600"), Some(600));
        assert_eq!(timeout("Second-99999999999999999999999"), Some(u64::MAX));
        for unknown in ["Second-", "Second-+5", "Minute-5", ""] {
            assert_eq!(timeout(unknown), None, "{unknown}");
        }
        assert!(head("If: (<a>)\r\nIf: (<b>)").state_conditions().is_err());
        assert!(head("A: b").state_conditions().unwrap().is_none());
    }
}
