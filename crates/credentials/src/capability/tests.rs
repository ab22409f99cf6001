//! What a capability is good for, and what not.

use super::*;

const ALL: [CapabilityUse; 5] = [
    CapabilityUse::Read,
    CapabilityUse::Look,
    CapabilityUse::Write,
    CapabilityUse::Update,
    CapabilityUse::ChangeMode,
];

fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn capability(usage: CapabilityUse) -> Capability {
    Capability {
        usage,
        address: Some(address("192.0.2.7")),
        audience: Audience::life([3; 16]),
        issued_s: 1000,
        expires_s: 1060,
        max_bytes: 500,
        may_replace: true,
        may_read: false,
        holder: Holder {
            kind: "certificate".into(),
            subject: Some("/DC=test/CN=Jane Doe".into()),
            token_id: None,
            user: Some("jdoe".into()),
            vo: None,
        },
    }
}

fn presented(path: &LogicalPath, usage: CapabilityUse) -> Presented<'_> {
    Presented {
        usage,
        path,
        address: address("::ffff:192.0.2.7"),
        now_s: 1010,
        life: Audience::life([3; 16]),
        endpoint: None,
        started_s: 0,
    }
}

fn code(result: Result<Redeemed, Error>) -> Option<ErrorCode> {
    result.err().map(|error| error.code())
}

#[test]
fn what_was_issued_comes_back_and_says_nothing_on_the_way() {
    let (key, file) = (SealingKey::new(b"key"), path("/data/f"));
    for usage in ALL {
        for bound in [Some(address("2001:db8::1")), None, Some(address("192.0.2.7"))] {
            let issued = Capability {
                address: bound,
                may_read: usage == CapabilityUse::Update,
                ..capability(usage)
            };
            let text = issued.seal(&key, [9; 16], &file).unwrap();
            assert!(
                text.expose()
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            );
            let from = Presented {
                address: bound.unwrap_or(address("203.0.113.1")),
                ..presented(&file, usage)
            };
            let redeemed = Capability::redeem(text.expose(), &key, &from).unwrap();
            assert_eq!((redeemed.capability, redeemed.id), (issued, [9; 16]));
        }
    }
}

#[test]
fn each_mismatch_has_its_own_code() {
    let (key, file) = (SealingKey::new(b"key"), path("/data/f"));
    let text = capability(CapabilityUse::Write).seal(&key, [9; 16], &file).unwrap();
    let good = presented(&file, CapabilityUse::Write);
    let redeem = |presented: Presented<'_>| code(Capability::redeem(text.expose(), &key, &presented));
    assert_eq!(redeem(good), None);
    let invalid = Some(ErrorCode::CapabilityInvalid);
    let other = path("/data/f2");
    assert_eq!(redeem(Presented { path: &other, ..good }), invalid);
    assert_eq!(redeem(presented(&file, CapabilityUse::Read)), invalid);
    let life = Audience::life([4; 16]);
    assert_eq!(redeem(Presented { life, ..good }), invalid, "started again");
    let from = address("192.0.2.8");
    assert_eq!(
        redeem(Presented { address: from, ..good }),
        Some(ErrorCode::CapabilityAddress)
    );
    assert_eq!(redeem(Presented { now_s: 1059, ..good }), None);
    assert_eq!(
        redeem(Presented { now_s: 1060, ..good }),
        Some(ErrorCode::CapabilityExpired)
    );
    assert_eq!(redeem(Presented { now_s: 900, ..good }), invalid, "from the future");
    assert_eq!(
        code(Capability::redeem(text.expose(), &SealingKey::new(b"k2"), &good)),
        invalid
    );
    for text in ["", "A", "!!", "AQ", &"A".repeat(CAPABILITY_BYTES_MAX + 1)] {
        assert_eq!(code(Capability::redeem(text, &key, &good)), invalid, "{text:.10}");
    }
}

#[test]
fn each_use_is_one_operation_at_one_door() {
    let (key, file) = (SealingKey::new(b"key"), path("/data/f"));
    let door = Audience::xrootd_door("D1.example.org", 1094);
    assert_eq!(door, Audience::xrootd_door("d1.example.org", 1094));
    let others = [
        Audience::xrootd_door("d1.example.org", 1095),
        Audience::xrootd_door("d2.example.org", 1094),
        Audience::endpoint("root://d1.example.org:1094"),
        Audience::endpoint("https://d1.example.org:1094"),
    ];
    for issued in ALL {
        let sealed = Capability {
            audience: door,
            ..capability(issued)
        };
        let text = sealed.seal(&key, [9; 16], &file).unwrap();
        let redeem = |usage, endpoint| {
            let there = Presented {
                endpoint: Some(endpoint),
                ..presented(&file, usage)
            };
            code(Capability::redeem(text.expose(), &key, &there))
        };
        for usage in ALL {
            let serves = usage == issued || (issued, usage) == (CapabilityUse::Read, CapabilityUse::Look);
            let expected = (!serves).then_some(ErrorCode::CapabilityInvalid);
            assert_eq!(redeem(usage, door), expected, "{issued:?} {usage:?}");
        }
        for other in others {
            assert_eq!(redeem(issued, other), Some(ErrorCode::CapabilityInvalid));
        }
    }
}

#[test]
fn an_endpoint_that_was_started_again_honours_no_older_one_for_writing() {
    let (key, file) = (SealingKey::new(b"key"), path("/data/f"));
    let here = Audience::endpoint("http://Disk1.example.org:1080/");
    assert_eq!(here, Audience::endpoint("http://disk1.example.org:1080"));
    let at = |usage, started_s, endpoint| {
        let issued = Capability {
            audience: here,
            ..capability(usage)
        };
        let text = issued.seal(&key, [9; 16], &file).unwrap();
        let there = Presented {
            life: Audience::life([8; 16]),
            endpoint,
            started_s,
            ..presented(&file, usage)
        };
        code(Capability::redeem(text.expose(), &key, &there))
    };
    assert_eq!(at(CapabilityUse::Write, 0, Some(here)), None);
    assert_eq!(at(CapabilityUse::Write, 1005, Some(here)), Some(ErrorCode::JustStarted));
    let just_before = 1000 - CAPABILITY_CLOCK_SKEW_S;
    assert_eq!(
        at(CapabilityUse::Write, just_before, Some(here)),
        Some(ErrorCode::JustStarted),
        "clocks differ"
    );
    assert_eq!(at(CapabilityUse::Write, just_before - 1, Some(here)), None);
    assert_eq!(
        at(CapabilityUse::Read, 1005, Some(here)),
        None,
        "reading again does no harm"
    );
    let elsewhere = Audience::endpoint("http://disk2.example.org:1080");
    assert_eq!(
        at(CapabilityUse::Read, 0, Some(elsewhere)),
        Some(ErrorCode::CapabilityInvalid)
    );
    assert_eq!(at(CapabilityUse::Read, 0, None), Some(ErrorCode::CapabilityInvalid));
}

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

#[test]
fn writing_counts_once_and_reading_does_not() {
    let redeemed = |id: u8, usage| Redeemed {
        capability: capability(usage),
        id: [id; 16],
    };
    let mut used = UsedCapabilities::default();
    let write = redeemed(1, CapabilityUse::Write);
    assert!(used.note(&write, HERE, 1010).is_ok());
    assert_eq!(
        used.note(&write, HERE, 1020).unwrap_err().code(),
        ErrorCode::CapabilityUsed
    );
    let read = redeemed(2, CapabilityUse::Read);
    assert!(used.note(&read, HERE, 1010).is_ok() && used.note(&read, HERE, 1010).is_ok());
    assert_eq!(used.len(), 1);
    for (id, usage) in [(4, CapabilityUse::Update), (5, CapabilityUse::ChangeMode)] {
        assert!(used.note(&redeemed(id, usage), HERE, 1010).is_ok());
        assert!(used.note(&redeemed(id, usage), HERE, 1010).is_err(), "{usage:?}");
    }
    assert!(used.note(&redeemed(3, CapabilityUse::Write), HERE, 1060).is_ok());
    assert_eq!(used.len(), 1, "what has expired need not be remembered");
}

/// One for writing that was used, with this number.
fn used_one(number: usize, expires_s: i64, subject: Option<&str>) -> Redeemed {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    let mut capability = capability(CapabilityUse::Write);
    capability.expires_s = expires_s;
    capability.holder.subject = subject.map(str::to_owned);
    Redeemed { capability, id }
}

#[test]
fn while_the_memory_is_full_nothing_is_honoured() {
    let mut used = UsedCapabilities::bounded(100, 100);
    for number in 0..100 {
        used.note(&used_one(number, 1060, None), HERE, 1010).unwrap();
    }
    let late = used_one(100, 1100, Some("another"));
    let code = |noted: Result<(), Error>| noted.unwrap_err().code();
    assert_eq!(code(used.note(&late, HERE, 1010)), ErrorCode::Overloaded);
    let again = used_one(0, 1060, None);
    assert_eq!(code(used.note(&again, HERE, 1010)), ErrorCode::CapabilityUsed);
    assert!(used.note(&late, HERE, 1061).is_ok());
    assert_eq!(used.len(), 1);
}

#[test]
fn a_use_without_effect_leaves_nothing_behind() {
    let mut used = UsedCapabilities::bounded(2, 2);
    let (first, second) = (used_one(1, 1060, None), used_one(2, 1060, None));
    used.note(&second, HERE, 1010).unwrap();
    for _ in 0..3 {
        used.note(&first, HERE, 1010).unwrap();
        used.give_back(&first);
        // Twice is no harm, and one for reading was not noted.
        used.give_back(&first);
    }
    assert_eq!(used.len(), 1);
    let code = |noted: Result<(), Error>| noted.unwrap_err().code();
    assert_eq!(code(used.note(&second, HERE, 1010)), ErrorCode::CapabilityUsed);
    used.note(&first, HERE, 1010).unwrap();
    assert_eq!(
        code(used.note(&used_one(3, 1060, None), HERE, 1010)),
        ErrorCode::Overloaded
    );
}

#[test]
fn one_client_does_not_fill_the_memory() {
    let mut used = UsedCapabilities::bounded(100, 10);
    let mut numbers = 0..;
    let mut note = |subject, from: &str, now_s| {
        let one = used_one(numbers.next().unwrap(), now_s + 50, subject);
        used.note(&one, address(from), now_s).err().map(|error| error.code())
    };
    // The same holder at many addresses, and many addresses of one host.
    for number in 0..12 {
        let expected = (number >= 10).then_some(ErrorCode::Overloaded);
        assert_eq!(note(Some("Jane"), &format!("192.0.2.{number}"), 1010), expected);
        assert_eq!(note(None, &format!("2001:db8::{number}"), 1010), expected);
        assert_eq!(note(None, "::ffff:192.0.2.1", 1010), expected);
    }
    for (subject, from) in [
        (Some("Joe"), "192.0.2.1"),
        (None, "2001:db8:0:1::1"),
        (None, "192.0.2.2"),
    ] {
        assert_eq!(note(subject, from, 1010), None);
    }
    for _ in 0..10 {
        assert_eq!(note(Some("Jane"), "192.0.2.1", 1060), None, "the others have expired");
    }
}

#[test]
fn any_bytes_may_be_decoded() {
    let bytes = capability(CapabilityUse::Write).encode();
    assert_eq!(Capability::decode(&bytes), Some(capability(CapabilityUse::Write)));
    for cut in 0..bytes.len() {
        assert_eq!(Capability::decode(&bytes[..cut]), None);
    }
}

#[test]
fn links_are_followed_only_where_the_issuer_has_checked_them() {
    let (key, file) = (SealingKey::new(b"key"), path("/data/f"));
    let there = Audience::endpoint("https://d1.example.org:1094");
    assert!(Audience::life([1; 16]).follows_links());
    for (audience, follows) in [(there, false), (there.after_checking_links(), true)] {
        let issued = Capability {
            audience,
            ..capability(CapabilityUse::Read)
        };
        let text = issued.seal(&key, [9; 16], &file).unwrap();
        let there = Presented {
            endpoint: Some(there),
            ..presented(&file, CapabilityUse::Read)
        };
        let redeemed = Capability::redeem(text.expose(), &key, &there).unwrap();
        assert_eq!(redeemed.capability.audience.follows_links(), follows);
    }
}
