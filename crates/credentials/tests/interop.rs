//! Serialisations made by another implementation (pymacaroons 0.13) with a known secret: they are
//! read and verified here, and written the same. Debian's libmacaroons 0.3.0, which XRootD uses,
//! gives the same version 1 text for the same input.

use credentials::{Caveat, Macaroon, MacaroonKey};
use types::ErrorCode;

const SECRET: &[u8] = b"this is the secret of the test vectors";
const CAVEATS: [&str; 4] = [
    "name:jdoe",
    "activity:READ_METADATA,UPLOAD,DELETE",
    "path:/data/up1",
    "before:2026-11-21T19:31:25Z",
];
const IDENTIFIER: &str = "73f8f211-bc0f-498a-885b-5f60cfd5b0b3";

const V1: &str = "MDAxM2xvY2F0aW9uIExBQl9iCjAwMzRpZGVudGlmaWVyIDczZjhmMjExLWJjMGYtNDk4YS04ODViLTVmNjBjZmQ1YjBiMwowMDEyY2lkIG5hbWU6amRvZQowMDJkY2lkIGFjdGl2aXR5OlJFQURfTUVUQURBVEEsVVBMT0FELERFTEVURQowMDE3Y2lkIHBhdGg6L2RhdGEvdXAxCjAwMjRjaWQgYmVmb3JlOjIwMjYtMTEtMjFUMTk6MzE6MjVaCjAwMmZzaWduYXR1cmUg7UBZSJ8iwP5DV1vofYhJN7rqKK6cvL4N75SMdPel6KAK";
const V2: &str = "AgEFTEFCX2ICJDczZjhmMjExLWJjMGYtNDk4YS04ODViLTVmNjBjZmQ1YjBiMwACCW5hbWU6amRvZQACJGFjdGl2aXR5OlJFQURfTUVUQURBVEEsVVBMT0FELERFTEVURQACDnBhdGg6L2RhdGEvdXAxAAIbYmVmb3JlOjIwMjYtMTEtMjFUMTk6MzE6MjVaAAAGIO1AWUifIsD-Q1db6H2ISTe66iiunLy-De-UjHT3peig";
const V2_JSON: &str = r#"{"i": "73f8f211-bc0f-498a-885b-5f60cfd5b0b3", "s64": "7UBZSJ8iwP5DV1vofYhJN7rqKK6cvL4N75SMdPel6KA", "l": "LAB_b", "c": [{"i": "name:jdoe"}, {"i": "activity:READ_METADATA,UPLOAD,DELETE"}, {"i": "path:/data/up1"}, {"i": "before:2026-11-21T19:31:25Z"}]}"#;
const THIRD_PARTY_V1: &str = "MDAxMGxvY2F0aW9uIHNlCjAwMTVpZGVudGlmaWVyIHRoaXJkCjAwMTJjaWQgcHJlZGljYXRlCjAwNTF2aWQgoM450CaeVrfg8G6Lbm0OfQuQY3exCk7WhWUeKK1I2o3ugVQi1E_A2_FhGL7QZehnLQgU1NfRHze5NgWtX5sg1H2nz3wVWoi1CjAwMjBjbCBodHRwczovL2F1dGguZXhhbXBsZS5vcmcKMDAyZnNpZ25hdHVyZSD_iOibQ7MS1CHmBDVqlX4YRxapUvxSN8xm_tnykjlo1wo";
const THIRD_PARTY_V2: &str = "AgECc2UCBXRoaXJkAAEYaHR0cHM6Ly9hdXRoLmV4YW1wbGUub3JnAglwcmVkaWNhdGUESI7Qz85DxS7vP7pLJN_jWrguy_6DzSZrp3boTAhn7_i4W4U308zKlLWngt9-VlF81JhmxbSCtKWgds1iTeYX5E1AD7OuFpEOMAAABiBOQdVTKvxEKLAL7z2M2Il3djDBltEU-rUX-AEXuzejIw";

fn ours() -> Macaroon {
    Macaroon::mint(&MacaroonKey::new(SECRET), "LAB_b", IDENTIFIER, CAVEATS).unwrap()
}

#[test]
fn each_serialisation_is_read_and_verified() {
    let key = MacaroonKey::new(SECRET);
    let padded = format!("{V2}==").replace('-', "+").replace('_', "/");
    for text in [V1, V2, V2_JSON, &padded[..V2.len() + (4 - V2.len() % 4) % 4]] {
        let macaroon = Macaroon::parse(text).unwrap();
        assert_eq!(macaroon, ours(), "{text}");
        let caveats: Vec<String> = macaroon.verify(&key).unwrap().iter().map(Caveat::to_string).collect();
        assert_eq!(caveats, CAVEATS);
        assert_eq!(
            (macaroon.location().as_str(), macaroon.identifier().as_str()),
            ("LAB_b", IDENTIFIER)
        );
    }
}

#[test]
fn ours_are_written_byte_by_byte_the_same() {
    assert_eq!(ours().to_text().expose(), V1);
    assert_eq!(ours().to_text_v2().expose(), V2);
}

#[test]
fn a_third_party_caveat_is_read_kept_and_never_satisfied() {
    for text in [THIRD_PARTY_V1, THIRD_PARTY_V2] {
        let macaroon = Macaroon::parse(text).unwrap();
        assert!(macaroon.caveats()[0].verification.is_some());
        let again = if text == THIRD_PARTY_V1 {
            macaroon.to_text()
        } else {
            macaroon.to_text_v2()
        };
        assert_eq!(again.expose(), text);
        let error = macaroon.verify(&MacaroonKey::new(SECRET)).unwrap_err();
        assert!(
            error.public().contains("third-party"),
            "the signature itself is right: {error}"
        );
    }
}

#[test]
fn any_change_breaks_the_signature() {
    let key = MacaroonKey::new(SECRET);
    assert_eq!(
        ours().verify(&MacaroonKey::new(b"other")).unwrap_err().code(),
        ErrorCode::InvalidToken
    );
    for (old, new) in [
        ("up1", "up2"),
        ("jdoe", "root"),
        (IDENTIFIER, "73f8f211"),
        ("2026", "2027"),
    ] {
        let forged = Macaroon::parse(&V2_JSON.replace(old, new)).unwrap();
        assert!(forged.verify(&key).unwrap_err().public().contains("signature"), "{old}");
    }
    let fewer = V2_JSON.replace(r#"{"i": "path:/data/up1"}, "#, "");
    assert!(Macaroon::parse(&fewer).unwrap().verify(&key).is_err());
    let elsewhere = Macaroon::parse(&V2_JSON.replace("LAB_b", "alias")).unwrap();
    assert!(elsewhere.verify(&key).is_ok(), "the location is a hint only");
}
