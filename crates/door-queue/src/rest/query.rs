//! The query of a request, and bodies that are small JSON.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::Uri;
use serde::de::DeserializeOwned;

use crate::fts::FtsError;
use crate::limits::{OPERATION_BYTES_MAX, TIME_WINDOW_HOURS_MAX};
use crate::respond::{Failed, whole};

/// The parameters of a query. The last of one name counts.
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub(crate) fn of(uri: &Uri) -> Self {
        let text = uri.query().unwrap_or_default();
        Self(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// A parameter that is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// The names in a list with commas.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<&str>> {
        Some(self.get(name)?.split(',').map(str::trim).collect())
    }

    /// The most entries of a list.
    ///
    /// # Errors
    /// 400 with FTS's sentence for 0, for more than `most`, and for what is no number.
    pub(crate) fn limit(&self, most: usize) -> Result<usize, FtsError> {
        let Some(text) = self.get("limit") else { return Ok(most) };
        match text.parse() {
            Ok(limit) if (1..=most).contains(&limit) => Ok(limit),
            _ => Err(FtsError::bad(format!(
                "The limit must be positive and less or equal than {most}"
            ))),
        }
    }

    /// When the window began: `hours` or `hours:minutes` before `now_ms`.
    ///
    /// # Errors
    /// 400 for what is neither.
    pub(crate) fn window_ms(&self, now_ms: i64) -> Result<Option<i64>, FtsError> {
        let Some(text) = self.get("time_window") else {
            return Ok(None);
        };
        let (hours, minutes) = text.split_once(':').unwrap_or((text, "0"));
        match (hours.parse::<i64>(), minutes.parse::<i64>()) {
            (Ok(hours @ 0..=TIME_WINDOW_HOURS_MAX), Ok(minutes @ 0..=59)) => {
                Ok(Some(now_ms - (hours * 60 + minutes) * 60_000))
            }
            _ => Err(FtsError::bad("Invalid time window format")),
        }
    }
}

/// Reads the body of an operator's request.
///
/// # Errors
/// 400 for what is not of this form.
pub(crate) async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Failed> {
    let body = whole(body, OPERATION_BYTES_MAX).await?;
    let read = serde_json::from_slice(&body);
    read.map_err(|cause| match cause.classify() {
        serde_json::error::Category::Data => FtsError::bad(format!("Malformed request: {cause}")).into(),
        _ => FtsError::bad("Badly formatted JSON request").into(),
    })
}
