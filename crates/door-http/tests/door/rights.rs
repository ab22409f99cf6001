//! What a narrow macaroon allows with files of others, and what refusals reveal.

use policy::{AnonymousAccess, Area, Rule, parse_given};

use crate::harness::{Answer, Server, export, macaroon, memory};

/// A server that allows nothing without a macaroon, and its files.
async fn closed() -> Server {
    let disk = memory();
    let server = Server::start(vec![export("/data", AnonymousAccess::Write, disk)], |_| {}).await;
    for path in ["/data/d/f", "/data/d/sub/f", "/data/g"] {
        server.put(path, b"theirs").await;
    }
    let mut list = server.exports.current().list().to_vec();
    list[0].rules.anonymous = AnonymousAccess::None;
    server.exports.replace(endpoint::Exports::new(list));
    server
}

async fn step(server: &Server, head: &str, activities: &str) -> Answer {
    let token = macaroon(&format!("activity:{activities}"));
    step_as(server, head, &token).await
}

async fn step_as(server: &Server, head: &str, token: &str) -> Answer {
    let body: &[u8] = if head.starts_with("PUT") { b"mine" } else { b"" };
    server
        .ask(&format!("{head}\nAuthorization: Bearer {token}\n"), body)
        .await
}

#[tokio::test]
async fn create_alone_renames_what_its_holder_stored_and_nothing_else() {
    let server = closed().await;
    let rename = |from: &str, to: &str| format!("MOVE /data/{from}\nDestination: /data/{to}");
    for from in ["g", "d/f", "d/sub", "missing"] {
        let answer = step(&server, &rename(from, "taken"), "UPLOAD").await;
        assert_eq!(answer.status, 403, "{from}");
    }
    assert_eq!(step(&server, "PUT /data/x.rucio.upload", "UPLOAD").await.status, 201);
    assert_eq!(
        step(&server, &rename("x.rucio.upload", "x"), "UPLOAD").await.status,
        201
    );
    assert_eq!(step(&server, &rename("x", "y"), "UPLOAD").await.status, 201);
    // Another file of that name belongs to another client.
    assert_eq!(step(&server, "PUT /data/y", "UPLOAD,DELETE").await.status, 204);
    assert_eq!(step(&server, &rename("y", "z"), "UPLOAD").await.status, 403);
    // It is still known after the exports were loaded again.
    assert_eq!(step(&server, "PUT /data/own", "UPLOAD").await.status, 201);
    server
        .exports
        .replace(endpoint::Exports::new(server.exports.current().list().to_vec()));
    assert_eq!(step(&server, &rename("own", "own2"), "UPLOAD").await.status, 201);
    assert_eq!(step(&server, &rename("g", "h"), "UPLOAD,DELETE").await.status, 201);
    assert_eq!(step(&server, &rename("h", "i"), "MANAGE").await.status, 201);
}

/// A client that may not look gets the same answer whatever exists under these names.
#[tokio::test]
async fn who_may_not_look_is_told_the_same_whatever_is_there() {
    let server = closed().await;
    let elsewhere = macaroon("path:/data/elsewhere");
    let asked = |verb: &str, path: &str| match verb {
        "PROPFIND 1" => format!("PROPFIND {path}\nDepth: 1"),
        "MOVE" => format!("MOVE {path}\nDestination: /data/elsewhere/new"),
        "MOVE to" => format!("MOVE /data/elsewhere/f\nDestination: {path}"),
        "COPY" => format!("COPY {path}\nDestination: /data/elsewhere/new"),
        "COPY to" => format!("COPY /data/elsewhere/f\nDestination: {path}"),
        "COPY from" => format!("COPY {path}\nSource: https://peer.invalid/f"),
        "PUT new" => format!("PUT {path}\nIf-None-Match: *"),
        verb => format!("{verb} {path}"),
    };
    let verbs = [
        "GET",
        "HEAD",
        "PUT",
        "PUT new",
        "DELETE",
        "MKCOL",
        "PROPFIND 1",
        "MOVE",
        "MOVE to",
        "COPY",
        "COPY to",
        "COPY from",
    ];
    for verb in verbs {
        for token in [elsewhere.as_str(), "none"] {
            let mut first: Option<String> = None;
            for path in ["/data/g", "/data/d", "/data/m", "/data/d/f", "/data/d/m"] {
                let head = asked(verb, path);
                let answer = match token {
                    "none" => server.ask(&format!("{head}\n"), b"").await,
                    token => step_as(&server, &head, token).await,
                };
                let expected = if token == "none" { 401 } else { 403 };
                assert_eq!(answer.status, expected, "{verb} {path}");
                // The last line is the name of the request.
                let text = answer.text().replace(path, "PATH");
                let words: Vec<&str> = text.lines().take(2).collect();
                let words = words.join("\n");
                assert_eq!(*first.get_or_insert_with(|| words.clone()), words, "{verb} {path}");
            }
        }
    }
}

/// Nor does the page that a browser gets tell more than the text.
#[tokio::test]
async fn a_page_about_an_error_reveals_no_name() {
    let server = closed().await;
    let elsewhere = macaroon("path:/data/elsewhere");
    let mut pages = Vec::new();
    for name in ["g", "d", "m"] {
        let answer = step_as(&server, &format!("GET /data/{name}\nAccept: text/html"), &elsewhere).await;
        assert_eq!(answer.status, 403, "{name}");
        let id = answer.header("X-Request-Id").unwrap();
        let page = answer.text().replace(id, "ID");
        pages.push(
            page.replace(&format!("/data/{name}<"), "PATH<")
                .replace(&format!(">{name}<"), ">NAME<"),
        );
    }
    assert!(
        pages[0].contains("<dt>Code</dt>") && pages[0].contains("PATH<"),
        "{}",
        pages[0]
    );
    assert!(pages.iter().all(|page| *page == pages[0]), "{pages:#?}");
}

#[tokio::test]
async fn a_listing_leaves_out_what_its_reader_may_not_look_at() {
    let server = closed().await;
    for path in [
        "/data/way/open/f",
        "/data/dead/end/f",
        "/data/pre-1",
        "/data/pre-2",
        "/data/seen",
    ] {
        let token = macaroon("activity:UPLOAD,MANAGE");
        assert_eq!(step_as(&server, &format!("PUT {path}"), &token).await.status, 201);
    }
    let area = |text| Area::parse(text).unwrap();
    let rules = vec![
        Rule {
            area: area("/data"),
            except: ["/data/way", "/data/dead", "/data/pre-*", "/data/d"].map(area).to_vec(),
            may: parse_given("list").unwrap(),
            ..Rule::default()
        },
        Rule {
            area: area("/data/way/open"),
            may: parse_given("read").unwrap(),
            ..Rule::default()
        },
        Rule {
            area: area("/data/pre-2"),
            may: parse_given("stat").unwrap(),
            ..Rule::default()
        },
    ];
    let list = server.exports.current().list().to_vec();
    server.exports.replace(endpoint::Exports::with_rules(list, rules));
    for head in ["PROPFIND /data\nDepth: 1\n", "GET /data/\n"] {
        let listing = server.ask(head, b"").await.text();
        for (name, is_shown) in [
            ("way", true),
            ("seen", true),
            ("pre-2", true),
            ("g", true),
            ("dead", false),
            ("pre-1", false),
        ] {
            let is_listed = listing.contains(&format!("{name}<")) || listing.contains(&format!("{name}/<"));
            assert_eq!(is_listed, is_shown, "{name} {listing}");
        }
    }
    // A client that may look sees them.
    let all = step(&server, "PROPFIND /data\nDepth: 1", "LIST").await.text();
    assert!(all.contains("dead") && all.contains("pre-1"), "{all}");
}
