//! A target for the configuration of XRootD that a site brings along, with what it names.

use std::path::{Path, PathBuf};

use config::Configuration;
use migrate::{InMemory, Migration, Order, System};
use policy::{Rule, read_authdb};

/// What divides the input into the configuration, its authdb and its scitokens.cfg.
const DIVISION: &str = "\n====\n";

/// Pieces of the files.
pub(crate) const WORDS: &[&str] = &[
    DIVISION,
    "if exec xrootd\n",
    "if d*.example && named a\n",
    "else if defined ?a\n",
    "else\n",
    "fi\n",
    "set a = /b\n",
    "$(a)",
    "continue /x.cfg if exec cmsd\n",
    " \\\n",
    "all.export /data r/o\n",
    "all.role manager if d*\n",
    "all.manager m.example+ 1213\n",
    "oss.localroot /srv\n",
    "ofs.authorize\n",
    "acc.encoding space ~ pct path\n",
    "ofs.tpc ttl 7 15 streams 1,8 pgm x\n",
    "sec.protocol gsi -crl:3 -gridmap:/g\n",
    "sec.protbind * only gsi ztn\n",
    "pss.origin =\npss.permit *.example.org\n",
    "pss.origin https://a.example\npss.cachelib libXrdPfc.so\npfc.diskusage 1g 2g\npfc.prefetch 10\n",
    "s3.begin\ns3.bucket_name b\ns3.service_url https://s\ns3.url_style virtual\n",
    "xrootd.monitor all flush 5s fstat 60 xfr 1 dest user h.example:9930\n",
    "xrootd.tls capable all\n",
    "xrd.tls /cert /key\n",
    "xrd.port any\n",
    "u * /data lr-dw\n",
    "u = /users/@=/ a\n",
    "h .example /data -a\n",
    "= id o: https://a.example/ g: /wlcg\nx id /data a\n",
    "t pub /a lr\n",
    "[Global]\nonmissing = deny\n",
    "[Issuer a]\nissuer = https://a.example\nbase_path = /a\n",
];

/// Whatever the files are, the result is a file of ours, and each remark is a line. An authdb that
/// rules can express means the same afterwards; of another one, no more is given.
pub(crate) fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut parts = text.splitn(3, DIVISION);
    let mut part = || parts.next().unwrap_or_default().to_owned();
    let (configuration, authdb, scitokens) = (part(), part(), part());
    let named = format!("{configuration}\nacc.authdb /a\nofs.authlib libXrdAccSciTokens.so config=/s\n");
    let migration = migrated(&named, &authdb, &scitokens);
    for document in &migration.documents {
        let text = document.render("x.cfg");
        assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        let _ = document.mistakes(&text, Path::new("/etc/crossload"));
    }
    for remark in &migration.remarks {
        assert!(!remark.line().contains('\n'), "{remark:?}");
        assert_eq!(remark.outcome.is_open(), remark.advice.is_some(), "{remark:?}");
    }
    rights(&authdb);
}

/// Reads a configuration with nothing but an authdb, and compares the rules.
fn rights(authdb: &str) {
    let migration = migrated("all.export /data\nofs.authorize\nacc.authdb /a\n", authdb, "");
    let text = migration.documents[0].render("x.cfg");
    let Ok(read) = Configuration::parse(&text, Path::new("/etc"), "crossload.toml") else {
        // A server does not start with it.
        return;
    };
    let written = read.policy_rules();
    let Ok(expected) = read_authdb(authdb) else {
        return;
    };
    let effective = |rule: &&Rule| rule.last || !rule.may.is_empty() || !rule.may_not.is_empty();
    let expected: Vec<&Rule> = expected.iter().filter(effective).collect();
    assert_eq!(written.len(), expected.len(), "{text}");
    for (written, expected) in written.iter().zip(expected) {
        let placed = Rule {
            place: written.place.clone(),
            ..expected.clone()
        };
        assert_eq!(*written, placed, "{text}");
    }
}

fn migrated(configuration: &str, authdb: &str, scitokens: &str) -> Migration {
    let files = InMemory::default()
        .with("/x.cfg", configuration)
        .with("/a", authdb)
        .with("/s", scitokens);
    let order = Order {
        files: vec![PathBuf::from("/x.cfg")],
        instance: Some("a".to_owned()),
        host: "d1.example".to_owned(),
    };
    System::Xrootd.migrate(&order, &files).expect("the file is there")
}
