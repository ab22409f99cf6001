//! Who a client of the XRootD protocol says it is, and what it may do then: with XRootD's own
//! client, which chooses among the ways that the server offers, against XRootD where it can check
//! the same, and against ours.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Weak};

use conformance::{Endpoint, Lab, Run, Slot, Twins, bytes, log_lines, macaroon, shared};
use testkit::{Access, Result, TokenIssuer, XrootdAccess, available, require};

/// What the program exits with when the server refused.
const REFUSED: i32 = 54;
/// What it exits with when it could not say who it is.
const NOT_AUTHENTICATED: i32 = 52;

/// A server that everyone may read and that demands a token for writing, with a token for
/// everything.
struct Guarded {
    server: Endpoint,
    token: String,
}

struct Both {
    lab: Lab,
    theirs: Guarded,
    ours: Guarded,
}

static SITE: Slot<Both> = Slot::new(Weak::new());

fn site() -> Result<Arc<Both>> {
    shared(&SITE, || {
        require("curl")?;
        require("xrdcp")?;
        let lab = Lab::new("login")?;
        let issuer = lab.xrootd("theirs", XrootdAccess::OpenWithMacaroons)?;
        let by_name = "xrootd.seclib libXrdSec.so\nsec.protocol unix\n";
        let theirs = lab.xrootd_with("theirs", XrootdAccess::ReadOnlyWithMacaroons, by_name)?;
        let activities = ["activity:DOWNLOAD,UPLOAD,LIST,MANAGE,DELETE"];
        let theirs = Guarded {
            token: macaroon(&lab, &issuer.url("/data/"), &activities, &[]),
            server: Endpoint::Xrootd(Box::new(theirs)),
        };
        let twins = Twins::start_with(&lab, "login", |options| {
            options.exports[0].anonymous = Access::Read;
            options.more = "[xroot]\nauthentication = [\"token\", \"unix\"]\n".to_owned();
        })?;
        let ours = Guarded {
            token: twins.macaroon(&lab, "", "DOWNLOAD,UPLOAD,LIST,MANAGE,DELETE"),
            server: twins.guarded,
        };
        Ok(Both { lab, theirs, ours })
    })
}

#[track_caller]
fn assert_refused(run: &Run, words: &str) {
    assert_eq!(run.code, Some(REFUSED), "{}", run.said());
    assert!(run.said().contains(words), "{}", run.said());
}

#[test]
fn names_are_taken_and_give_no_rights() {
    let Some(both) = available("names_are_taken_and_give_no_rights", site()) else {
        return;
    };
    for Guarded { server, .. } in [&both.theirs, &both.ours] {
        server.put("names/file", b"content");
        server.make_directory("names");
        let by_name = [("XrdSecPROTOCOL", "unix")];
        let read = both.lab.xrdcp_with(&by_name, &[&server.root("names/file"), "-"]);
        assert_eq!(read.succeeded().text(), "content");
        let local = both.lab.file(b"new");
        let written = both
            .lab
            .xrdcp_with(&by_name, &[local.to_str().expect("plain"), &server.root("names/new")]);
        assert_refused(&written, "[3010]");
        assert_eq!(server.stored("names/new"), None);
    }
}

#[test]
fn a_way_that_is_not_offered_is_not_gone() {
    let Some(both) = available("a_way_that_is_not_offered_is_not_gone", site()) else {
        return;
    };
    for Guarded { server, .. } in [&both.theirs, &both.ours] {
        server.put("ways/file", b"content");
        for way in ["gsi", "host"] {
            let refused = both
                .lab
                .xrdcp_with(&[("XrdSecPROTOCOL", way)], &[&server.root("ways/file"), "-"]);
            assert_eq!(refused.code, Some(NOT_AUTHENTICATED), "{}", refused.said());
        }
    }
}

#[test]
fn a_token_in_the_url_gives_its_rights() {
    let Some(both) = available("a_token_in_the_url_gives_its_rights", site()) else {
        return;
    };
    let content = bytes(300_000, 241);
    for Guarded { server, token } in [&both.theirs, &both.ours] {
        server.make_directory("url");
        let local = both.lab.file(&content);
        let local = local.to_str().expect("plain");
        for url in [server.root("url/clear"), server.roots("url/tls")] {
            let wrong = both.lab.xrdcp(&[local, &format!("{url}?authz=Bearer%20{token}x")]);
            assert_refused(&wrong, "[3010]");
            let written = both.lab.xrdcp(&[local, &format!("{url}?authz=Bearer%20{token}")]);
            assert!(!written.succeeded().said().contains(token.as_str()));
        }
        for name in ["url/clear", "url/tls"] {
            assert!(server.stored(name).as_ref() == Some(&content), "{name}");
        }
    }
}

/// XRootD 5.5 takes tokens of another kind only when a session begins, so from here on it is ours
/// alone.
#[test]
fn a_macaroon_opens_the_session() {
    let Some(both) = available("a_macaroon_opens_the_session", site()) else {
        return;
    };
    let (lab, Guarded { server, token }) = (&both.lab, &both.ours);
    let content = bytes(300_000, 242);
    let local = lab.file(&content);
    let local = local.to_str().expect("plain");
    let file = lab.file(format!("{token}\n").as_bytes());
    // The client takes a token only from a private file.
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its mode");
    let file = file.to_str().expect("plain");
    let both_ways = [("BEARER_TOKEN", token.as_str()), ("BEARER_TOKEN_FILE", file)];
    for (index, variable) in both_ways.into_iter().enumerate() {
        let with_token = [variable, ("XrdSecPROTOCOL", "ztn")];
        let name = format!("session/{index}");
        let written = lab.xrdcp_with(&with_token, &["-p", local, &server.roots(&name)]);
        assert!(!written.succeeded().said().contains(token.as_str()));
        assert!(server.stored(&name).as_ref() == Some(&content));
        // Who can do TLS is made to before it shows a token, whatever the URL says.
        let written = lab.xrdcp_with(&with_token, &["-f", local, &server.root(&name)]);
        written.succeeded();
    }
    let Endpoint::Crossload(ours) = server else {
        unreachable!("it is ours")
    };
    let said = ours.log().stderr();
    assert!(!said.contains(token.as_str()), "a token is in the log");
    assert!(!log_lines(ours.log()).is_empty());
}

#[test]
fn a_wrong_token_leaves_the_next_way() {
    let Some(both) = available("a_wrong_token_leaves_the_next_way", site()) else {
        return;
    };
    let (lab, server) = (&both.lab, &both.ours.server);
    server.put("wrong/file", b"content");
    let url = server.roots("wrong/file");
    let wrong = ("BEARER_TOKEN", "not.a.token");
    let refused = lab.xrdcp_with(&[wrong, ("XrdSecPROTOCOL", "ztn")], &[&url, "-"]);
    assert_eq!(refused.code, Some(NOT_AUTHENTICATED), "{}", refused.said());
    assert_eq!(lab.xrdcp_with(&[wrong], &[&url, "-"]).succeeded().text(), "content");
}

#[test]
fn a_token_gives_no_more_than_it_says() {
    let test = "a_token_gives_no_more_than_it_says";
    let Some(lab) = available(test, Lab::new("narrow")) else {
        return;
    };
    let started = require("xrdcp").and_then(|_| {
        Twins::start_with(&lab, "narrow", |options| {
            options.more = "[xroot]\nauthentication = [\"token\"]\n".to_owned();
        })
    });
    let Some(twins) = available(test, started) else { return };
    twins.open.put("in/file", b"content");
    twins.open.put("out/file", b"content");
    let guarded = &twins.guarded;
    let token = twins.macaroon(&lab, "in", "DOWNLOAD,LIST");
    let with_token = [("BEARER_TOKEN", token.as_str())];
    let read = |name: &str| lab.xrdcp_with(&with_token, &[&guarded.roots(name), "-"]);
    assert_eq!(read("in/file").succeeded().text(), "content");
    assert_refused(&read("out/file"), "[3010]");
    let local = lab.file(b"new");
    let written = lab.xrdcp_with(&with_token, &[local.to_str().expect("plain"), &guarded.roots("in/new")]);
    assert_refused(&written, "[3010]");
    assert_eq!(twins.open.stored("in/new"), None);
    // Without one there is no session.
    let nobody = lab.xrdcp(&[&guarded.roots("in/file"), "-"]);
    assert_eq!(nobody.code, Some(NOT_AUTHENTICATED), "{}", nobody.said());
    // Our own client shows it too.
    let mut ours = lab
        .client(lab.client_arguments("cat", &[&guarded.roots("in/file")]))
        .expect("the client is built");
    ours.env("BEARER_TOKEN", &token);
    assert_eq!(conformance::run(&ours).succeeded().text(), "content");
}

#[test]
fn tls_is_offered_or_demanded_as_configured() {
    let test = "tls_is_offered_or_demanded_as_configured";
    let Some(lab) = available(test, require("xrdcp").and_then(|_| Lab::new("policy"))) else {
        return;
    };
    let content = bytes(3_000_000, 243);
    for (policy, by_host) in [("none", false), ("login", true), ("session", false), ("data", false)] {
        let mut options = lab.options(policy);
        options.more = format!("[xroot]\ntls = \"{policy}\"\n");
        if by_host {
            options.more.push_str("authentication = [\"host\"]\n");
        }
        let server = Endpoint::Crossload(Box::new(lab.crossload(options).expect("it starts")));
        server.put("file", &content);
        let down = lab.fresh("down");
        let copied = lab.xrdcp(&["-S", "3", &server.root("file"), down.to_str().expect("plain")]);
        copied.succeeded();
        assert!(conformance::is_whole(&down, &content), "{policy}");
        let by_tls = lab.xrdcp(&[&server.roots("file"), "-"]);
        // A URL that says TLS is never served in clear text.
        if policy == "none" {
            assert_ne!(by_tls.code, Some(0), "{}", by_tls.said());
        } else {
            assert!(by_tls.succeeded().stdout == content, "{policy}");
        }
    }
}

/// A server with an issuer and a certificate, and nothing said about sessions: tokens open them,
/// and others come in as anonymous.
#[test]
fn tokens_open_sessions_without_being_configured() {
    let test = "tokens_open_sessions_without_being_configured";
    let Some((lab, issuer)) = available(
        test,
        Lab::new("unasked").and_then(|lab| {
            require("xrdcp")?;
            require("xrdfs")?;
            let issuer = TokenIssuer::start(lab.authority())?;
            Ok((lab, issuer))
        }),
    ) else {
        return;
    };
    let start = |name, access| {
        let mut options = lab.options(name);
        options.exports[0].anonymous = access;
        options.macaroons = false;
        options.default_sessions = true;
        options.more = format!("[[issuer]]\nurl = \"{}\"\nbase_paths = [\"/data\"]\n", issuer.url());
        lab.crossload(options)
            .map(|server| Endpoint::Crossload(Box::new(server)))
    };
    let (open, closed) = (
        start("open", Access::Read).expect("a server"),
        start("closed", Access::None).expect("a server"),
    );
    let token = issuer.token().scope("storage.read:/ storage.modify:/").mint();
    let with_token = [("BEARER_TOKEN", token.as_str())];
    let local = lab.file(b"new");
    let local = local.to_str().expect("plain");
    for server in [&open, &closed] {
        for (name, url) in [("a", server.roots("dir/a")), ("b", server.root("dir/b"))] {
            lab.xrdcp_with(&with_token, &["-f", local, &url]).succeeded();
            assert_eq!(
                server.stored(&format!("dir/{name}")).as_deref(),
                Some(&b"new"[..]),
                "{url}"
            );
            assert_eq!(lab.xrdcp_with(&with_token, &[&url, "-"]).succeeded().text(), "new");
        }
        let host = format!("roots://localhost:{}", server.root_port());
        let mut listing = lab.command("xrdfs").expect("xrdfs");
        listing.args([&host, "ls", "/data/dir"]).env("BEARER_TOKEN", &token);
        let listed = conformance::run(&listing);
        let listed = listed.succeeded().text();
        assert!(listed.contains("/data/dir/a"), "{listed}");
    }
    // Without a token: as anonymous.
    assert_eq!(lab.xrdcp(&[&open.roots("dir/a"), "-"]).succeeded().text(), "new");
    assert_eq!(lab.xrdcp(&[&open.root("dir/a"), "-"]).succeeded().text(), "new");
    assert_refused(&lab.xrdcp(&[&closed.roots("dir/a"), "-"]), "[3010]");
    assert_refused(&lab.xrdcp(&["-f", local, &open.root("dir/a")]), "[3010]");
}

/// Uploads and downloads that end shortly behind a multiple of XRootD's chunk of 8 MiB: with
/// several answers in one TLS record its client waits for the second for ever.
#[test]
fn large_files_go_both_ways_in_sessions_opened_by_token() {
    let test = "large_files_go_both_ways_in_sessions_opened_by_token";
    let Some((lab, issuer)) = available(
        test,
        Lab::new("large").and_then(|lab| {
            require("xrdcp")?;
            let issuer = TokenIssuer::start(lab.authority())?;
            Ok((lab, issuer))
        }),
    ) else {
        return;
    };
    let mut options = lab.options("large");
    options.exports[0].anonymous = Access::None;
    options.macaroons = false;
    options.default_sessions = true;
    options.more = format!("[[issuer]]\nurl = \"{}\"\nbase_paths = [\"/data\"]\n", issuer.url());
    let server = Endpoint::Crossload(Box::new(lab.crossload(options).expect("a server")));
    let token = issuer.token().scope("storage.read:/ storage.modify:/").mint();
    let with_token = [("BEARER_TOKEN", token.as_str())];
    let content = bytes((64 << 20) + 13, 21);
    for size in [8 << 20, (8 << 20) + 13, (16 << 20) + 13, (64 << 20) + 13] {
        let name = format!("of-{size}");
        let (local, back) = (lab.file(&content[..size]), lab.fresh("back"));
        let (local_text, back_text) = (local.to_str().expect("plain"), back.to_str().expect("plain"));
        // Without `roots` the client has to go over to TLS by itself, to show its token.
        let urls = [server.root(&name), server.roots(&name)];
        let ways = if size < 64 << 20 { 2 } else { 1 };
        for url in urls.iter().take(ways) {
            lab.xrdcp_with(&with_token, &["-f", local_text, url]).succeeded();
            assert!(server.stored(&name).as_deref() == Some(&content[..size]), "{url}");
            lab.xrdcp_with(&with_token, &["-f", url, back_text]).succeeded();
            assert!(std::fs::read(&back).expect("a file") == content[..size], "{url}");
        }
        std::fs::remove_file(local).expect("it is there");
    }
}
