//! Reasons and estimates of waiting files.

use proptest::prelude::*;

use super::*;
use crate::scheduler::{LinkPolicy, Policy, Queue, Scheduler, ShareUnit};
use crate::{BanNotice, CredentialKind, Hold};

#[derive(Clone, Debug)]
struct Rules {
    inbound: u32,
    link: u32,
    is_paused: bool,
    is_banned: bool,
    is_held: bool,
}

const OPEN: Rules = Rules {
    inbound: 100,
    link: 100,
    is_paused: false,
    is_banned: false,
    is_held: false,
};

impl Policy for Rules {
    fn inbound_max(&self, _: &str) -> u32 {
        self.inbound
    }

    fn outbound_max(&self, _: &str) -> u32 {
        100
    }

    fn link(&self, _: &str, destination: &str) -> LinkPolicy {
        LinkPolicy {
            max: self.link,
            target: None,
            is_paused: self.is_paused,
            hold: self.is_held.then(|| Hold {
                storage: destination.to_owned(),
                until_ms: 90_000,
                message: "507 no space left".to_owned(),
            }),
        }
    }

    fn ban(&self, storage: &str, _: &str) -> Option<BanNotice> {
        (self.is_banned && storage == "a").then(|| BanNotice {
            storage: storage.to_owned(),
            by: "operator".to_owned(),
            since_ms: 0,
            message: "maintenance".to_owned(),
        })
    }
}

fn file(state: FileState, ahead: u64) -> WaitingFile {
    WaitingFile {
        state,
        ahead,
        retry_ms: None,
        last_error: None,
        credential: None,
    }
}

fn proxy_until(expires_ms: i64) -> Option<CredentialEnd> {
    Some(CredentialEnd {
        credential: CredentialKind::Proxy,
        expires_ms,
    })
}

fn explained(rules: &Rules, places: u32, active: u64, file: &WaitingFile, pace: Option<&Pace>) -> Option<Waiting> {
    let queue = |vo, active, waiting| Queue {
        source: "a",
        destination: "d",
        vo,
        activity: "default",
        user: "jane",
        priority: 3,
        waiting,
        active,
        oldest_ms: Some(0),
        average_bytes: None,
    };
    let queues = [queue("cms", active, 50), queue("atlas", 1, 50)];
    let inputs = Inputs {
        now_ms: 30_000,
        queues: &queues,
        policy: rules,
        places,
        share_unit: ShareUnit::SlotTime,
    };
    let decision = Scheduler::default().explain(&inputs);
    explain(&inputs, &decision, 0, file, pace)
}

fn sentences(waiting: &Waiting) -> Vec<String> {
    waiting.reasons.iter().map(ToString::to_string).collect()
}

#[test]
fn a_full_destination_is_named_with_the_share_and_the_files_ahead() {
    let rules = Rules { inbound: 20, ..OPEN };
    let pace = Pace {
        started: 10,
        window_ms: 60_000,
        copy_ms: Some(5_000),
    };
    let waiting = explained(&rules, 100, 19, &file(FileState::Submitted, 9), Some(&pace)).unwrap();
    let expected = [
        "inbound limit of d reached: 20 of 20 copies",
        "cms has 95 % of the copies on the link; its share is 50 %",
        "9 files of the same queue go first",
    ];
    assert_eq!(sentences(&waiting), expected);
    let estimate = waiting.estimate.unwrap();
    assert_eq!((estimate.start_ms, estimate.end_ms), (90_000, Some(95_000)));
    let of_pace = EstimateBasis::Pace {
        started: 10,
        window_ms: 60_000,
    };
    assert_eq!(estimate.basis, of_pace);
    let next = explained(&OPEN, 100, 0, &file(FileState::Submitted, 0), Some(&pace)).unwrap();
    assert_eq!(next.estimate.unwrap().basis, EstimateBasis::NextDecision);
}

#[test]
fn holds_bans_pauses_and_retries_are_named() {
    let submitted = file(FileState::Submitted, 0);
    let first = |rules: Rules| sentences(&explained(&rules, 100, 0, &submitted, None).unwrap()).remove(0);
    let held = Rules { is_held: true, ..OPEN };
    assert_eq!(first(held), "d is full or down: 507 no space left");
    let banned = Rules {
        is_banned: true,
        ..OPEN
    };
    assert_eq!(first(banned), "a is banned by operator: maintenance");
    let paused = Rules {
        is_paused: true,
        ..OPEN
    };
    assert_eq!(first(paused), "operators have paused the link");
    let retry = WaitingFile {
        retry_ms: Some(42_000),
        last_error: Some("timeout".to_owned()),
        ..submitted
    };
    let waiting = explained(&OPEN, 100, 0, &retry, None).unwrap();
    assert_eq!(
        sentences(&waiting)[0],
        "next attempt in 12 s; the last one failed: timeout"
    );
}

#[test]
fn a_credential_that_expires_before_the_start_is_named() {
    let pace = Pace {
        started: 1,
        window_ms: 60_000,
        copy_ms: None,
    };
    let file = WaitingFile {
        credential: proxy_until(7_200_000),
        ..file(FileState::Submitted, 1_000)
    };
    let waiting = explained(&Rules { link: 1, ..OPEN }, 100, 1, &file, Some(&pace)).unwrap();
    let last = sentences(&waiting).pop().unwrap();
    assert_eq!(last, "its proxy expires in 119 minutes, before the expected start");
}

#[test]
fn a_credential_that_lasts_is_not_warned_of() {
    let words = |left_ms: i64| {
        let file = WaitingFile {
            credential: proxy_until(30_000 + left_ms),
            ..file(FileState::Submitted, 0)
        };
        let waiting = explained(&OPEN, 100, 0, &file, None).unwrap();
        sentences(&waiting).into_iter().find(|words| words.contains("proxy"))
    };
    assert_eq!(words(3_590_000), None, "a fresh token of an hour");
    assert_eq!(words(599_000).as_deref(), Some("its proxy expires in 9 minutes"));
    assert_eq!(words(40_000).as_deref(), Some("its proxy expires in 40 s"));
    assert_eq!(words(-1).as_deref(), Some("its proxy has expired"));
}

#[test]
fn a_wait_without_an_end_has_no_estimate() {
    let pace = Pace {
        started: 10,
        window_ms: 60_000,
        copy_ms: Some(5_000),
    };
    let estimate = |rules: Rules| {
        let waiting = explained(&rules, 100, 0, &file(FileState::Submitted, 3), Some(&pace)).unwrap();
        waiting.estimate
    };
    assert!(estimate(Rules { link: 1, ..OPEN }).is_some());
    assert_eq!(estimate(Rules { link: 0, ..OPEN }), None, "the limit of the link");
    assert_eq!(estimate(Rules { inbound: 0, ..OPEN }), None, "the limit of the storage");
    assert_eq!(estimate(Rules { is_held: true, ..OPEN }), None, "the storage is full");
}

proptest! {
    #[test]
    fn whatever_waits_has_a_reason(
        inbound in 0_u32..9, link in 0_u32..9, places in 0_u32..9, active in 0_u64..4, ahead in 0_u64..3,
        state in prop_oneof![Just(3_usize), 0..FileState::ALL.len()], gate in 0..9,
        retry_ms in prop::option::of(0_i64..60_000),
    ) {
        let (is_paused, is_banned, is_held) = (gate == 0, gate == 1, gate == 2);
        let rules = Rules { inbound, link, is_paused, is_banned, is_held };
        let state = FileState::ALL[state];
        let file = WaitingFile { retry_ms, ..file(state, ahead) };
        let waiting = explained(&rules, places, active, &file, None);
        let has_worker = matches!(state, FileState::Ready | FileState::Active | FileState::Archiving);
        prop_assert_eq!(waiting.is_none(), has_worker || state.is_terminal());
        if let Some(waiting) = waiting {
            prop_assert!(!waiting.reasons.is_empty());
            prop_assert!(waiting.reasons.iter().all(|reason| !reason.to_string().is_empty()));
        }
    }
}
