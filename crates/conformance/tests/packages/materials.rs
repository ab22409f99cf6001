//! The software bill of materials, and the licences of what is linked in.

use std::collections::HashSet;
use std::fs;
use std::process::Command;

use conformance::{hex, run, sha256_of};
use serde_json::Value;
use testkit::{available, require_python};

use crate::workshop::{VERSION, recipe, repository, workshop};

#[test]
fn the_bill_of_materials_is_valid_and_true() {
    let test = "the_bill_of_materials_is_valid_and_true";
    let Some(workshop) = available(test, workshop()) else {
        return;
    };
    let mut inventory = recipe("inventory");
    inventory.args(["sbom", "--program"]).arg(&workshop.program);
    let printed = run(&inventory).succeeded();
    assert_eq!(printed.stdout, run(&inventory).succeeded().stdout);
    let bill: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    let program = &bill["metadata"]["component"];
    assert_eq!(program["version"], VERSION);
    let digest = hex(&sha256_of(&fs::read(&workshop.program).expect("the program")));
    assert_eq!(program["hashes"][0]["content"], digest);
    let components = bill["components"].as_array().expect("components");
    let names: HashSet<&str> = components.iter().filter_map(|one| one["name"].as_str()).collect();
    for name in ["rustls", "aws-lc-sys", "http-wire"] {
        assert!(names.contains(name), "{name}");
    }
    // Libraries in C, by which vulnerabilities are found, have versions of their own.
    let bundled = components
        .iter()
        .filter_map(|one| one["components"][0]["name"].as_str());
    assert_eq!(bundled.collect::<Vec<_>>(), ["aws-lc", "mimalloc", "sqlite"]);
    // A macro, a build script's, a test's, and another system's.
    for name in ["serde_derive", "cc", "proptest", "windows-sys"] {
        assert!(!names.contains(name), "{name}");
    }
    let Some(python) = available(test, require_python("cyclonedx")) else {
        return;
    };
    let file = workshop.scratch.join("bill.json");
    fs::write(&file, &printed.stdout).expect("a file");
    let validator = repository().join("crates/conformance/python/bill_of_materials.py");
    run(Command::new(python).args([&validator, &file])).succeeded();
}

#[test]
fn every_crate_is_in_the_copyright_file_and_its_licence_is_shipped() {
    let test = "every_crate_is_in_the_copyright_file_and_its_licence_is_shipped";
    let Some(workshop) = available(test, workshop()) else {
        return;
    };
    let document = |name: &str| {
        let mut inventory = recipe("inventory");
        inventory.args([name, "--program"]).arg(&workshop.program);
        run(&inventory).succeeded().text()
    };
    let bill: Value = serde_json::from_str(&document("sbom")).expect("JSON");
    let (copyright, licenses) = (document("copyright"), document("licenses"));
    let crates = bill["components"].as_array().expect("components").iter();
    for one in crates.filter(|one| !one["hashes"].is_null()) {
        let (name, version) = (
            one["name"].as_str().expect("a name"),
            one["version"].as_str().expect("a version"),
        );
        let paragraph = format!("\nFiles: crates.io/{name}-{version}/*\n");
        assert!(copyright.contains(&paragraph), "{paragraph}");
        assert!(licenses.contains(&format!("\n{name} {version}: ")), "{name} {version}");
    }
    // The texts that licences demand to be kept, one of a library within a crate among them.
    for text in [
        "Permission is hereby granted, free of charge",
        "BoringSSL",
        "UNICODE LICENSE V3",
    ] {
        assert!(licenses.contains(text), "{text}");
    }
}
