//! Campaigns: long loads that chance draws, and a look at what they leave behind. The same seed
//! gives the same operations, though not to the microsecond.
//!
//! | campaign | what it asks | run by |
//! |---|---|---|
//! | [`faults`] | does a fault at a random moment of a copy lose a file? | `./dev faults SECONDS` |
//! | [`stores`] | does a fault behind an export show or leave another file? | `cargo test` |
//! | [`mesh`] | is each fault of a mesh named, and nothing else? | `cargo test` |
//! | [`soak`] | does anything keep growing under a mixed load? | `./dev soak MINUTES` |
#![allow(clippy::print_stdout, reason = "a campaign tells its seed, and what it did")]

mod dice;
mod faults;
mod ledger;
mod mesh;
mod soak;
mod stores;

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.trim().parse().ok()
}

/// What chance begins with: the number that the environment gives, or another one each time.
fn seed(name: &str) -> u64 {
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
    number(name).unwrap_or_else(now)
}
