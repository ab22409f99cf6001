//! Copies whose source and destination overlap.

use testkit::available;

use crate::trees::site;

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
            assert!(copied.stderr.contains("are the same file"), "{}", copied.said());
            assert_eq!(site.first.stored("itself/f").as_deref(), Some(&b"content"[..]));
        }
    }
}
