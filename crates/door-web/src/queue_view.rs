//! Which jobs the page *Queue* shows.

use types::{Error, ErrorCode, Phase, Result, Side};
use url::form_urlencoded;

use crate::limits::{FILTER_CHARACTERS_MAX, JOBS_SHOWN_MAX};
use crate::queue_facts::JobFilter;
use crate::queue_words::{STATE_CHOICES, StateChoice};
use crate::words::Words;

/// What the form of the page says.
pub(crate) struct QueueView {
    pub(crate) state: &'static StateChoice,
    pub(crate) source: Words,
    pub(crate) destination: Words,
    pub(crate) vo: Words,
    pub(crate) user: Words,
    /// Where the page before ended.
    pub(crate) before: Option<i64>,
}

/// The error of a query that is not understood.
pub(crate) fn wrong(what: &str) -> Error {
    Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open).with_detail(what)
}

impl QueueView {
    /// Reads the query of a page.
    ///
    /// # Errors
    /// `bad_request`: a state that jobs do not have, or a place in the list that is none: a
    /// program would get other jobs than it asked for.
    pub(crate) fn read(query: Option<&str>) -> Result<Self> {
        let mut view = Self {
            state: &STATE_CHOICES[0],
            source: Words::default(),
            destination: Words::default(),
            vo: Words::default(),
            user: Words::default(),
            before: None,
        };
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let text: String = value.trim().chars().take(FILTER_CHARACTERS_MAX).collect();
            match name.as_ref() {
                "state" => {
                    let known = STATE_CHOICES.iter().find(|choice| choice.word == text);
                    view.state = known.ok_or_else(|| wrong("no job has this state"))?;
                }
                "source" => view.source = text.into(),
                "destination" => view.destination = text.into(),
                "vo" => view.vo = text.into(),
                "user" => view.user = text.into(),
                "before" => view.before = Some(text.parse().map_err(|_| wrong("before is no number"))?),
                _ => {}
            }
        }
        Ok(view)
    }

    /// The query of the page that follows.
    pub(crate) fn next(&self, before: i64) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let fields = [
            ("state", self.state.word),
            ("source", self.source.raw()),
            ("destination", self.destination.raw()),
            ("vo", self.vo.raw()),
            ("user", self.user.raw()),
        ];
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            query.append_pair(name, value);
        }
        query.append_pair("before", &before.to_string()).finish()
    }

    /// Whether it shows some of the jobs only.
    pub(crate) fn is_narrow(&self) -> bool {
        let fields = [&self.source, &self.destination, &self.vo, &self.user];
        !self.state.states.is_empty() || self.before.is_some() || fields.iter().any(|field| !field.is_empty())
    }

    pub(crate) fn filter(&self) -> JobFilter {
        let set = |words: &Words| (!words.is_empty()).then(|| words.raw().to_owned());
        JobFilter {
            states: self.state.states.to_vec(),
            source: set(&self.source).map(|name| name.to_ascii_lowercase()),
            destination: set(&self.destination).map(|name| name.to_ascii_lowercase()),
            vo: set(&self.vo),
            user: set(&self.user),
            before: self.before,
            limit: JOBS_SHOWN_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_reads_the_query_of_the_next_page() {
        let view = QueueView::read(Some("state=dirty&source=HTTPS%3A%2F%2FA&vo=a%26b&nonsense=1")).unwrap();
        assert!(view.is_narrow() && view.before.is_none());
        let next = QueueView::read(Some(&view.next(-5))).unwrap();
        assert_eq!(next.before, Some(-5));
        let filter = next.filter();
        assert_eq!(filter.states, [schedule::JobState::FinishedDirty]);
        assert_eq!(
            (filter.source.as_deref(), filter.vo.as_deref(), filter.user),
            (Some("https://a"), Some("a&b"), None)
        );
        let any = QueueView::read(Some("state=&source=")).unwrap();
        assert!(!any.is_narrow() && any.filter().states.is_empty());
        for wrong in ["state=nonsense", "before=x", "before="] {
            let error = QueueView::read(Some(wrong)).err();
            assert!(
                error.is_some_and(|error| error.code() == ErrorCode::BadRequest),
                "{wrong}"
            );
        }
    }
}
