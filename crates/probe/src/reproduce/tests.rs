//! Lines for places, credentials and authorities of every kind.

use super::*;

const DIRECTORY: &str = "/etc/grid-security/certificates";

fn place(text: &str) -> Location {
    Location::parse(text).unwrap()
}

fn file(path: &str, key: Option<&str>) -> CredentialFile {
    CredentialFile {
        path: path.to_owned(),
        key: key.map(str::to_owned),
    }
}

fn files(paths: &[&str]) -> Trust {
    Trust {
        files: paths.iter().map(|path| (*path).to_owned()).collect(),
        ..Trust::default()
    }
}

fn in_directory() -> Trust {
    Trust {
        directory: Some(DIRECTORY.to_owned()),
        ..Trust::default()
    }
}

fn context<'a>(trust: &'a Trust, kind: Kind, certificate: Option<&'a CredentialFile>) -> Context<'a> {
    let shown = Shown { kind, certificate };
    Context {
        trust,
        shown,
        base: shown,
        token: None,
        macaroon_of: None,
        address: None,
    }
}

#[test]
fn commands_are_complete_and_name_secrets_by_variables() {
    let (trust, proxy) = (in_directory(), file("/tmp/my proxy", None));
    let file = place("davs://se.example.org/data/f g");
    let context = Context {
        shown: Shown {
            kind: Kind::Macaroon,
            certificate: Some(&proxy),
        },
        macaroon_of: Some(&file),
        address: Some("2001:db8::1".parse().unwrap()),
        ..context(&trust, Kind::Proxy, Some(&proxy))
    };
    let lines = context.upload(&file);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].starts_with("MACAROON=$(curl ")
            && lines[0].contains(" --cert '/tmp/my proxy' --key '/tmp/my proxy' ")
            && lines[0].ends_with("| jq -r .macaroon)"),
        "{lines:?}"
    );
    for words in [
        "--capath /etc/grid-security/certificates",
        "--connect-to 'se.example.org:443:[2001:db8::1]:443'",
        "-H \"Authorization: Bearer $MACAROON\"",
        "-T /bin/bash https://se.example.org/data/f%20g",
    ] {
        assert!(lines[1].contains(words), "{words} is not in {}", lines[1]);
    }
    assert!(!lines[1].contains("--cert "), "{lines:?}");
    let copy = context.copy(&file, "Source", &place("https://other/x?y='z'"), Some("bearer"));
    assert_eq!(copy.len(), 3, "{copy:?}");
    assert!(
        copy[2].contains("-H \"TransferHeaderAuthorization: bearer $THEIRS\""),
        "{copy:?}"
    );
}

#[test]
fn our_client_trusts_what_the_run_does() {
    let trust = files(&["/ca.pem"]);
    let context = context(&trust, Kind::Keys, None);
    let file = place("s3s://s/b/f");
    let lines = [
        context.connect(&file),
        context.upload(&file),
        context.download(&file),
        context.size(&file),
        context.delete(&file),
    ];
    assert_eq!(
        lines.concat(),
        [
            "crossload stat --cacert /ca.pem s3s://s/b/f",
            "crossload copy --force /bin/bash --cacert /ca.pem s3s://s/b/f",
            "crossload copy --force --cacert /ca.pem s3s://s/b/f /dev/null",
            "crossload stat --cacert /ca.pem s3s://s/b/f",
            "crossload rm --cacert /ca.pem s3s://s/b/f",
        ]
    );
}

#[test]
fn the_xrootd_protocol_has_its_own_programs() {
    let (none, directory) = (Trust::default(), in_directory());
    let target = place("roots://se:1095//data/f");
    let with_token = context(&none, Kind::Token, None);
    assert_eq!(
        with_token.checksum(&target, "adler32", false),
        ["BEARER_TOKEN=\"$TOKEN\" xrdfs roots://se:1095 query checksum '/data/f?cks.type=adler32'"]
    );
    assert_eq!(
        with_token.copy(&target, "Source", &place("root://other//g"), None),
        ["BEARER_TOKEN=\"$TOKEN\" xrdcp --force --tpc only root://other//g roots://se:1095//data/f"]
    );
    let proxy = file("/p.pem", None);
    let with_proxy = context(&directory, Kind::Proxy, Some(&proxy));
    assert_eq!(
        with_proxy.upload(&target),
        [format!(
            "X509_CERT_DIR={DIRECTORY} X509_USER_PROXY=/p.pem xrdcp --force /bin/bash roots://se:1095//data/f"
        )]
    );
    assert_eq!(
        with_proxy.connect(&place("root://se//data")),
        [format!(
            "X509_CERT_DIR={DIRECTORY} X509_USER_PROXY=/p.pem xrdfs root://se:1094 query config version"
        )]
    );
}

/// All lines for a place of the XRootD protocol.
fn root_lines(context: &Context<'_>) -> Vec<String> {
    let (file, other) = (place("roots://se//data/f"), place("root://other//g"));
    [
        context.connect(&file),
        context.upload(&file),
        context.download(&file),
        context.size(&file),
        context.checksum(&file, "adler32,md5", false),
        context.delete(&file),
        context.copy(&file, "Destination", &other, None),
        context.lite_copy(&other, &file),
    ]
    .concat()
}

#[test]
fn what_xrootds_programs_cannot_be_told_is_a_line_of_our_client() {
    let (mut trust, apart) = (files(&["/ca.pem", "/o ca.pem"]), file("/c.pem", Some("/k.pem")));
    trust.directory = Some("/certificates".to_owned());
    let how = "--cacert /ca.pem --cacert '/o ca.pem' --capath /certificates --cert /c.pem --key /k.pem";
    assert_eq!(
        root_lines(&context(&trust, Kind::Proxy, Some(&apart))),
        [
            format!("crossload stat {how} roots://se//data/f"),
            format!("crossload copy --force /bin/bash {how} roots://se//data/f"),
            format!("crossload copy --force {how} roots://se//data/f /dev/null"),
            format!("crossload stat {how} roots://se//data/f"),
            format!("crossload sum --algorithm adler32 {how} roots://se//data/f"),
            format!("crossload rm {how} roots://se//data/f"),
            format!("crossload copy --force --mode pull {how} roots://se//data/f root://other//g"),
            format!("crossload copy --force --mode pull --delegate=only {how} root://other//g roots://se//data/f"),
        ]
    );
    // Each of these alone is enough.
    let (proxy, insecure) = (
        file("/p.pem", None),
        Trust {
            insecure: true,
            ..Trust::default()
        },
    );
    let is_ours = |line: &String| line.contains("crossload ");
    let (one, directory) = (files(&["/ca.pem"]), in_directory());
    assert!(
        root_lines(&context(&one, Kind::Proxy, Some(&proxy)))
            .iter()
            .all(is_ours)
    );
    assert!(
        root_lines(&context(&directory, Kind::Proxy, Some(&apart)))
            .iter()
            .all(is_ours)
    );
    assert!(
        !root_lines(&context(&directory, Kind::Proxy, Some(&proxy)))
            .iter()
            .any(is_ours)
    );
    // Another credential than the certificate is shown.
    let lines = root_lines(&context(&one, Kind::Token, Some(&apart)));
    let shows = |line: &String| line.starts_with("BEARER_TOKEN=\"$TOKEN\" crossload ") && !line.contains("--cert");
    assert!(lines.iter().all(shows), "{lines:#?}");
    // A proxy is for verified servers only.
    let lines = root_lines(&context(&insecure, Kind::Proxy, Some(&proxy)));
    let (lite, others) = lines.split_last().unwrap();
    let skips = |line: &String| is_ours(line) && line.contains(" --insecure ");
    assert!(others.iter().all(skips), "{others:#?}");
    assert!(lite.starts_with("X509_USER_PROXY=/p.pem xrdcp "), "{lite}");
}

#[test]
fn curl_is_told_of_all_authorities_and_of_a_key_in_another_file() {
    let (trust, apart) = (files(&["/ca.pem", "/o ca.pem"]), file("/c.pem", Some("/k.pem")));
    let lines = context(&trust, Kind::Proxy, Some(&apart)).size(&place("https://se/f"));
    assert_eq!(
        lines,
        [
            "cat /ca.pem '/o ca.pem' | curl --fail-with-body --silent --show-error --location \
          --cacert /dev/stdin --cert /c.pem --key /k.pem --head https://se/f"
        ]
    );
    let plain = context(&trust, Kind::Anonymous, None).size(&place("http://se/f"));
    assert!(
        plain[0].starts_with("curl ") && !plain[0].contains("cacert"),
        "{plain:?}"
    );
    let unknown = context(&trust, Kind::Proxy, None).size(&place("https://se/f"));
    let variable = "--cert \"$X509_USER_PROXY\" --key \"$X509_USER_PROXY\"";
    assert!(unknown[0].contains(variable), "{unknown:?}");
}

#[test]
fn a_token_is_read_from_its_file() {
    const READ: &str = "TOKEN=$(cat '/my token')";
    let (trust, token) = (Trust::default(), file("/my token", None));
    let (target, other) = (place("https://se/f"), place("https://other/g"));
    let by_token = Context {
        token: Some(&token),
        ..context(&trust, Kind::Token, None)
    };
    assert_eq!(
        by_token.size(&place("root://se//f")),
        [READ, "BEARER_TOKEN=\"$TOKEN\" xrdfs root://se:1094 stat /f"]
    );
    let copy = by_token.copy(&target, "Source", &other, Some("Bearer"));
    assert!(copy.len() == 2 && copy[0] == READ, "{copy:#?}");
    let with = |kind| Context {
        shown: Shown {
            kind,
            certificate: None,
        },
        macaroon_of: Some(&target),
        ..by_token
    };
    let deleted = with(Kind::Macaroon).delete(&target);
    assert!(deleted.len() == 3 && deleted[0] == READ, "{deleted:#?}");
    assert!(deleted[1].starts_with("MACAROON=$(curl "), "{deleted:#?}");
    // It is not shown, but handed over.
    assert_eq!(with(Kind::Anonymous).delete(&target).len(), 1);
    let copy = with(Kind::Anonymous).copy(&target, "Source", &other, Some("Bearer"));
    assert!(copy.len() == 2 && copy[0] == READ, "{copy:#?}");
}
