//! Content security policies of pages that carry their own style.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

/// The source for `style-src` that allows this text of a style element and no other (Content
/// Security Policy 3 §2.3.1).
#[must_use]
pub fn style_source(style: &str) -> String {
    format!("'sha256-{}'", BASE64.encode(Sha256::digest(style)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_the_digest_of_the_text() {
        // Of the empty text.
        assert_eq!(
            style_source(""),
            "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
        );
        assert_ne!(style_source("a"), style_source("a\n"));
    }
}
