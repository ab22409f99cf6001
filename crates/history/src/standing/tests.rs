//! States and beginnings over runs.

use types::Side;

use super::*;
use crate::blame::{Role, Scope};
use crate::made_up::Mesh;
use crate::model::Downtime;

const HOUR_MS: u64 = 3_600_000;
/// 2026-11-29 00:00 UTC.
const MIDNIGHT_MS: u64 = 1_795_910_400_000;

/// A letter for each run: good, bad, unknown or in downtime.
fn verdicts(letters: &str) -> Vec<RunVerdict> {
    let verdict = |(hour, letter): (usize, char)| {
        let condition = match letter {
            'g' => Condition::Good,
            'b' => Condition::Bad,
            'd' => Condition::InDowntime,
            _ => Condition::Unknown,
        };
        RunVerdict {
            started_ms: hour as u64,
            endpoints: vec![EndpointVerdict {
                name: "a".to_owned(),
                condition,
                counts: Counts::default(),
            }],
            findings: Vec::new(),
        }
    };
    letters.chars().enumerate().map(verdict).collect()
}

#[test]
fn states_have_hysteresis() {
    for (letters, state, since) in [
        ("g", State::Sound, 0),
        ("b", State::Unknown, 0),
        ("bb", State::Problematic, 1),
        ("ggb", State::Sound, 0),
        ("ggbgb", State::Problematic, 4),
        ("ggbgggb", State::Sound, 0),
        ("bbg", State::Problematic, 1),
        ("bbgbgg", State::Sound, 5),
        ("gg??", State::Sound, 0),
        ("gg???", State::Unknown, 4),
        ("bbd", State::InDowntime, 2),
        ("bbddg", State::Problematic, 4),
        ("bbddgg", State::Sound, 5),
        ("gbdb", State::Sound, 3),
    ] {
        let all = standings(&verdicts(letters), Hysteresis::default());
        assert_eq!((all[0].state, all[0].since_ms), (state, since), "{letters}");
    }
    let standing = &standings(&verdicts("ggbb?b"), Hysteresis::default())[0];
    assert_eq!((standing.last_good_ms, standing.first_bad_ms), (Some(1), Some(2)));
    assert_eq!(standing.score, 9);
    assert_eq!(
        standings(&verdicts(&"g".repeat(40)), Hysteresis::default())[0].score,
        20
    );
    assert_eq!(standings(&verdicts(&"b".repeat(40)), Hysteresis::default())[0].score, 0);
}

/// Runs by the hour; `site-02` has no good copy as a source from `bad_from` on.
fn hours(hours: u64, bad_from: u64) -> Vec<RunVerdict> {
    let mesh = Mesh::full(6);
    let run = |hour: u64| {
        let is_bad = hour >= bad_from;
        let mut run = mesh.run(MIDNIGHT_MS + hour * HOUR_MS, |link| {
            (is_bad && link.source == "site-02").then_some(Side::Source)
        });
        if hour == 4 {
            run.endpoints[2].downtime = Some(Downtime {
                from_ms: 0,
                until_ms: 1,
                reason: "a new disk".to_owned(),
            });
        }
        RunVerdict::of(&run)
    };
    (0..hours).map(run).collect()
}

#[test]
fn a_sentence_says_since_when() {
    let verdicts = hours(7, 3);
    let all = standings(&verdicts, Hysteresis::default());
    let states: Vec<State> = all.iter().map(|one| one.state).collect();
    let sound = State::Sound;
    assert_eq!(states, [sound, sound, State::Problematic, sound, sound, sound]);
    let said: Vec<String> = all[2].faults.iter().map(ToString::to_string).collect();
    // The run in the downtime is neither good nor bad.
    assert_eq!(
        said,
        [
            "site-02 fails as a source for everyone (10 of 10 copies): peer_failed in transfer, \
          since 2026-11-29 03:00 UTC in 3 runs; last good 2026-11-29 02:00 UTC"
        ]
    );
    assert_eq!(verdicts[4].condition("site-02"), Some(Condition::InDowntime));
    assert_eq!(verdicts[6].endpoints[2].counts.failed_as_source, 10);
    let never = ongoing(&hours(2, 0));
    assert!(
        never[0]
            .to_string()
            .ends_with("since 2026-11-29 00:00 UTC in 2 runs; no good run is known")
    );
}

#[test]
fn a_wider_fault_covers_a_narrower_one() {
    let endpoint = |name: &str, role, protocol: Option<&str>| Subject::Endpoint {
        name: name.to_owned(),
        role,
        scope: Scope {
            protocol: protocol.map(str::to_owned),
            ..Scope::default()
        },
    };
    let down = endpoint("a", Role::Both, None);
    let source = endpoint("a", Role::Source, Some("https"));
    assert!(down.covers(&source) && down.covers(&down) && !source.covers(&down));
    assert!(!endpoint("b", Role::Both, None).covers(&source));
    assert!(!endpoint("a", Role::Destination, None).covers(&source));
    assert!(!endpoint("a", Role::Source, Some("roots")).covers(&source));
}
