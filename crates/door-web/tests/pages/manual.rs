//! The manual beside the pages.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;

use door_web::{Manual, Pages};
use testkit::Scratch;

use super::{ask, open, pages, rule};

const PAGE: &str = "<!DOCTYPE html><title>Manual</title>";

/// A directory with a manual, and beside it a page that is not the manual's.
fn written() -> Scratch {
    let scratch = Scratch::in_memory("manual").expect("scratch");
    let manual = scratch.create("manual").expect("a directory");
    fs::create_dir(manual.join("experiments")).expect("a directory");
    fs::write(scratch.join("outside.html"), "outside").expect("a file");
    for (name, content) in [
        ("index.html", PAGE),
        ("experiments/index.html", "experiments"),
        ("manual.css", "a{}"),
        (".hidden.html", "outside"),
        ("notes.txt", "outside"),
    ] {
        fs::write(manual.join(name), content).expect("a file");
    }
    symlink(scratch.join("outside.html"), manual.join("link.html")).expect("a link");
    scratch
}

fn shown(scratch: &Scratch, pages: Pages) -> SocketAddr {
    open(Pages {
        manual: Manual::at(&scratch.join("manual")),
        ..pages
    })
}

#[tokio::test]
async fn the_manual_is_shown_under_the_policy_of_all_pages() {
    let scratch = written();
    let address = shown(&scratch, pages(true, Vec::new()));
    for (path, kind, content) in [
        ("/manual/", "text/html; charset=utf-8", PAGE),
        ("/manual/index.html", "text/html; charset=utf-8", PAGE),
        ("/manual/experiments/", "text/html; charset=utf-8", "experiments"),
        ("/manual/manual.css", "text/css; charset=utf-8", "a{}"),
    ] {
        let (head, body) = ask(address, &format!("GET {path}"), "localhost", "").await;
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
        assert!(head.contains(&format!("content-type: {kind}")), "{path}: {head}");
        assert!(
            head.contains("default-src 'none'; script-src 'self'") && head.contains("nosniff"),
            "{path}: {head}"
        );
        assert_eq!(body, content, "{path}");
        let (head, body) = ask(address, &format!("HEAD {path}"), "localhost", "").await;
        assert!(
            head.contains(&format!("content-length: {}", content.len())) && body.is_empty(),
            "{path}: {head}{body}"
        );
    }
    let (head, _) = ask(address, "GET /manual", "localhost", "").await;
    assert!(
        head.starts_with("http/1.1 308") && head.contains("location: /manual/"),
        "{head}"
    );
    let (head, _) = ask(address, "POST /manual/", "localhost", "Content-Length: 0\r\n").await;
    assert!(head.starts_with("http/1.1 405"), "{head}");
    let (_, body) = ask(address, "GET /endpoint", "localhost", "").await;
    assert!(body.contains("<a href=\"/manual/\">Manual</a>"), "{body}");
}

#[tokio::test]
async fn nothing_beside_the_manual_is_shown() {
    let scratch = written();
    let address = shown(&scratch, pages(true, Vec::new()));
    for path in [
        "/manual/none.html",
        "/manual/experiments",
        "/manual/notes.txt",
        "/manual/.hidden.html",
        "/manual/link.html",
        "/manual/../outside.html",
        "/manual/%2e%2e/outside.html",
        "/manual/..%2foutside.html",
        "/manual//outside.html",
        "/manual/index.html/",
    ] {
        let (head, body) = ask(address, &format!("GET {path}"), "localhost", "").await;
        let is_refused = head.starts_with("http/1.1 404") || head.starts_with("http/1.1 400");
        assert!(is_refused, "{path}: {head}");
        assert!(!body.contains("outside"), "{path}: {body}");
    }
    let (head, body) = ask(address, "GET /manual/none.html", "localhost", "").await;
    assert!(
        head.contains("text/html") && body.contains("<h1>Refused</h1>"),
        "{head}\n{body}"
    );
}

#[tokio::test]
async fn the_manual_is_for_viewers_and_need_not_be_there() {
    let scratch = written();
    let address = shown(&scratch, pages(true, vec![rule("authenticated")]));
    let (head, body) = ask(address, "GET /manual/", "localhost", "").await;
    assert!(
        head.starts_with("http/1.1 401") && !body.contains("Manual</title>"),
        "{head}"
    );
    assert!(Manual::at(&scratch.join("none")).is_none());
    let address = open(pages(true, Vec::new()));
    let (head, _) = ask(address, "GET /manual/", "localhost", "").await;
    assert!(head.starts_with("http/1.1 404"), "{head}");
    let (_, body) = ask(address, "GET /endpoint", "localhost", "").await;
    assert!(!body.contains("/manual/"), "{body}");
}
