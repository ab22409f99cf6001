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
        &["sec.protocol sss", "sec.protbind wn1.example.org only host"][..],
        &["sec.protocol gsi", "sec.protbind wn1.example.org only none"],
        &["sec.protocol gsi", "sec.protbind wn1.example.org none"],
        &["sec.protocol gsi", "sec.protocol host", "sec.protbind wn1* only gsi"],
        &["sec.protocol gsi", "sec.protbind wn1* only gsi", "sec.protbind * none"],
        &["sec.protocol gsi", "sec.protbind * none", "sec.protbind * only gsi"],
        // Another instance, whose name may be this one's.
        &["if named other", "sec.protocol gsi", "fi"],
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
        let is_here = !lines.contains(&"if named other");
        assert_eq!(result.contains("anyone"), !is_here, "{lines:?}: {result}");
    }
    for lines in [
        &["all.export /data", "sec.protocol gsi", "sec.protbind * none"][..],
        &["all.export /data", "sec.protocol unix", "sec.protbind wn1* none"],
        &["all.export /data"],
    ] {
        let (result, _) = migrated(lines);
        assert!(result.contains("anonymous = \"write\""), "{lines:?}: {result}");
    }
}
