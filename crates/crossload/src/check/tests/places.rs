//! Useless names, addresses, paths and directories.

use std::fs;

use super::{Case, Site, bad};
use crate::check::finding::Severity::{Error as Bad, Note, Warning};

const PLACES: [Case; 14] = [
    (
        "a trust directory without authorities",
        |site| {
            fs::create_dir(site.path("trust")).unwrap();
            site.configure(|text| text.to_owned() + "[x509]\ntrust_directory = \"trust\"\n");
        },
        &[(Bad, "client_authorities_none", Some(22))],
    ),
    (
        "a directory of authorities without any",
        |site| fs::remove_file(site.path("authorities/0a1b2c3d.0")).unwrap(),
        &[(Warning, "authority_directory_empty", Some(19))],
    ),
    (
        "unusable names",
        |site| {
            use std::os::unix::ffi::OsStrExt as _;
            fs::create_dir(site.path("data/inner")).unwrap();
            let odd = std::ffi::OsStr::from_bytes(b"data/inner/odd\xff");
            fs::write(site.directory.path().join(odd), "").unwrap();
        },
        &[(Warning, "names_unlisted", Some(10))],
    ),
    (
        "links that are dangling or leave the export",
        |site| {
            fs::write(site.path("data/f"), "").unwrap();
            for (target, name) in [("f", "good"), ("gone", "dead"), ("/etc/passwd", "out")] {
                std::os::unix::fs::symlink(target, site.path("data").join(name)).unwrap();
            }
        },
        &[(Warning, "links_unlisted", Some(10))],
    ),
    (
        "a name without a scheme",
        |site| site.configure(|text| text.replace("https://se.example.org", "se.example.org")),
        &[(Bad, "name_without_scheme", Some(3))],
    ),
    (
        "base paths of an issuer in no export",
        |site| {
            fs::write(site.path("keys"), "{}").unwrap();
            let more = "[[issuer]]\nurl = \"https://iam\"\njwks_file = \"keys\"\nbase_paths = [\"/data/in\", \"/dat\", \"/\"]\n";
            site.configure(|text| text.to_owned() + more);
        },
        &[(Warning, "issuer_path_outside", Some(24))],
    ),
    (
        "base paths of a scitokens.cfg in no export",
        |site| {
            let text = "[Issuer a]\nissuer = https://iam\nbase_path = /elsewhere\n";
            fs::write(site.path("scitokens.cfg"), text).unwrap();
            site.configure(|text| text.to_owned() + "[tokens]\nscitokens_file = \"scitokens.cfg\"\n");
        },
        &[(Warning, "issuer_path_outside", Some(22))],
    ),
    (
        "metrics where clients come",
        |site| site.configure(|text| text.replace("127.0.0.1:9090", "127.0.0.1:443")),
        &[(Bad, "address_twice", Some(6))],
    ),
    (
        "metrics at the very address",
        |site| {
            site.configure(|text| {
                let same = text.replace("127.0.0.1:9090", "127.0.0.1:9");
                same.replace("0.0.0.0:443", "127.0.0.1:9")
            })
        },
        &[(Bad, "address_twice", Some(6)), (Note, "loopback_only", Some(2))],
    ),
    (
        "the same address twice",
        |site| site.configure(|text| text.replace("[\"0.0.0.0:443\"]", "[\"0.0.0.0:443\", \"127.0.0.1:443\"]")),
        &[(Bad, "address_twice", Some(2))],
    ),
    (
        "an address that the host lacks",
        |site| site.configure(|text| text.replace("0.0.0.0:443", "203.0.113.77:443")),
        &[(Bad, "address_missing", Some(2))],
    ),
    (
        "an address for metrics that the host lacks",
        |site| site.configure(|text| text.replace("127.0.0.1:9090", "203.0.113.77:9090")),
        &[(Bad, "address_missing", Some(6)), (Warning, "admin_open", Some(6))],
    ),
    (
        "a VOMS directory without servers",
        |site| {
            fs::create_dir_all(site.path("vomsdir/atlas")).unwrap();
            fs::write(site.path("vomsdir/atlas/README"), "").unwrap();
            fs::write(site.path("vomsdir/atlas.lsc"), "").unwrap();
            site.configure(|text| text.to_owned() + "[x509]\nvoms_directory = \"vomsdir\"\n");
        },
        &[(Warning, "voms_directory_empty", Some(22))],
    ),
    (
        "a VOMS directory with one",
        |site| {
            fs::create_dir_all(site.path("vomsdir/atlas")).unwrap();
            fs::write(site.path("vomsdir/atlas/voms.example.org.lsc"), "").unwrap();
            site.configure(|text| text.to_owned() + "[x509]\nvoms_directory = \"vomsdir\"\n");
        },
        &[],
    ),
];

#[test]
fn useless_places_are_found() {
    for (what, change, expected) in PLACES {
        let site = Site::new();
        change(&site);
        let findings = site.findings();
        assert_eq!(bad(&findings), expected, "{what}: {findings:#?}");
    }
}

#[test]
fn the_walk_through_names_ends_early_and_says_so() {
    use crate::check::finding::Position;
    use crate::check::unlisted::{Budget, check};
    let site = Site::new();
    for name in 0..20 {
        fs::write(site.path("data").join(name.to_string()), "").unwrap();
    }
    let position = Position {
        file: String::new(),
        line: None,
        key: String::new(),
    };
    let look = |entries, seconds| {
        let mut budget = Budget::new(entries, std::time::Duration::from_secs(seconds));
        let found = check(&site.path("data"), &position, &mut budget);
        found.into_iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert_eq!(look(20, 600), [""; 0]);
    assert_eq!(look(19, 600), ["names_not_all_seen"]);
    assert_eq!(look(20, 0), ["names_not_all_seen"]);
}
