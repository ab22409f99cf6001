//! Values of parameters and columns.

use schedule::{FileId, JobId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use types::Result;

use super::damaged;

/// A parameter, or a column of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u64> for Value {
    /// Sizes beyond 2^63 do not exist.
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<i16> for Value {
    fn from(number: i16) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u8> for Value {
    fn from(number: u8) -> Self {
        Self::Integer(number.into())
    }
}

impl From<bool> for Value {
    fn from(is_set: bool) -> Self {
        Self::Integer(is_set.into())
    }
}

impl From<&str> for Value {
    /// PostgreSQL stores no NUL in a text.
    fn from(text: &str) -> Self {
        Self::Text(text.replace('\0', ""))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        match text.contains('\0') {
            true => Self::from(text.as_str()),
            false => Self::Text(text),
        }
    }
}

impl From<JobId> for Value {
    fn from(id: JobId) -> Self {
        Self::Bytes(id.0.to_vec())
    }
}

impl From<FileId> for Value {
    fn from(id: FileId) -> Self {
        Self::Integer(id.0)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl Value {
    /// A value as JSON.
    pub(crate) fn json(value: &impl Serialize) -> Result<Self> {
        let text = serde_json::to_string(value).map_err(|error| damaged(&error.to_string()))?;
        Ok(Self::from(text))
    }

    /// An optional value as JSON.
    pub(crate) fn optional_json<T: Serialize>(value: Option<&T>) -> Result<Self> {
        value.map_or(Ok(Self::Null), Self::json)
    }
}

/// A row of an answer, which is read column by column, in order.
#[derive(Debug)]
pub(crate) struct Row {
    columns: std::vec::IntoIter<Value>,
}

impl Row {
    pub(crate) fn new(columns: Vec<Value>) -> Self {
        Self {
            columns: columns.into_iter(),
        }
    }

    fn next(&mut self) -> Result<Value> {
        self.columns.next().ok_or_else(|| damaged("a column is missing"))
    }

    /// The next column, which may be absent.
    pub(crate) fn optional_integer(&mut self) -> Result<Option<i64>> {
        match self.next()? {
            Value::Null => Ok(None),
            Value::Integer(number) => Ok(Some(number)),
            other => Err(damaged(&format!("no integer: {other:?}"))),
        }
    }

    /// The next column.
    pub(crate) fn integer(&mut self) -> Result<i64> {
        self.optional_integer()?.ok_or_else(|| damaged("a number is missing"))
    }

    /// The next column, in the range of its type.
    pub(crate) fn number<T: TryFrom<i64>>(&mut self) -> Result<T> {
        let number = self.integer()?;
        T::try_from(number).map_err(|_| damaged(&format!("{number} is out of range")))
    }

    /// The next column, which may be absent.
    pub(crate) fn optional_number<T: TryFrom<i64>>(&mut self) -> Result<Option<T>> {
        let Some(number) = self.optional_integer()? else {
            return Ok(None);
        };
        let in_range = T::try_from(number).map_err(|_| damaged(&format!("{number} is out of range")));
        in_range.map(Some)
    }

    /// The next column, which may be absent.
    pub(crate) fn optional_text(&mut self) -> Result<Option<String>> {
        match self.next()? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            other => Err(damaged(&format!("no text: {other:?}"))),
        }
    }

    /// The next column.
    pub(crate) fn text(&mut self) -> Result<String> {
        self.optional_text()?.ok_or_else(|| damaged("a text is missing"))
    }

    /// The next column.
    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.next()? {
            Value::Bytes(bytes) => Ok(bytes),
            other => Err(damaged(&format!("no bytes: {other:?}"))),
        }
    }

    /// The next column: the identifier of a job.
    pub(crate) fn job_id(&mut self) -> Result<JobId> {
        let bytes = self.bytes()?;
        let id = bytes.try_into().map_err(|_| damaged("no UUID"))?;
        Ok(JobId(id))
    }

    /// The next column: JSON.
    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        let text = self.text()?;
        serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))
    }

    /// The next column: JSON, or absent.
    pub(crate) fn optional_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let Some(text) = self.optional_text()? else {
            return Ok(None);
        };
        let value = serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))?;
        Ok(Some(value))
    }
}
