//! Text that must not appear in a log, an error or a core dump: tokens, keys, macaroons.

use zeroize::Zeroizing;

/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
/// The permission bit for the group to read.
const GROUP_READS: u32 = 0o040;

/// A secret text. It has no `Display`, its `Debug` hides the value, and its memory is wiped on
/// drop. Reading it takes [`Secret::expose`], which is easy to find in a review.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself, where it must be sent or verified.
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

/// Compares two texts in constant time: the duration depends only on their lengths.
#[must_use]
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let difference = pairs.fold(0, |difference, (one, other)| difference | (one ^ other));
    one.len() == other.len() && std::hint::black_box(difference) == 0
}

/// Whether others than its owner may access a secret file of this mode and owner (a user ID).
///
/// The group may read a file of root: so do secrets reach a process without root's rights from
/// systemd (`LoadCredential=`) and Kubernetes (`fsGroup`). PostgreSQL has the same rule.
#[must_use]
pub const fn is_open_to_others(mode: u32, owner: u32) -> bool {
    let allowed = if owner == 0 { GROUP_READS } else { 0 };
    mode & OTHERS & !allowed != 0
}

#[cfg(test)]
mod tests {
    use super::{Secret, is_open_to_others, is_same};

    #[test]
    fn only_the_group_of_a_file_of_root_may_read_a_secret() {
        for mode in [0o600, 0o400, 0o100_600] {
            assert!(
                !is_open_to_others(mode, 0) && !is_open_to_others(mode, 1000),
                "{mode:o}"
            );
        }
        for mode in [0o640, 0o440, 0o100_440] {
            assert!(!is_open_to_others(mode, 0) && is_open_to_others(mode, 1000), "{mode:o}");
        }
        for mode in [0o620, 0o660, 0o610, 0o604, 0o644, 0o601] {
            assert!(is_open_to_others(mode, 0) && is_open_to_others(mode, 1000), "{mode:o}");
        }
    }

    #[test]
    fn texts_are_the_same_to_the_last_byte() {
        let text = [7; 100];
        assert!(is_same(&text, &text) && is_same(b"", b""));
        assert!(!is_same(&text, &text[..99]) && !is_same(b"", b"x"));
        for at in 0..text.len() {
            let mut other = text;
            other[at] ^= 0x80;
            assert!(!is_same(&text, &other), "{at}");
        }
    }

    #[test]
    fn printing_a_secret_shows_nothing_of_it() {
        let secret = Secret::new("hunter2");
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!(secret.expose(), "hunter2");
    }
}
