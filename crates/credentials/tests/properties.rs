//! Properties that must hold for every input.

use credentials::limits::MACAROON_CAVEATS_MAX;
use credentials::{
    Activities, Caveat, Grant, Macaroon, MacaroonKey, MacaroonRequest, attenuate, inspect, parse_duration_s,
    read_bearer,
};
use proptest::collection::vec;
use proptest::prelude::*;
use types::LogicalPath;

fn caveat() -> impl Strategy<Value = String> {
    let activity = prop::sample::subsequence(
        vec![
            "READ_METADATA",
            "LIST",
            "DOWNLOAD",
            "UPLOAD",
            "MANAGE",
            "DELETE",
            "STAGE",
            "UPDATE_METADATA",
        ],
        1..=8,
    );
    prop_oneof![
        activity.prop_map(|names| format!("activity:{}", names.join(","))),
        "(/[ab]{1,2}){1,3}".prop_map(|path| format!("path:{path}")),
        (0_i64..4_000_000_000).prop_map(|time_s| Caveat::Before(time_s).to_string()),
        (0_u64..1000).prop_map(|size_bytes| format!("max-upload:{size_bytes}")),
        (0_u8..4, 24_u8..=32).prop_map(|(host, bits)| format!("ip:192.0.2.{host}/{bits}")),
    ]
}

fn grant(macaroon: &Macaroon, key: &MacaroonKey) -> Grant {
    Grant::from_caveats(&macaroon.verify(key).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn decoders_take_any_bytes(bytes in vec(any::<u8>(), 0..300), text in ".{0,200}") {
        let keys = [MacaroonKey::new(b"k")];
        if let Ok(macaroon) = Macaroon::parse_binary(&bytes) {
            prop_assert!(macaroon.verify(&keys[0]).is_err());
        }
        prop_assert!(read_bearer(&text, &keys).is_err());
        let _ = (Caveat::parse(&text), MacaroonRequest::from_json(&bytes), MacaroonRequest::from_form(&bytes));
        let _ = (parse_duration_s(&text), inspect(&text, 0).to_string());
    }

    #[test]
    fn what_is_written_is_read(caveats in vec(caveat(), 0..8), identifier in "[a-z0-9-]{1,40}") {
        let key = MacaroonKey::new(b"k");
        let macaroon = Macaroon::mint(&key, "se", &identifier, caveats.iter().map(String::as_str)).unwrap();
        prop_assert_eq!(&Macaroon::parse(macaroon.to_text().expose()).unwrap(), &macaroon);
        prop_assert_eq!(&Macaroon::parse(macaroon.to_text_v2().expose()).unwrap(), &macaroon);
    }

    #[test]
    fn attenuation_never_widens(caveats in vec(caveat(), 0..6), more in caveat(), path in "(/[ab]{1,2}){0,4}") {
        let key = MacaroonKey::new(b"k");
        let mut macaroon = Macaroon::mint(&key, "se", "id", caveats.iter().map(String::as_str)).unwrap();
        let wide = grant(&macaroon, &key);
        macaroon.attenuate(&more).unwrap();
        let narrow = grant(&macaroon, &key);
        let path = LogicalPath::parse(&format!("/{path}")).unwrap();
        prop_assert!(wide.activities_on(&path).contains(narrow.activities_on(&path)));
        prop_assert!(narrow.expires_s.unwrap_or(i64::MAX) <= wide.expires_s.unwrap_or(i64::MAX));
        prop_assert!(narrow.max_upload_bytes.unwrap_or(u64::MAX) <= wide.max_upload_bytes.unwrap_or(u64::MAX));
        if let Ok(Caveat::Activity(only)) = Caveat::parse(&more) {
            prop_assert!(only.contains(narrow.activities_on(&path)));
        }
        if let Ok(Caveat::Path(only)) = Caveat::parse(&more) {
            prop_assert!(path.is_within(&only) || narrow.activities_on(&path) == Activities::NONE);
        }
    }

    #[test]
    fn what_its_holder_appends_only_narrows(
        caveats in vec(caveat(), 0..5),
        more in vec(caveat(), 1..4),
        path in "(/[ab]{1,2}){0,4}",
        host in 0_u8..8,
    ) {
        let key = MacaroonKey::new(b"k");
        let issued = ["name:jdoe"].into_iter().chain(caveats.iter().map(String::as_str));
        let macaroon = Macaroon::mint(&key, "se", "id", issued).unwrap();
        let restrictions: Vec<Caveat> = more.iter().map(|text| Caveat::parse(text).unwrap()).collect();
        let wide = grant(&macaroon, &key);
        let path = LogicalPath::parse(&format!("/{path}")).unwrap();
        let Ok(narrowed) = attenuate(&macaroon, &restrictions) else {
            // Refused only because nothing would be left.
            let mut by_hand = macaroon.clone();
            for text in &more {
                by_hand.attenuate(text).unwrap();
            }
            prop_assert!(grant(&by_hand, &key).scopes.is_empty());
            return Ok(());
        };
        let narrow = grant(&narrowed, &key);
        let alone = Grant::from_caveats(&restrictions).unwrap();
        let address = std::net::IpAddr::from([192, 0, 2, host]);
        for wider in [&wide, &alone] {
            prop_assert!(wider.activities_on(&path).contains(narrow.activities_on(&path)));
            // Any right below a path includes looking at it, so both count together.
            let reach = |grant: &Grant| grant.activities_on(&path).union(grant.activities_below(&path));
            prop_assert!(reach(wider).contains(reach(&narrow)));
            prop_assert!(narrow.expires_s.unwrap_or(i64::MAX) <= wider.expires_s.unwrap_or(i64::MAX));
            prop_assert!(narrow.max_upload_bytes.unwrap_or(u64::MAX) <= wider.max_upload_bytes.unwrap_or(u64::MAX));
            prop_assert!(wider.admits(address) || !narrow.admits(address));
        }
        prop_assert_eq!(narrow.subject, wide.subject);
    }
}

#[test]
fn only_restrictions_can_be_appended() {
    let key = MacaroonKey::new(b"k");
    let macaroon = Macaroon::mint(&key, "se", "id", ["path:/a"]).unwrap();
    for (text, words) in [
        ("name:root", "only the issuer"),
        ("id:0;0;root", "only the issuer"),
        ("path:/b", "nothing"),
    ] {
        let error = attenuate(&macaroon, &[Caveat::parse(text).unwrap()]).unwrap_err();
        assert!(error.public().contains(words), "{text}: {error}");
    }
    assert!(attenuate(&macaroon, &[]).is_err());
    let foreign = Macaroon::mint(&key, "se", "id", ["root:/x"]).unwrap();
    assert!(attenuate(&foreign, &[Caveat::parse("activity:LIST").unwrap()]).is_ok());
}

#[test]
fn limits_hold() {
    let key = MacaroonKey::new(b"k");
    let many = vec!["path:/a"; MACAROON_CAVEATS_MAX];
    let mut macaroon = Macaroon::mint(&key, "se", "id", many.iter().copied()).unwrap();
    assert!(macaroon.attenuate("path:/a").is_err());
    assert!(macaroon.verify(&key).is_ok(), "a refused caveat leaves it as it was");
    assert!(Macaroon::mint(&key, "se", "id", [format!("path:/{}", "x".repeat(20_000)).as_str()]).is_err());
    let json = format!(
        r#"{{"v":2,"i":"id","c":[{}],"s64":""}}"#,
        vec![r#"{"i":"path:/a"}"#; MACAROON_CAVEATS_MAX + 1].join(",")
    );
    assert!(Macaroon::parse(&json).unwrap_err().public().contains("more than"));
    assert!(
        Macaroon::parse(&"A".repeat(20_000))
            .unwrap_err()
            .public()
            .contains("longer")
    );
}
