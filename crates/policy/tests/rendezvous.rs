//! Keys of third-party copies: each is good for one file, one host, one client, once, for seconds.

use std::time::Duration;

use policy::limits::TPC_KEY_BYTES_MAX;
use policy::rendezvous::{Claim, NamedHost, Offer, OfferRefusal, Origin, Rendezvous, SeenHost, Verdict};
use proptest::prelude::*;
use types::LogicalPath;

const LIFETIME: Duration = Duration::from_secs(10);

fn seen(address: &str) -> SeenHost {
    SeenHost::new(address.parse().unwrap(), None)
}

fn named(name: &str) -> NamedHost {
    NamedHost::new(name, [])
}

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

fn offer(key: &str) -> Offer {
    Offer {
        key: key.to_owned(),
        path: path("/data/f"),
        user: "ann.12".to_owned(),
        destination: named("192.0.2.2"),
        lifetime: LIFETIME,
    }
}

/// A claim of key `k`, told by its path, user and destination.
fn claim(table: &mut Rendezvous, who: [&str; 3], now: Duration) -> Verdict {
    let claim = Claim {
        key: "k",
        path: &path(who[0]),
        user: who[1],
        destination: &seen(who[2]),
    };
    table.claim(&claim, now)
}

const RIGHT: [&str; 3] = ["/data/f", "ann.12", "192.0.2.2"];

#[test]
fn a_key_is_used_once() {
    let mut table = Rendezvous::new(4);
    assert_eq!(claim(&mut table, RIGHT, Duration::ZERO), Verdict::Unknown);
    table.register(offer("k"), (), Duration::ZERO).unwrap();
    assert_eq!(claim(&mut table, RIGHT, Duration::ZERO), Verdict::Granted);
    assert_eq!(claim(&mut table, RIGHT, Duration::ZERO), Verdict::Expired);
    assert_eq!(
        table.register(offer("k"), (), Duration::ZERO),
        Err(OfferRefusal::Duplicate)
    );
}

#[test]
fn a_key_expires_and_is_forgotten_later() {
    let mut table = Rendezvous::new(4);
    table.register(offer("k"), (), Duration::from_secs(5)).unwrap();
    assert_eq!(claim(&mut table, RIGHT, Duration::from_secs(15)), Verdict::Expired);
    assert_eq!(claim(&mut table, RIGHT, Duration::from_secs(25)), Verdict::Unknown);
    assert!(table.is_empty());
    table.register(offer("k"), (), Duration::from_secs(25)).unwrap();
    assert_eq!(
        claim(&mut table, RIGHT, Duration::from_millis(34_999)),
        Verdict::Granted
    );
}

#[test]
fn a_key_is_bound_to_everything_it_was_registered_with_and_a_wrong_claim_does_not_spend_it() {
    let mut table = Rendezvous::new(4);
    table.register(offer("k"), (), Duration::ZERO).unwrap();
    for (part, wrong) in ["/data/g", "ann.13", "192.0.2.1"].iter().enumerate() {
        let mut who = RIGHT;
        who[part] = wrong;
        assert_eq!(claim(&mut table, who, Duration::ZERO), Verdict::Refused, "{wrong}");
    }
    assert_eq!(claim(&mut table, RIGHT, Duration::ZERO), Verdict::Granted);
}

#[test]
fn a_key_can_be_taken_back() {
    let mut table = Rendezvous::new(4);
    table.register(offer("k"), (), Duration::ZERO).unwrap();
    table.withdraw("k");
    table.withdraw("another");
    assert_eq!(claim(&mut table, RIGHT, Duration::ZERO), Verdict::Expired);
}

#[test]
fn there_are_only_so_many_keys_and_none_of_any_length() {
    let mut table = Rendezvous::new(2);
    for key in ["a", "b"] {
        table.register(offer(key), (), Duration::ZERO).unwrap();
    }
    assert_eq!(table.register(offer("c"), (), Duration::ZERO), Err(OfferRefusal::Full));
    assert_eq!(table.register(offer("c"), (), 2 * LIFETIME), Ok(()));
    assert_eq!(table.len(), 1);
    let long = "k".repeat(TPC_KEY_BYTES_MAX + 1);
    for key in ["", &long] {
        assert_eq!(table.register(offer(key), (), 2 * LIFETIME), Err(OfferRefusal::BadKey));
    }
    assert_eq!(format!("{table:?}"), "Rendezvous(1 keys)");
}

#[test]
fn origins_are_a_user_and_a_host() {
    let origin = Origin::parse("a@b.12@[::1]").unwrap();
    assert_eq!((origin.user.as_str(), origin.host.as_str()), ("a@b.12", "[::1]"));
    assert_eq!(origin.to_string(), "a@b.12@[::1]");
    for bad in ["", "@", "ann.12", "ann.12@", "@host", &"a@".repeat(400)] {
        assert_eq!(Origin::parse(bad), None, "{bad}");
    }
}

proptest! {
    /// Whatever happens in whatever order, no key is granted twice without being registered twice,
    /// none after its time, and the table stays within its capacity.
    #[test]
    fn no_key_is_granted_more_often_than_registered(
        steps in proptest::collection::vec((0_u8..3, 0_u64..8, 0_u64..4), 1..60),
    ) {
        let mut table = Rendezvous::new(3);
        let mut now = Duration::ZERO;
        let mut valid_until = [None::<Duration>; 4];
        for (what, wait, which) in steps {
            now += Duration::from_secs(wait);
            let key = format!("k{which}");
            let until = &mut valid_until[usize::try_from(which).unwrap()];
            match what {
                0 => if table.register(offer(&key), (), now).is_ok() { *until = Some(now + LIFETIME) },
                1 => {
                    let claim = Claim {
                        key: &key,
                        path: &path("/data/f"),
                        user: "ann.12",
                        destination: &seen("192.0.2.2"),
                    };
                    let granted = table.claim(&claim, now) == Verdict::Granted;
                    prop_assert_eq!(granted, until.is_some_and(|end| now < end));
                    if granted { *until = None; }
                }
                _ => { table.withdraw(&key); *until = None; }
            }
            prop_assert!(table.len() <= 3);
        }
    }
}
