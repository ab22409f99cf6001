//! What requests carry: queries, bodies, names in paths. Keys that are not known are refused.

use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::http::Uri;
use axum::http::request::Parts;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::answer::{ApiError, bad};
use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::respond::whole;

/// A name in the path.
pub(super) struct Name(pub(super) String);

impl<S: Sync + Send> FromRequestParts<S> for Name {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let name = Path::<String>::from_request_parts(parts, state).await;
        name.map(|Path(name)| Self(name))
            .map_err(|_| bad("the path is not UTF-8"))
    }
}

/// Reads the query. A text without a value is the same as none, and a number must have one.
///
/// # Errors
/// 400 for parameters that are not known, are repeated, or have no such value.
pub(super) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiError> {
    let text = uri.query().unwrap_or_default();
    let mut members = Map::new();
    for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
        let value = match value.is_empty() {
            true => Value::Null,
            false => Value::String(value.into_owned()),
        };
        if members.insert(name.clone().into_owned(), value).is_some() {
            return Err(bad(format!("the parameter {name} is repeated")));
        }
    }
    serde_json::from_value(Value::Object(members)).map_err(|cause| bad(cause.to_string().replace("field", "parameter")))
}

/// Reads a body of at most `bytes_max`.
///
/// # Errors
/// 413; 400 for what is not JSON of this form.
pub(super) async fn body<T: DeserializeOwned>(body: Body, bytes_max: usize) -> Result<T, ApiError> {
    let bytes = whole(body, bytes_max).await?;
    parsed(&bytes)
}

/// Reads JSON.
///
/// # Errors
/// 400 for what is not of this form.
pub(super) fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // serde would also take a list of the members' values.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(bad("the body is not a JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|cause| bad(cause.to_string()))
}

/// A number in a query.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    // It is called for a parameter that is there.
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    let number = text
        .parse()
        .map_err(|_| D::Error::custom(format!("\"{text}\" is not a number")));
    number.map(Some)
}

/// Which page of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// Entries of a page; default: 100.
    #[serde(default, deserialize_with = "number")]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    pub(super) limit: Option<i64>,
    /// What `next` of the page before says.
    pub(super) after: Option<String>,
}

/// The number of entries that a client wants on a page.
///
/// # Errors
/// 400 for a number that is not from 1 to [`PAGE_MAX`].
pub(super) fn limit(asked: Option<i64>) -> Result<usize, ApiError> {
    let asked = asked.map_or(Some(PAGE_DEFAULT), |asked| usize::try_from(asked).ok());
    asked
        .filter(|limit| (1..=PAGE_MAX).contains(limit))
        .ok_or_else(|| bad(format!("limit is a number from 1 to {PAGE_MAX}")))
}

/// Where a page begins: what `next` of the page before says.
///
/// # Errors
/// 400 for what no page has said.
pub(super) fn position(after: Option<&str>) -> Result<Option<i64>, ApiError> {
    let Some(after) = after else { return Ok(None) };
    let number = i64::from_str_radix(after, 16).ok().filter(|number| *number >= 0);
    number
        .map(Some)
        .ok_or_else(|| bad("after is what next of the page before says"))
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct List<T: ToSchema> {
    /// The entries, in order.
    pub(super) items: Vec<T>,
    /// The value of `after` for the next page; `null`: there is none.
    pub(super) next: Option<String>,
}

impl<T: ToSchema> List<T> {
    /// A list of one page.
    pub(super) fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// A page of records, in the API's form.
    pub(super) fn page<R>(page: catalog::Page<R>, show: impl FnMut(R) -> T) -> Self {
        Self {
            items: page.items.into_iter().map(show).collect(),
            next: page.next.map(|next| format!("{next:x}")),
        }
    }
}
