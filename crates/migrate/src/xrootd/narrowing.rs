//! Tests: a line that only takes rights away, or that is unknown, leaves nothing open.

use std::path::PathBuf;

use super::migrate;
use crate::files::InMemory;
use crate::remark::Remark;
use crate::system::Order;

/// Rules and exports of a configuration, and its remarks. Its `authdb` lets everyone read.
fn migrated(lines: &[&str]) -> (String, String) {
    let files = InMemory::default()
        .with("/x.cfg", &format!("{}\n", lines.join("\n")))
        .with("/authdb", "u * /data rl\n")
        .with(
            "/scitokens.cfg",
            "[Issuer a]\nissuer = https://a.example/\nbase_path = /a\n",
        );
    let order = Order {
        files: vec![PathBuf::from("/x.cfg")],
        host: "d1.example.org".to_owned(),
        ..Order::default()
    };
    let migration = migrate(&order, &files).expect("the file");
    let remarks: Vec<String> = migration.remarks.iter().map(Remark::line).collect();
    (migration.documents[0].render("/x.cfg"), remarks.join("\n"))
}

#[test]
fn the_host_with_the_strictest_methods_decides() {
    for lines in [
        &["sec.protocol gsi", "sec.protbind wn1.example.org only host"][..],
        &["sec.protocol gsi", "sec.protbind wn1.example.org only none"],
        &["sec.protocol gsi", "sec.protbind wn1.example.org none"],
        &["sec.protocol gsi", "sec.protocol host", "sec.protbind wn1* only gsi"],
        &["sec.protocol gsi", "sec.protbind wn1* only gsi", "sec.protbind * none"],
        &["sec.protocol gsi", "sec.protbind * none", "sec.protbind * only gsi"],
    ] {
        let lines: Vec<&str> = ["all.export /data"].iter().chain(lines).copied().collect();
        let (result, remarks) = migrated(&lines);
        assert!(!result.contains("anonymous"), "{lines:?}: {result}");
        assert!(!result.contains("anyone"), "{lines:?}: {result}");
        assert!(result.contains("who = [\"authenticated\"]"), "{lines:?}: {result}");
        assert!(remarks.contains("in part"), "{lines:?}: {remarks}");
        // With an authdb, everyone is everyone with a credential.
        let judged: Vec<&str> = lines
            .iter()
            .copied()
            .chain(["ofs.authorize", "acc.authdb /authdb"])
            .collect();
        let (result, _) = migrated(&judged);
        assert!(!result.contains("anyone"), "{lines:?}: {result}");
    }
    // Another instance, whose name may be this one's.
    let (result, remarks) = migrated(&["all.export /data", "if named other", "sec.protocol gsi", "fi"]);
    assert!(
        !result.contains("anonymous") && !result.contains("[[rule]]"),
        "{result}"
    );
    assert!(remarks.contains("not everyone may do everything"), "{remarks}");
    for lines in [
        &["all.export /data", "sec.protocol gsi", "sec.protbind * none"][..],
        &["all.export /data", "sec.protocol unix", "sec.protbind wn1* none"],
        &["all.export /data"],
    ] {
        let (result, _) = migrated(lines);
        assert!(result.contains("anonymous = \"write\""), "{lines:?}: {result}");
    }
}

/// A server over the `authdb` where everyone may read.
fn judged(lines: &[&str]) -> (String, String) {
    let usual = ["all.export /data", "ofs.authorize", "acc.authdb /authdb"];
    let lines: Vec<&str> = usual.into_iter().chain(lines.iter().copied()).collect();
    migrated(&lines)
}

#[test]
fn rules_give_nothing_to_others_where_a_macaroon_is_demanded() {
    for lines in [
        &["ofs.authlib libXrdMacaroons.so", "macaroons.onmissing deny"][..],
        &["macaroons.onmissing passthrough", "macaroons.onmissing DENY"],
        &["ofs.authlib ++ libXrdMacaroons.so", "macaroons.onmissing misspelt"],
        // It cannot be read, and may demand tokens.
        &["ofs.authlib libXrdAccSciTokens.so config=/gone"],
    ] {
        let (result, remarks) = judged(lines);
        assert!(!result.contains("[[rule]]"), "{lines:?}: {result}");
        assert!(remarks.contains("rules give"), "{lines:?}: {remarks}");
    }
    let (result, _) = judged(&[
        "macaroons.onmissing deny",
        "ofs.authlib ++ libXrdAccSciTokens.so config=/scitokens.cfg",
    ]);
    assert!(result.contains("who = [\"issuer:https://a.example/\"]"), "{result}");
    assert!(!result.contains("anyone"), "{result}");
    let (result, _) = judged(&["macaroons.onmissing deny", "macaroons.onmissing passthrough"]);
    assert!(result.contains("who = [\"anyone\"]"), "{result}");
}

#[test]
fn a_library_that_decides_rights_and_is_not_ours_closes_the_server() {
    let cases: [(&[&str], bool); 5] = [
        (&["ofs.authlib libMyDeny.so"], true),
        (&["ofs.authlib /opt/deny.so option"], true),
        (&["ofs.authlib libXrdMacaroons.so /opt/deny.so"], true),
        (&["ofs.authlib ++ libMyDeny-5.so"], false),
        (&["ofs.authlib libXrdMacaroons.so", "ofs.authlib libXrdAcc.so"], false),
    ];
    for (lines, is_replaced) in cases {
        let (result, remarks) = judged(lines);
        let closing = result.find("may_not = [\"all\"]").expect("a rule that closes");
        assert!(result.contains("CLOSED"), "{lines:?}: {result}");
        // No rule comes before it, which could be the last one for a client.
        let giving = result.find("\nmay = ");
        assert_eq!(giving.is_none(), is_replaced, "{lines:?}: {result}");
        assert!(giving.is_none_or(|giving| giving > closing), "{lines:?}: {result}");
        assert!(remarks.contains("no equivalent: "), "{lines:?}: {remarks}");
    }
    let (result, _) = judged(&["ofs.authlib ++ libXrdMacaroons.so", "ofs.authlib libXrdMacaroons.so"]);
    assert!(!result.contains("CLOSED") && result.contains("anyone"), "{result}");
}

#[test]
fn rights_of_sessions_are_for_the_credentials_that_sessions_need() {
    let tokens = "ofs.authlib ++ libXrdAccSciTokens.so config=/scitokens.cfg";
    let cases: [(&[&str], Option<&str>); 12] = [
        (&["sec.protocol gsi"], Some("authenticated")),
        (&["sec.protocol gsi", "sec.protocol ztn", tokens], Some("authenticated")),
        (&["sec.protocol ztn", tokens], Some("issuer:https://a.example/")),
        (
            &["sec.protocol gsi -gmapopt:2", "sec.protocol ztn", tokens],
            Some("issuer:https://a.example/"),
        ),
        (&["sec.protocol gsi", tokens], None),
        (&["sec.protocol sss"], None),
        (&["sec.protocol krb5", "sec.protbind wn1 none"], None),
        (
            &["sec.protocol gsi", "sec.protocol sss", "sec.protbind wn1 only sss"],
            None,
        ),
        (&["sec.protocol gsi -gmapopt:2"], None),
        (&["sec.protocol gsi -vomsat:2 -vomsfun:libXrdVoms.so"], None),
        (&["sec.protocol gsi -vomsfun:default -vomsfunparms:vos=cms"], None),
        (
            &[
                "sec.protocol gsi",
                "http.gridmap required /etc/grid-security/grid-mapfile",
            ],
            None,
        ),
    ];
    for (lines, who) in cases {
        let open: Vec<&str> = ["all.export /data"].into_iter().chain(lines.iter().copied()).collect();
        for (result, remarks) in [migrated(&open), judged(lines)] {
            let giving = result.contains("\nmay = ");
            assert_eq!(giving, who.is_some(), "{lines:?}: {result}");
            let named = who.map(|who| format!("who = [\"{who}\"]"));
            assert!(named.is_none_or(|named| result.contains(&named)), "{lines:?}: {result}");
            assert!(
                !result.contains("anyone") && !result.contains("anonymous"),
                "{lines:?}: {result}"
            );
            assert!(giving || remarks.contains("are not given"), "{lines:?}: {remarks}");
        }
    }
}

#[test]
fn exports_are_read_only_where_any_line_says_so() {
    for lines in [
        &["all.export /data r/o", "all.export /data"][..],
        &["all.export /data", "oss.defaults r/o", "oss.defaults nomig"],
        &["oss.defaults forcero", "all.export /data"],
        &["oss.path / r/o", "all.export /data"],
        &["all.export /data", "oss.path /data r/o"],
        &["set mode = $MODE", "all.export /data $(mode)"],
        &["all.export /data", "continue /etc/gone.cfg"],
    ] {
        let (result, _) = migrated(lines);
        assert!(result.contains("path = \"/data\""), "{lines:?}: {result}");
        assert_eq!(result.matches("[[export]]").count(), 1, "{lines:?}: {result}");
        assert!(result.contains("read_only = true"), "{lines:?}: {result}");
    }
    let (result, _) = migrated(&["all.export /data", "oss.path /data/raw r/o", "oss.path /home r/w"]);
    assert_eq!(result.matches("[[export]]").count(), 2, "{result}");
    assert_eq!(result.matches("read_only = true").count(), 1, "{result}");
    let (result, _) = migrated(&["oss.defaults r/o", "oss.defaults r/w", "all.export /data"]);
    assert!(!result.contains("read_only"), "{result}");
}

#[test]
fn tls_is_demanded_until_a_line_takes_it_back() {
    for (lines, word) in [
        (["xrootd.tls login", "xrootd.tls tpc"], "login"),
        (["xrootd.tls none login", "xrootd.tls -tpc"], "login"),
        (["xrootd.tls all", "xrootd.tls capable session"], "data"),
        (["xrootd.tls all -data", "xrootd.tls tpc"], "login"),
        (["xrootd.tls all", "xrootd.tls none"], "optional"),
    ] {
        let (result, _) = migrated(&lines);
        assert!(result.contains(&format!("tls = \"{word}\"")), "{lines:?}: {result}");
    }
}
