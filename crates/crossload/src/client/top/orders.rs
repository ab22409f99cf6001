//! What operators order: the row that an order is for, the question that comes first, and what has
//! become of it, in a line for the terminal.

use remote::{Resource, ServiceAnswer};
use reports::words::{columns, first_words};
use serde_json::Value;
use types::{Error, ErrorCode, Secret};
use url::form_urlencoded::Serializer;

use super::fit::without_middle;
use super::looks::{Kind, Looks};
use super::tables::Subject;
use crate::client::named_code;
use crate::output;

/// Facts of a question that are shown; servers of ours send six at most.
const FACTS_MAX: usize = 8;
/// Columns of the name of a fact.
const FACT_NAME_COLUMNS_MAX: usize = 20;
/// Columns that a fact keeps on the smallest terminal.
const FACT_COLUMNS_MIN: usize = 12;
/// Columns of a name within a sentence.
const NAME_COLUMNS_MAX: usize = 64;
/// Characters of a server's words.
const WORDS_CHARACTERS_MAX: usize = 300;

/// What an order is for. It stays the same whatever moves on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Ends the copy with this transfer ID.
    Copy(String),
    /// Cancels the job with this ID.
    Job(String),
    /// Drains the worker of this name, or uses it again.
    Worker { name: String, drains: bool },
}

impl Target {
    /// What a key orders for the selected row of a view.
    ///
    /// # Errors
    /// Why it orders nothing there, in words.
    pub(super) fn of_key(key: char, kind: Kind, selected: Option<&Subject>) -> Result<Self, String> {
        match (key, kind) {
            ('c', Kind::Copies | Kind::Jobs) | ('d', Kind::Workers) => {}
            ('c', _) => return Err("c ends copies and cancels jobs: Tab leads to them".to_owned()),
            (_, Kind::Cluster) => {
                let node = selected.map_or("URL".into(), |node| output::name(&node.name));
                return Err(format!("A node is drained at the node: crossload node drain {node}"));
            }
            _ => return Err("d drains workers of a queue: Tab leads to them".to_owned()),
        }
        let subject = selected.ok_or_else(|| "Select a row first: Up and Down, or k and j".to_owned())?;
        let name = subject.name.clone();
        if name.is_empty() {
            return Err("The server does not say which one this is".to_owned());
        }
        Ok(match kind {
            Kind::Copies => Self::Copy(name),
            Kind::Jobs => Self::Job(name),
            Kind::Links | Kind::Workers | Kind::Cluster => Self::Worker {
                name,
                drains: !subject.is_draining,
            },
        })
    }

    /// The page that asks, and takes the order.
    const fn path(&self) -> &'static str {
        match self {
            Self::Copy(_) => "/now/cancel",
            Self::Job(_) => "/queue/cancel",
            Self::Worker { .. } => "/queue/drain",
        }
    }

    fn raw_name(&self) -> &str {
        match self {
            Self::Copy(name) | Self::Job(name) | Self::Worker { name, .. } => name,
        }
    }

    /// Its name within a sentence.
    fn name(&self) -> String {
        without_middle(&output::name(self.raw_name()), NAME_COLUMNS_MAX)
    }

    /// The fields of its form.
    fn fields(&self) -> String {
        let mut fields = Serializer::new(String::new());
        match self {
            Self::Copy(id) | Self::Job(id) => fields.append_pair("id", id),
            Self::Worker { name, drains } => fields
                .append_pair("worker", name)
                .append_pair("drain", if *drains { "yes" } else { "no" }),
        };
        fields.finish()
    }

    fn question(&self) -> String {
        let name = self.name();
        match self {
            Self::Copy(_) => format!("End the copy {name}?"),
            Self::Job(_) => format!("Cancel the job {name}?"),
            Self::Worker { drains: true, .. } => format!("Drain the worker {name}?"),
            Self::Worker { drains: false, .. } => format!("Use the worker {name} again?"),
        }
    }

    fn done(&self) -> String {
        let name = self.name();
        match self {
            Self::Copy(_) => format!("Ended the copy {name}"),
            Self::Job(_) => format!("Canceled the job {name}"),
            Self::Worker { drains: true, .. } => format!("The worker {name} takes no new files"),
            Self::Worker { drains: false, .. } => format!("The worker {name} takes new files again"),
        }
    }

    /// What it means that the server knows no such thing.
    fn is_gone(&self) -> String {
        let name = self.name();
        match self {
            Self::Copy(_) => format!("The copy {name} has ended already"),
            Self::Job(_) => format!("The queue has no job {name} any more"),
            Self::Worker { .. } => format!("The queue has no worker {name} any more"),
        }
    }
}

/// A question to the operator.
#[derive(Clone, Debug)]
pub(super) struct Question {
    target: Target,
    facts: Vec<Fact>,
    /// What the server wants back from clients with a certificate.
    form: Option<Secret>,
}

/// What the server says about the thing that an order is for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fact {
    name: String,
    value: String,
}

impl Question {
    /// The question that a server has answered with.
    fn of(target: Target, document: &Value) -> Self {
        let facts = document["facts"].as_array().into_iter().flatten();
        let facts = facts.filter_map(|fact| {
            Some(Fact {
                name: output::name(fact["name"].as_str()?).into_owned(),
                value: output::name(fact["value"].as_str()?).into_owned(),
            })
        });
        let name = output::name(target.raw_name()).into_owned();
        Self {
            facts: facts.filter(|fact| fact.value != name).take(FACTS_MAX).collect(),
            form: document["form"].as_str().map(Secret::new),
            target,
        }
    }

    /// The question in a line of about so many columns: longer facts lose their middles.
    pub(super) fn words(&self, columns_max: usize) -> String {
        let asked = format!("{} (y/n)", self.target.question());
        let named = |fact: &Fact| without_middle(&lower_first(&fact.name), FACT_NAME_COLUMNS_MAX);
        let around: usize = self.facts.iter().map(|fact| columns(&named(fact)) + ",  ".len()).sum();
        let room = columns_max.saturating_sub(columns(&asked) + around);
        let widths: Vec<usize> = self.facts.iter().map(|fact| columns(&fact.value)).collect();
        let taken = |share: usize| -> usize { widths.iter().map(|width| *width.min(&share)).sum() };
        let mut share = room.max(FACT_COLUMNS_MIN);
        while share > FACT_COLUMNS_MIN && taken(share) > room {
            share -= 1;
        }
        let facts = self.facts.iter();
        let facts: Vec<String> = facts
            .map(|fact| format!("{} {}", named(fact), without_middle(&fact.value, share)))
            .collect();
        format!("{asked} {}", facts.join(", ")).trim_end().to_owned()
    }
}

impl Looks<'_> {
    /// Asks the server what an order would be for.
    ///
    /// # Errors
    /// Why it cannot be given, in words.
    pub(super) async fn question(&self, target: Target) -> Result<Question, String> {
        let path = format!("{}?{}", target.path(), target.fields());
        let asked = async {
            let place = self.place(&path)?;
            let answer = self.call(&place, None).await?;
            Ok::<_, Error>((place, answer))
        };
        let (place, answer) = asked.await.map_err(|error| no_answer(&error))?;
        if !answer.is_success() {
            return Err(refusal(&target, &answer, shows_credential(&place)));
        }
        match serde_json::from_str::<Value>(answer.body.expose()) {
            Ok(document) if document["facts"].is_array() => Ok(Question::of(target, &document)),
            _ => Err("The server does not take orders: it is of another version".to_owned()),
        }
    }

    /// Gives the order that was confirmed, and says what has become of it.
    pub(super) async fn order(&self, question: &Question) -> String {
        let target = &question.target;
        let place = match self.place(target.path()) {
            Ok(place) => place,
            Err(error) => return no_answer(&error),
        };
        let form = match &question.form {
            Some(form) => {
                let mut fields = Serializer::new(target.fields());
                Secret::new(fields.append_pair("form", form.expose()).finish())
            }
            None => Secret::new(target.fields()),
        };
        match self.call(&place, Some(&form)).await {
            Ok(answer) if answer.is_success() => target.done(),
            Ok(answer) => refusal(target, &answer, shows_credential(&place)),
            Err(error) => format!("{}; it may have been done, see its row", no_answer(&error)),
        }
    }
}

/// Whether a request to a place shows who makes it.
fn shows_credential(place: &Resource) -> bool {
    let access = &place.access;
    let has_certificate = access.identity.is_some() && place.location.is_encrypted();
    access.bearer.is_some() || access.forwarded.has_authorization() || has_certificate
}

fn no_answer(error: &Error) -> String {
    format!("No answer: {}", output::name(&error.public()))
}

/// What a refused order means.
fn refusal(target: &Target, answer: &ServiceAnswer, shows_credential: bool) -> String {
    let body = answer.body.expose();
    let code = named_code(body);
    let document: Value = serde_json::from_str(body).unwrap_or_default();
    let said = document["error"]["message"].as_str();
    // The sentence of a refusal begins with side and phase.
    let said = said.unwrap_or_else(|| body.lines().next().unwrap_or_default());
    let said = said.split_once(": ").map_or(said, |(_, words)| words);
    let said = first_words(said, WORDS_CHARACTERS_MAX);
    let refused = code.is_some_and(|code| matches!(code, ErrorCode::PageForbidden | ErrorCode::Unauthenticated));
    match (answer.status, code) {
        (status, _) if answer.is_redirect() => match answer.location.as_deref() {
            Some(place) if !place.starts_with("https://") => {
                let place = first_words(place, WORDS_CHARACTERS_MAX);
                format!("Refused ({status}): the server sends orders to {place}; start top with the URL there")
            }
            _ => "Refused: the server takes orders over TLS only; start top with its https URL".to_owned(),
        },
        _ if refused && !shows_credential => {
            "Refused: no credential was sent; give an operator's with --token-file, or over https with --proxy"
                .to_owned()
        }
        (403, _) => format!("Refused: {said}; give an operator's credential (--token-file, --proxy)"),
        (401, _) => format!("Refused: {said}; give another credential (--token-file, --proxy)"),
        (_, Some(ErrorCode::TooLate)) => format!("Too late: {} is being stored", target.name()),
        (_, Some(ErrorCode::JobTerminal)) => format!("The job {} has ended already", target.name()),
        (404, Some(_)) => target.is_gone(),
        (404, None) => "The server does not take orders: it is of another version".to_owned(),
        (status, _) => format!("Refused ({status}): {said}"),
    }
}

/// `Ordered by` as it is written within a sentence; `VO` stays.
fn lower_first(name: &str) -> String {
    let mut characters = name.chars();
    match (characters.next(), characters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(characters).collect(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A question about a copy, as a server asks it.
    pub(crate) fn about_copy(id: &str, from: &str) -> Question {
        let facts = [
            ("Transfer", id),
            ("Ordered by", "jane"),
            ("From", from),
            ("To", "/data/f"),
        ];
        let facts: Vec<Value> = facts
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        Question::of(Target::Copy(id.to_owned()), &json!({"facts": facts, "form": "0123"}))
    }

    fn subject(name: &str, is_draining: bool) -> Subject {
        Subject {
            name: name.to_owned(),
            is_draining,
        }
    }

    #[test]
    fn keys_are_for_rows_that_can_be_ended_or_drained() {
        let row = subject("x", false);
        let wanted = |key, kind| Target::of_key(key, kind, Some(&row));
        assert_eq!(wanted('c', Kind::Copies), Ok(Target::Copy("x".to_owned())));
        assert_eq!(wanted('c', Kind::Jobs), Ok(Target::Job("x".to_owned())));
        for (is_draining, drains) in [(false, true), (true, false)] {
            let name = "x".to_owned();
            let found = Target::of_key('d', Kind::Workers, Some(&subject("x", is_draining)));
            assert_eq!(found, Ok(Target::Worker { name, drains }));
        }
        for (key, kind, words) in [
            ('c', Kind::Links, "Tab leads to them"),
            ('c', Kind::Workers, "Tab leads to them"),
            ('d', Kind::Copies, "Tab leads to them"),
            ('d', Kind::Cluster, "crossload node drain x"),
        ] {
            let said = wanted(key, kind).expect_err("it is no such row");
            assert!(said.contains(words), "{key} {kind:?}: {said}");
        }
        let said = Target::of_key('c', Kind::Copies, None).expect_err("no row");
        assert!(said.contains("Select a row"), "{said}");
        Target::of_key('c', Kind::Copies, Some(&subject("", false))).expect_err("no name");
    }

    #[test]
    fn the_order_is_for_what_was_asked_about() {
        let hostile = Target::Worker {
            name: "a&drain=no#\u{1b}".to_owned(),
            drains: true,
        };
        assert_eq!(hostile.fields(), "worker=a%26drain%3Dno%23%1B&drain=yes");
        assert_eq!(hostile.question(), "Drain the worker a&drain=no#\\x1b?");
        assert_eq!(Target::Copy("t 1".to_owned()).fields(), "id=t+1");
        // What a server says beside the question does not change what is ordered.
        let document = json!({"facts": [], "fields": [{"name": "id", "value": "other"}], "form": null});
        let question = Question::of(Target::Job("j1".to_owned()), &document);
        assert_eq!(question.target.fields(), "id=j1");
        assert!(question.form.is_none());
    }

    #[test]
    fn a_question_has_all_facts_in_its_room() {
        let short = about_copy("t1", "https://far/f");
        assert_eq!(
            short.words(500),
            "End the copy t1? (y/n) ordered by jane, from https://far/f, to /data/f"
        );
        let long = about_copy("t1", &format!("https://far/\u{1b}[2J{}/the-file", "d/".repeat(500)));
        let words = long.words(160);
        assert!(columns(&words) <= 160, "{words}");
        assert!(
            words.contains("from https://far/\\x1b[2J")
                && words.contains("…")
                && words.contains("/the-file, to /data/f"),
            "{words}"
        );
        assert!(long.words(0).starts_with("End the copy t1? (y/n) ordered by jane"));
        let many: Vec<Value> = (0..1000)
            .map(|number| json!({"name": "n".repeat(1000), "value": number.to_string()}))
            .collect();
        let many = Question::of(Target::Job("j".to_owned()), &json!({"facts": many}));
        assert!(columns(&many.words(200)) <= 400, "a server does not fill the screen");
        assert_eq!(
            (lower_first("VO"), lower_first("Files")),
            ("VO".to_owned(), "files".to_owned())
        );
    }

    #[test]
    fn refusals_are_said_in_plain_words() {
        let refused = |status, body: &str, shows_credential| {
            let answer = ServiceAnswer {
                status,
                location: None,
                retry_after_s: None,
                body: Secret::new(body),
            };
            refusal(&Target::Copy("t1".to_owned()), &answer, shows_credential)
        };
        let forbidden = "client authorize: Permission denied ([web] operators does not name this client)\n\
                         Ask.\n[page_forbidden] r1\n";
        assert_eq!(
            refused(403, forbidden, true),
            "Refused: Permission denied ([web] operators does not name this client); give an operator's credential \
             (--token-file, --proxy)"
        );
        assert!(refused(403, forbidden, false).contains("no credential was sent"));
        let document = json!({"error": {
            "code": "page_forbidden",
            "message": "client authorize: Permission denied ([web] operators does not name this client)",
        }});
        for shows_credential in [true, false] {
            assert_eq!(
                refused(403, &document.to_string(), shows_credential),
                refused(403, forbidden, shows_credential)
            );
        }
        let expired = "client authenticate: The token has expired\nGet one.\n[token_expired] r1\n";
        assert!(refused(401, expired, true).starts_with("Refused: The token has expired; give another"));
        assert!(refused(401, expired, false).starts_with("Refused: The token has expired"));
        let gone = "client open: The page shows nothing of this name (no such copy runs)\nx\n[not_shown] r1\n";
        assert_eq!(refused(404, gone, true), "The copy t1 has ended already");
        assert!(refused(404, "not here", true).contains("another version"));
        let late = "client commit: It is too late: the file is being stored\nx\n[too_late] r1\n";
        assert_eq!(refused(409, late, true), "Too late: t1 is being stored");
        let ended = "client open: The job has ended\nx\n[job_terminal] r1\n";
        assert!(refused(409, ended, true).ends_with("has ended already"));
        assert!(refused(308, "", true).contains("https URL"));
        let moved = |location: &str| {
            let answer = ServiceAnswer {
                status: 307,
                location: Some(location.to_owned()),
                retry_after_s: None,
                body: Secret::new(""),
            };
            refusal(&Target::Copy("t1".to_owned()), &answer, true)
        };
        assert!(moved("https://q/copies/end").contains("https URL"));
        assert_eq!(
            moved("/elsewhere\u{1b}"),
            "Refused (307): the server sends orders to /elsewhere\\x1b; start top with the URL there"
        );
        assert_eq!(
            refused(500, "<b>\u{1b}]0;x\u{7}\u{202e}", true),
            "Refused (500): <b>\\x1b]0;x\\x07\\u{202e}"
        );
    }
}
