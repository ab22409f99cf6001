//! Text that must not appear in a log, an error or a core dump: tokens, keys, macaroons.

use zeroize::Zeroizing;

/// A secret text. It has no `Display`, its `Debug` says only that it is there, and its memory is
/// wiped when it is dropped. Reading it takes the word [`Secret::expose`], which is easy to review.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a text into keeping.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself, for the one place that must send or verify it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn printing_a_secret_shows_nothing_of_it() {
        let secret = Secret::new("hunter2");
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!(secret.expose(), "hunter2");
    }
}
