//! davix's tools, the HTTP library below gfal2 and ROOT.

use std::sync::{Arc, Weak};

use conformance::{Site, Slot, bytes, is_whole, shared};
use testkit::{Result, available};

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::start("davix", "davix-get"))
}

#[test]
fn files_go_up_and_down() {
    let Some(site) = available("files_go_up_and_down", site()) else {
        return;
    };
    for (index, size) in [0, 1, 5 << 20].into_iter().enumerate() {
        let content = bytes(size, 41);
        let local = site.lab.file(&content);
        let name = format!("up/{index}");
        for url in [site.first.url(&name), site.first.clear_url(&name)] {
            site.lab
                .davix("put", &[local.to_str().expect("plain"), &url])
                .succeeded();
            assert!(site.first.stored(&name) == Some(content.clone()));
            let down = site.lab.fresh("down");
            site.lab
                .davix("get", &[&url, down.to_str().expect("plain")])
                .succeeded();
            // davix makes no file of nothing.
            assert!(is_whole(&down, &content) || size == 0, "{url}");
        }
    }
    let missing = site.lab.davix("get", &[&site.first.url("up/none")]);
    assert_ne!(missing.code, Some(0), "{}", missing.said());
}

#[test]
fn directories_are_listed_made_and_removed() {
    let Some(site) = available("directories_are_listed_made_and_removed", site()) else {
        return;
    };
    site.first.put("list/one", b"1");
    site.first.put("list/two", b"22");
    let url = |name: &str| site.first.url(&format!("list/{name}"));
    let listed = site.lab.davix("ls", &[&url("")]).succeeded().text();
    let mut names: Vec<&str> = listed.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "two"]);
    let long = site.lab.davix("ls", &["-l", &url("")]).succeeded().text();
    assert!(
        long.lines().any(|line| line.contains(" 2 ") && line.ends_with("two")),
        "{long}"
    );
    site.lab.davix("mkdir", &[&url("made")]).succeeded();
    assert!(site.first.data().join("list/made").is_dir());
    // Debian's davix-mv exits with 255 whatever happens, so only what it did is looked at.
    let _ = site.lab.davix("mv", &[&url("one"), &url("made/moved")]);
    assert_eq!(site.first.stored("list/made/moved").as_deref(), Some(&b"1"[..]));
    site.lab.davix("rm", &[&url("made/moved")]).succeeded();
    assert_eq!(site.first.stored("list/made/moved"), None);
}

#[test]
fn third_party_copies_in_both_directions() {
    let Some(site) = available("third_party_copies_in_both_directions", site()) else {
        return;
    };
    let content = bytes(8 << 20, 42);
    let source = site.first.put("tpc/source", &content);
    for mode in ["pull", "push"] {
        let name = format!("tpc/{mode}");
        let arguments = [
            "--copy-mode",
            mode,
            "-H",
            "Credential: none",
            &source,
            &site.second.target(&name),
        ];
        site.lab.davix("cp", &arguments).succeeded();
        assert!(site.second.stored(&name) == Some(content.clone()), "{mode}");
    }
    let missing = site.first.url("tpc/none");
    let failed = site.lab.davix(
        "cp",
        &[
            "--copy-mode",
            "pull",
            "-H",
            "Credential: none",
            &missing,
            &site.second.url("tpc/failed"),
        ],
    );
    assert_ne!(failed.code, Some(0), "{}", failed.said());
    if site.second.is_ours() {
        assert_eq!(site.second.stored("tpc/failed"), None);
    }
}
