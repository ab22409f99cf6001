//! Codes, sides and phases are stored, and written to JSON, by name.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ErrorCode, Phase, Side};

macro_rules! by_name {
    ($($kind:ident)*) => {
        $(
            impl Serialize for $kind {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.name())
                }
            }

            impl<'de> Deserialize<'de> for $kind {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let name = Cow::<'de, str>::deserialize(deserializer)?;
                    let found = Self::ALL.iter().copied().find(|known| known.name() == name);
                    found.ok_or_else(|| D::Error::custom(format_args!("unknown name {name:?}")))
                }
            }
        )*
    };
}

by_name! { ErrorCode Phase Side }
