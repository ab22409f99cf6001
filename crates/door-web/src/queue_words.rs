//! States of jobs, files and links as pages show them: never by colour alone.

use schedule::{FileState, JobState};

use crate::queue_facts::Link;

/// A state for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The class of its colour; may be empty.
    pub(crate) class: &'static str,
    pub(crate) words: &'static str,
}

pub(crate) const fn shown(class: &'static str, words: &'static str) -> Shown {
    Shown { class, words }
}

pub(crate) fn of_job(state: JobState) -> Shown {
    match state {
        JobState::Staging => shown("", "waits for tape"),
        JobState::Submitted => shown("", "waits"),
        JobState::Active => shown("", "active"),
        JobState::Archiving => shown("", "being archived"),
        JobState::Finished => shown("good", "✓ finished"),
        JobState::FinishedDirty => shown("soon", "! partly failed"),
        JobState::Failed => shown("bad", "✕ failed"),
        JobState::Canceled => shown("", "canceled"),
    }
}

pub(crate) fn of_file(state: FileState) -> Shown {
    match state {
        FileState::TokenPreparation => shown("", "waits for tokens"),
        FileState::Staging => shown("", "waits to be asked from tape"),
        FileState::StagingStarted => shown("", "asked from tape"),
        FileState::Submitted => shown("", "waits"),
        FileState::OnHold | FileState::OnHoldStaging => shown("soon", "held by a ban"),
        FileState::NotUsed => shown("", "not used yet"),
        FileState::Ready => shown("", "about to begin"),
        FileState::Active => shown("", "being copied"),
        FileState::Archiving => shown("", "being archived"),
        FileState::Finished => shown("good", "✓ finished"),
        FileState::Failed => shown("bad", "✕ failed"),
        FileState::Canceled => shown("", "canceled"),
    }
}

pub(crate) fn of_link(link: &Link) -> Shown {
    match link {
        Link { is_paused: true, .. } => shown("soon", "paused"),
        Link { held: Some(_), .. } => shown("soon", "stands still"),
        Link { active: 1.., .. } => shown("good", "✓ copies"),
        Link { waiting: 1.., .. } => shown("", "waits"),
        Link { banned: 1.., .. } => shown("soon", "banned"),
        _ => shown("", "waits to retry"),
    }
}

/// A choice of states in the form.
pub(crate) struct StateChoice {
    /// The word in URLs.
    pub(crate) word: &'static str,
    /// The words on the page.
    pub(crate) label: &'static str,
    /// Empty: any.
    pub(crate) states: &'static [JobState],
}

const fn choice(word: &'static str, label: &'static str, states: &'static [JobState]) -> StateChoice {
    StateChoice { word, label, states }
}

/// All choices; the first is the usual one.
pub(crate) static STATE_CHOICES: [StateChoice; 7] = [
    choice("", "any", &[]),
    choice(
        "open",
        "not ended",
        &[
            JobState::Staging,
            JobState::Submitted,
            JobState::Active,
            JobState::Archiving,
        ],
    ),
    choice("active", "active", &[JobState::Active]),
    choice("failed", "failed", &[JobState::Failed]),
    choice("dirty", "partly failed", &[JobState::FinishedDirty]),
    choice("finished", "finished", &[JobState::Finished]),
    choice("canceled", "canceled", &[JobState::Canceled]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue_facts::Held;

    #[test]
    fn a_link_that_stands_still_says_so_first() {
        let held = Held {
            until_ms: 1,
            detail: "x".into(),
        };
        let link = |active, waiting| Link {
            active,
            waiting,
            ..Link::default()
        };
        assert_eq!(of_link(&link(1, 1)).words, "✓ copies");
        assert_eq!(of_link(&link(0, 1)).words, "waits");
        assert_eq!(of_link(&link(0, 0)).words, "waits to retry");
        let paused = Link {
            is_paused: true,
            held: Some(held.clone()),
            ..link(1, 1)
        };
        assert_eq!(of_link(&paused).words, "paused");
        let held = Link {
            held: Some(held),
            ..link(1, 1)
        };
        assert_eq!(of_link(&held).words, "stands still");
        let banned = Link {
            banned: 2,
            ..link(0, 0)
        };
        assert_eq!(of_link(&banned).words, "banned");
    }
}
