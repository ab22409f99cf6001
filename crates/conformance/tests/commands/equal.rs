//! Which files a repeated copy takes as equal, what it tells of ways that fail between two servers,
//! and that its lines come whole.

use std::fs;

use conformance::run;
use testkit::available;

use crate::trees::{site, text};

#[test]
fn each_name_that_is_not_removed_has_its_reason() {
    let test = "each_name_that_is_not_removed_has_its_reason";
    let Some(site) = available(test, site()) else { return };
    let top = site.lab.fresh("removed");
    fs::create_dir_all(top.join("directory")).expect("a directory");
    fs::write(top.join("file"), b"x").expect("a file");
    let [directory, none, file] = ["directory", "none", "file"].map(|name| text(&top.join(name)).to_owned());
    let mut client = site
        .lab
        .client(["rm", &directory, &none, &file])
        .expect("the client is built");
    let removed = run(&mut client).failed_with(1);
    let reasons: Vec<&str> = removed
        .stderr
        .lines()
        .filter(|line| line.contains("rm error"))
        .collect();
    assert_eq!(reasons.len(), 2, "{}", removed.said());
    assert!(
        reasons[0].contains(&directory) && reasons[1].contains(&none),
        "{reasons:?}"
    );
    assert!(
        removed.stderr.ends_with("2 of 3 could not be removed\n"),
        "{}",
        removed.said()
    );
    assert!(!top.join("file").exists());
}
