//! What all our pages share: their colours, text of others made safe for them, and the name of a
//! style in a content security policy.
#![forbid(unsafe_code)]

mod escape;
mod policy;
mod visible;

pub use escape::Escaped;
pub use policy::style_source;
pub use visible::{hexadecimal, is_obeyed, visible};

/// The colours of all pages, light and dark.
pub const THEME: &str = include_str!("theme.css");
