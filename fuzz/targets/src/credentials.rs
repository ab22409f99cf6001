//! Targets for what arrives in credentials and in requests for them.

use std::net::{IpAddr, Ipv4Addr};

use credentials::capability::{Audience, Capability, CapabilityUse, Holder, Presented};
use credentials::limits::MACAROON_CAVEATS_MAX;
use credentials::{Caveat, Grant, Macaroon, MacaroonKey, MacaroonRequest, SealingKey, parse_duration_s, read_bearer};
use types::limits::MACAROON_BYTES_MAX;
use types::{ErrorCode, LogicalPath};

/// Pieces of macaroons.
pub(crate) const MACAROON_WORDS: &[&str] = &[
    "MDAx",
    "AgE",
    "0011",
    "location ",
    "identifier ",
    "cid ",
    "vid ",
    "cl ",
    "signature ",
    "\n",
    "\u{2}",
    "\u{1}",
    "\0",
    "{\"v\":2,",
    "\"i\":",
    "\"i64\":",
    "\"c\":[",
    "\"s64\":\"\"",
    "}",
];

/// Pieces of caveats.
pub(crate) const CAVEAT_WORDS: &[&str] = &[
    "activity:",
    "path:/",
    "before:",
    "ip:",
    "max-upload:",
    "name:",
    "iid:",
    "id:",
    "LIST",
    "DOWNLOAD",
    ",",
    "::ffff:",
    "192.0.2.1",
    "/24",
    "2026-11-21T19:31:25",
    ".5",
    "Z",
    "0000-01-01",
];

/// Pieces of durations.
pub(crate) const DURATION_WORDS: &[&str] = &[
    "P",
    "T",
    "1",
    "W",
    "D",
    "H",
    "M",
    "S",
    "0.5",
    ",",
    "99999999999999999999",
];

/// Pieces of both forms of request.
pub(crate) const REQUEST_WORDS: &[&str] = &[
    "{\"caveats\":[",
    "\"activity:LIST\"",
    "\"validity\":\"PT1H\"",
    "]}",
    "grant_type=client_credentials",
    "&",
    "scope=",
    "scopes=",
    "expire_in=",
    "LIST:/a",
    "%3A",
    "%2F",
    "+",
    "..",
];

/// What is read as a macaroon, bare or in base64, is written and read again as the same, in both
/// versions, and is not taken for one of ours.
pub(crate) fn macaroon(data: &[u8]) {
    let from_text = std::str::from_utf8(data)
        .ok()
        .and_then(|text| Macaroon::parse(text).ok());
    let from_bytes = Macaroon::parse_binary(data)
        .ok()
        .filter(|_| data.len() <= MACAROON_BYTES_MAX / 2);
    for macaroon in from_text.into_iter().chain(from_bytes) {
        assert!(macaroon.caveats().len() <= MACAROON_CAVEATS_MAX);
        assert!(
            macaroon
                .verify(&MacaroonKey::new(b"a key that no input knows"))
                .is_err()
        );
        for text in [macaroon.to_text(), macaroon.to_text_v2()] {
            // One serialisation is longer than another and may pass the limit.
            if text.expose().len() <= MACAROON_BYTES_MAX {
                assert_eq!(Macaroon::parse(text.expose()).ok().as_ref(), Some(&macaroon));
            }
        }
    }
}

/// An accepted caveat is written in a form that means the same.
pub(crate) fn caveat(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(caveat) = Caveat::parse(text) else { return };
    let written = caveat.to_string();
    assert_eq!(Caveat::parse(&written).ok(), Some(caveat), "{written:?}");
}

/// Appended caveats, one a line, never widen a macaroon or change its subject.
pub(crate) fn macaroon_grant(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let key = MacaroonKey::new(b"fuzz");
    let mut caveats = vec!["name:ann", "path:/a", "activity:LIST,DOWNLOAD,UPLOAD"];
    let Some(before) = grant_of(&key, &caveats) else { return };
    caveats.extend(text.lines());
    let Some(after) = grant_of(&key, &caveats) else { return };
    assert_eq!(after.subject, before.subject);
    for scope in &after.scopes {
        assert!(
            before.activities_on(&scope.path).contains(scope.activities),
            "{scope:?}"
        );
    }
    for place in ["/", "/a", "/a/b", "/ab"] {
        let Ok(place) = LogicalPath::parse(place) else { return };
        assert!(before.activities_on(&place).contains(after.activities_on(&place)));
    }
}

/// What a macaroon of ours grants, by the way that a server takes.
fn grant_of(key: &MacaroonKey, caveats: &[&str]) -> Option<Grant> {
    let text = Macaroon::mint(key, "se", "id", caveats.iter().copied()).ok()?.to_text();
    match read_bearer(text.expose(), std::slice::from_ref(key)) {
        Ok(credential) => credential.grant().cloned(),
        Err(error) => {
            assert_eq!(error.code(), ErrorCode::InvalidToken);
            None
        }
    }
}

/// An accepted duration can be added to any time of this age.
pub(crate) fn duration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(duration_s) = parse_duration_s(text) {
        assert!(text.starts_with('P'));
        assert!(i64::try_from(duration_s).is_ok_and(|duration_s| duration_s < 4_000_000_000));
    }
}

/// Both forms give a lifetime above zero, and a form always names activities and a path.
pub(crate) fn macaroon_request(data: &[u8]) {
    if let Ok(request) = MacaroonRequest::from_json(data) {
        assert!(request.lifetime_s != Some(0) && request.path.is_none());
        assert!(request.restrictions.len() <= MACAROON_CAVEATS_MAX);
        assert!(
            !request
                .restrictions
                .iter()
                .any(|caveat| matches!(caveat, Caveat::Path(_) | Caveat::Name(_)))
        );
    }
    if let Ok(request) = MacaroonRequest::from_form(data) {
        assert!(request.lifetime_s != Some(0) && request.path.is_some());
        assert!(request.activities.is_some_and(|activities| !activities.is_empty()));
    }
}

/// A capability holds when it comes back as it was issued, and in no other form: the input is first
/// taken for one, and then changes a genuine one.
pub(crate) fn capability(data: &[u8]) {
    let (key, path) = (SealingKey::new(b"fuzz"), LogicalPath::root());
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let issued = Capability {
        usage: CapabilityUse::Write,
        address: Some(address),
        audience: Audience::life([1; 16]),
        issued_s: 0,
        expires_s: 60,
        max_bytes: 1,
        may_replace: false,
        may_read: false,
        holder: Holder::default(),
    };
    let presented = Presented {
        usage: CapabilityUse::Write,
        path: &path,
        address,
        now_s: 1,
        life: issued.audience,
        endpoint: None,
        started_s: 0,
    };
    let genuine = issued.seal(&key, [2; 16], &path).map(|text| text.expose().to_owned());
    let genuine = genuine.unwrap_or_default();
    let mut changed = genuine.clone().into_bytes();
    for (old, new) in changed.iter_mut().zip(data) {
        *old ^= new & 0x7f;
    }
    let texts = [
        String::from_utf8_lossy(data).into_owned(),
        String::from_utf8_lossy(&changed).into_owned(),
    ];
    for text in texts {
        match Capability::redeem(&text, &key, &presented) {
            Ok(redeemed) => {
                assert_eq!(text, genuine);
                assert_eq!(redeemed.capability, issued);
            }
            Err(error) => assert_eq!(error.code(), ErrorCode::CapabilityInvalid),
        }
    }
}
