//! JSON that is read within limits: a short text cannot become much memory.
//!
//! A value of `serde_json` takes up to ten times the bytes of its text, and a submission may have a
//! hundred MiB. So lists count their elements and data of clients their bytes while they are read,
//! and reading ends at the limit.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A list of at most `MAX` elements.
#[derive(Debug)]
pub(crate) struct AtMost<T, const MAX: usize>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for AtMost<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
            type Value = AtMost<T, MAX>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "a list of at most {MAX} elements")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element()? {
                    if elements.len() == MAX {
                        return Err(A::Error::custom(format!("a list has more than {MAX} elements")));
                    }
                    elements.push(element);
                }
                Ok(AtMost(elements))
            }
        }
        deserializer.deserialize_seq(List(PhantomData))
    }
}

/// Any JSON of at most `MAX` bytes.
#[derive(Debug)]
pub(crate) struct Json<const MAX: usize>(pub(crate) Value);

impl<'de, const MAX: usize> Deserialize<'de> for Json<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let left = Cell::new(MAX);
        let seed = Counted { left: &left, max: MAX };
        seed.deserialize(deserializer).map(Json)
    }
}

/// Builds a value, and counts what its text takes at least.
#[derive(Clone, Copy)]
struct Counted<'l> {
    left: &'l Cell<usize>,
    max: usize,
}

impl Counted<'_> {
    fn take<E: Error>(self, bytes: usize) -> Result<(), E> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(E::custom(format!(
                "data of the client has more than {} bytes",
                self.max
            ))),
        }
    }

    fn number<E: Error>(self, number: impl Into<Number>) -> Result<Value, E> {
        self.take(2)?;
        Ok(Value::Number(number.into()))
    }
}

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.take(5)?;
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        self.take(5)?;
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        self.number(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        self.number(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        self.take(2)?;
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.take(text.len() + 2)?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        self.take(2)?;
        let mut elements = Vec::new();
        while let Some(element) = list.next_element_seed(self)? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        self.take(2)?;
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            self.take(name.len() + 3)?;
            members.insert(name, map.next_value_seed(self)?);
        }
        Ok(Value::Object(members))
    }
}
