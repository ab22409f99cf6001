//! Copies whose source and destination overlap, and trees that were copied only in part: a file
//! that may be the only copy is neither overwritten nor deleted.

use std::fs;

use conformance::{put_tree, visible};
use testkit::available;

use crate::trees::{site, text};

#[test]
fn a_file_of_a_server_is_not_copied_onto_itself() {
    let Some(site) = available("a_file_of_a_server_is_not_copied_onto_itself", site()) else {
        return;
    };
    site.first.put("itself/f", b"content");
    for (source, target) in [
        (site.first.davs("itself/f"), site.first.davs("itself//f")),
        (site.first.root("itself/f"), site.first.root("itself//f")),
    ] {
        for mode in ["auto", "stream"] {
            let copied = site.lab.run_client("copy", &["-f", "--mode", mode, &source, &target]);
            let copied = copied.failed_with(17);
            let advice = "are the same file), ";
            assert!(copied.stderr.contains(advice), "{}", copied.said());
            assert!(
                copied.stderr.ends_with("next: Name another destination.\n"),
                "{}",
                copied.said()
            );
            assert_eq!(site.first.stored("itself/f").as_deref(), Some(&b"content"[..]));
        }
    }
}

#[test]
fn rm_refuses_what_stands_for_everything() {
    let Some(site) = available("rm_refuses_what_stands_for_everything", site()) else {
        return;
    };
    site.first.put("everything/f", b"content");
    let [http, root] = [site.first.davs(""), site.first.root("")].map(|url| {
        let (server, _) = url.split_once("/data").expect("below the top");
        format!("{server}/")
    });
    let below = site.first.davs("everything/.");
    for everything in [&http, &root, &below] {
        let refused = site.lab.run_client("rm", &["-r", everything]).failed_with(22);
        assert!(
            refused.stderr.contains("rm does not remove the top"),
            "{}",
            refused.said()
        );
    }
    assert!(site.first.stored("everything/f").is_some());
}

#[test]
fn a_tree_is_neither_copied_into_itself_nor_deleted_as_its_own_rest() {
    let test = "a_tree_is_neither_copied_into_itself_nor_deleted_as_its_own_rest";
    let Some(site) = available(test, site()) else { return };
    let local = site.lab.fresh("whole");
    let names = ["a", "in/b"];
    for (base, there) in [
        (site.first.davs("whole"), site.first.data().join("whole")),
        (site.first.root("whole"), site.first.data().join("whole")),
        (text(&local).to_owned(), local.clone()),
    ] {
        put_tree(&there, &names);
        let [whole, within, deeper] = ["/", "/in/", "/in/deep/"].map(|path| format!("{base}{path}"));
        for arguments in [
            &["copy", "-r", &whole, &within][..],
            &["sync", "--delete", &whole, &deeper],
            &["sync", "--delete", &within, &whole],
        ] {
            let refused = site.lab.run_client(arguments[0], &arguments[1..]).failed_with(22);
            assert!(refused.stderr.contains("exclude it"), "{}", refused.said());
            assert_eq!(visible(&there), names, "{arguments:?}");
        }
    }
    let (whole, within) = (format!("{}/", text(&local)), local.join("in"));
    site.lab
        .run_client("copy", &["-r", "--exclude", "/in", &whole, text(&within)])
        .succeeded();
    assert_eq!(visible(&local), ["a", "in/a", "in/b"]);
}

#[test]
fn nothing_is_deleted_if_a_file_could_not_be_copied() {
    let Some(site) = available("nothing_is_deleted_if_a_file_could_not_be_copied", site()) else {
        return;
    };
    let from = site.lab.fresh("renamed-from");
    put_tree(&from, &["a", "new"]);
    let source = format!("{}/", text(&from));
    let local = site.lab.fresh("renamed-to");
    for (target, there) in [
        (text(&local).to_owned(), local.clone()),
        (site.first.davs("renamed-to"), site.first.data().join("renamed-to")),
        (site.first.root("renamed-to"), site.first.data().join("renamed-to")),
    ] {
        put_tree(&there, &["old"]);
        // A directory is in the way of a file.
        fs::create_dir_all(there.join("new")).expect("a directory");
        let synced = site
            .lab
            .run_client("sync", &["--delete", &source, &target])
            .failed_with(1);
        assert!(synced.stderr.contains("nothing was deleted"), "{}", synced.said());
        assert_eq!(visible(&there), ["a", "old"], "{target}");
        fs::remove_dir(there.join("new")).expect("it goes");
        site.lab.run_client("sync", &["--delete", &source, &target]).succeeded();
        assert_eq!(visible(&there), ["a", "new"], "{target}");
        fs::remove_dir_all(&there).expect("it goes");
    }
}
