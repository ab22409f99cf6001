//! JSON from outside, read with limits: how deep, how many values, and no member twice.
//!
//! A member that occurs twice means one thing to one reader and another to the next (RFC 7519 §4),
//! so none of its meanings is taken.

use std::cell::Cell;
use std::fmt;

use crate::limits::TOKEN_JSON_DEPTH_MAX;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads one JSON object and nothing behind it. The error is why not, without any of the text.
pub(super) fn object(text: &[u8], values_max: usize) -> Result<Map<String, Value>, String> {
    let left = Cell::new(values_max);
    let bounded = Bounded {
        depth: TOKEN_JSON_DEPTH_MAX,
        left: &left,
    };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = bounded
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    match value {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("is not a JSON object".to_owned()),
        // Only our own reasons are passed on: those of the library may quote what they stumbled
        // over.
        Err(error) => Err(match error.to_string() {
            words if words.contains(TOO_DEEP) => format!("is nested deeper than {TOKEN_JSON_DEPTH_MAX} levels"),
            words if words.contains(TOO_MANY) => format!("holds more than {values_max} values"),
            words if words.contains(TWICE) => "names a member twice".to_owned(),
            _ => "is not JSON".to_owned(),
        }),
    }
}

const TOO_DEEP: &str = "nested too deep";
const TOO_MANY: &str = "too many values";
const TWICE: &str = "a member twice";

#[derive(Clone, Copy)]
struct Bounded<'a> {
    depth: usize,
    left: &'a Cell<usize>,
}

impl Bounded<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Self { depth, ..self }),
            None => Err(E::custom(TOO_DEEP)),
        }
    }

    fn count<E: serde::de::Error>(self) -> Result<(), E> {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(E::custom(TOO_MANY)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(value) = entries.next_element_seed(inner)? {
            self.count()?;
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            self.count()?;
            let value = members.next_value_seed(inner)?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom(TWICE));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_within_the_limits_is_read_as_ever() {
        let text = r#"{"a":[1,-2,1.5,true,null,"x\n"],"b":{"c":{}}}"#;
        assert_eq!(
            Value::Object(object(text.as_bytes(), 100).unwrap()),
            serde_json::from_str::<Value>(text).unwrap()
        );
    }

    #[test]
    fn what_is_not_says_why_and_nothing_else() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(1000), "]".repeat(1000));
        let many = format!("{{\"a\":[{}1]}}", "1,".repeat(200));
        for (text, words) in [
            (deep.as_str(), "deeper than 8"),
            (many.as_str(), "more than 100"),
            (r#"{"iss":"a","iss":"b"}"#, "twice"),
            (r#"{"a":{"b":1,"b":1}}"#, "twice"),
            ("[1]", "not a JSON object"),
            ("{} {}", "not JSON"),
            ("{\"secret", "not JSON"),
            ("", "not JSON"),
        ] {
            let why = object(text.as_bytes(), 100).unwrap_err();
            assert!(why.contains(words) && !why.contains("secret"), "{why}");
        }
    }
}
