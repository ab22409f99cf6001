//! Which processes speak under the name of a node. One that speaks again after another has spoken
//! shows that two servers use the name, since a server that starts again has a new number.

use crate::nats::announcement::Announcement;
use crate::nats::limits::{SPEAKER_RETURNS_MIN, SPEAKERS_MAX, TWO_SPEAKERS_MS};

/// The processes that were heard lately.
#[derive(Debug, Default)]
pub(super) struct Speakers {
    /// The latest last.
    known: Vec<Speaker>,
    /// How often one has spoken again after another.
    returns: u32,
    /// Time since the last return.
    quiet_ms: u64,
}

#[derive(Debug)]
struct Speaker {
    instance: String,
    /// The URL of one of its doors.
    door: String,
}

impl Speakers {
    /// An announcement was heard.
    pub(super) fn heard(&mut self, said: &Announcement) {
        let place = self.known.iter().position(|known| known.instance == said.instance);
        let is_latest = place.is_some_and(|place| place + 1 == self.known.len());
        if let Some(place) = place.filter(|_| !is_latest || said.is_leaving) {
            self.known.remove(place);
        }
        if said.is_leaving && self.known.len() <= 1 {
            self.returns = 0;
        }
        if is_latest || said.is_leaving {
            return;
        }
        if place.is_some() {
            self.returns += 1;
            self.quiet_ms = 0;
        }
        if self.known.len() >= SPEAKERS_MAX {
            self.known.remove(0);
        }
        self.known.push(Speaker {
            instance: said.instance.clone(),
            door: said.doors.first().cloned().unwrap_or_default(),
        });
    }

    /// Time passes in which the bus works.
    pub(super) fn pass(&mut self, time_ms: u64) {
        self.quiet_ms += time_ms;
        if self.quiet_ms >= TWO_SPEAKERS_MS {
            self.returns = 0;
            self.quiet_ms = 0;
            self.known.drain(..self.known.len().saturating_sub(1));
        }
    }

    /// Whether two servers use the name. The bus may deliver the last message of a server that has
    /// ended after the first one of its successor: that makes two returns, and no third.
    pub(super) fn are_two(&self) -> bool {
        self.returns >= SPEAKER_RETURNS_MIN
    }

    /// Why the node is not used then.
    pub(super) fn reason(&self, name: &str) -> String {
        let mut doors: Vec<&str> = self
            .known
            .iter()
            .rev()
            .take(2)
            .map(|known| known.door.as_str())
            .collect();
        doors.sort_unstable();
        format!(
            "two servers use the name {name} on the message bus ({}): give each its own [bus] name and user",
            doors.join(" and ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(speakers: &mut Speakers, instance: &str, is_leaving: bool) {
        speakers.heard(&Announcement {
            instance: instance.to_owned(),
            doors: vec![format!("https://{instance}:1094")],
            is_leaving,
            ..Announcement::default()
        });
    }

    #[test]
    fn one_that_starts_again_and_again_is_one() {
        let mut speakers = Speakers::default();
        for instance in ["a", "a", "b", "c", "c", "d", "e", "f", "f"] {
            say(&mut speakers, instance, false);
        }
        // A message that was on its way when its sender ended.
        say(&mut speakers, "e", false);
        say(&mut speakers, "f", false);
        assert!(!speakers.are_two());
        assert!(speakers.known.len() <= SPEAKERS_MAX);
    }

    #[test]
    fn two_that_speak_in_turn_are_two_until_one_is_silent() {
        let mut speakers = Speakers::default();
        for instance in ["a", "b", "a", "b"] {
            say(&mut speakers, instance, false);
        }
        assert!(!speakers.are_two());
        say(&mut speakers, "a", false);
        assert!(speakers.are_two());
        let reason = speakers.reason("d1");
        assert!(reason.contains("d1") && reason.contains("https://a:1094") && reason.contains("https://b:1094"));
        for _ in 0..TWO_SPEAKERS_MS / 1000 {
            assert!(speakers.are_two());
            say(&mut speakers, "b", false);
            speakers.pass(1000);
        }
        assert!(!speakers.are_two());
        for instance in ["c", "b", "c"] {
            say(&mut speakers, instance, false);
        }
        assert!(!speakers.are_two());
        say(&mut speakers, "b", false);
        assert!(speakers.are_two());
        say(&mut speakers, "b", true);
        assert!(!speakers.are_two(), "it has taken leave");
    }
}
