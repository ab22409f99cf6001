//! JSON Web Tokens at both doors: the WLCG JWT compliance suite
//! (indigo-iam/wlcg-jwt-compliance-tests) row by row with curl, the same with XRootD's client,
//! tokens that must be refused, and issuers that misbehave.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use conformance::{Answer, Endpoint, Lab, Slot, run, shared};
use serde_json::json;
use testkit::{
    Access, CrossloadOptions, IssuerMode, Result, TokenAlgorithm, TokenDraft, TokenIssuer, available, require,
};

/// What `xrdcp` exits with when the server refused.
const REFUSED: i32 = 54;

/// A server that takes the tokens of one issuer, whose scopes are about `/data`.
struct Site {
    lab: Lab,
    issuer: TokenIssuer,
    server: Endpoint,
}

/// Members of `/wlcg` may do everything but change what is protected, which takes `/wlcg/test`.
const RULES: &str = r#"
[xroot]
authentication = ["token"]
[[rule]]
who = "group:/wlcg"
path = "/data"
except = ["/data/protected"]
may = ["all"]
[[rule]]
who = "group:/wlcg"
path = "/data/protected"
may = ["stat", "list", "read"]
[[rule]]
who = "group:/wlcg/test"
path = "/data/protected"
may = ["all"]
"#;

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || {
        require("curl")?;
        let lab = Lab::new("jwt")?;
        let issuer = TokenIssuer::start(lab.authority())?;
        let server = server(&lab, "jwt", &issuer, "")?;
        Ok(Site { lab, issuer, server })
    })
}

fn server(lab: &Lab, name: &str, issuer: &TokenIssuer, more: &str) -> Result<Endpoint> {
    guarded(lab, lab.options(name), issuer, &format!("{more}{RULES}"))
}

/// A server that demands a token of the issuer.
fn guarded(lab: &Lab, mut options: CrossloadOptions, issuer: &TokenIssuer, more: &str) -> Result<Endpoint> {
    options.exports[0].anonymous = Access::None;
    options.more = format!(
        "[[issuer]]\nurl = \"{}\"\nvo = \"wlcg\"\nbase_paths = [\"/data\"]\n{more}",
        issuer.url()
    );
    Ok(Endpoint::Crossload(Box::new(lab.crossload(options)?)))
}

impl Site {
    fn token(&self, scopes: &str) -> String {
        self.issuer.token().scope(scopes).mint()
    }

    /// The server's own URL, which is its audience.
    fn audience(&self) -> String {
        format!("https://localhost:{}", self.server.port())
    }

    fn ask(&self, method: &str, name: &str, token: &str) -> Answer {
        let header = format!("Authorization: Bearer {token}");
        self.lab.request(method, &self.server.url(name), &[&header])
    }

    fn put(&self, name: &str, token: &str) -> Answer {
        let header = format!("Authorization: Bearer {token}");
        self.lab.upload(&self.server.url(name), b"content", &[&header])
    }

    #[track_caller]
    fn expect(&self, method: &str, name: &str, token: &str, statuses: &[u16]) {
        let answer = match method {
            "PUT" => self.put(name, token),
            method => self.ask(method, name, token),
        };
        assert!(
            statuses.contains(&answer.status),
            "{method} {name}: {} in place of {statuses:?}: {}",
            answer.status,
            answer.text()
        );
    }

    /// The answer names this code in its words, and the challenge says which of the two kinds of
    /// refusal it is.
    #[track_caller]
    fn expect_invalid(&self, token: &str, code: &str, words: &str) {
        let answer = self.ask("GET", "missing", token);
        assert_eq!(answer.status, 401, "{code}: {}", answer.text());
        let challenge = answer.header("WWW-Authenticate").unwrap_or_default();
        assert!(challenge.contains("error=\"invalid_token\""), "{code}: {challenge}");
        let text = answer.text();
        assert!(text.contains(words), "{code}: \"{words}\" is not in {text}");
        let Endpoint::Crossload(server) = &self.server else {
            unreachable!("it is ours")
        };
        let note = format!("\"code\":\"{code}\"");
        conformance::until("the refusal is in the log", Duration::from_secs(10), || {
            server.log().stderr().contains(&note)
        });
        assert!(!text.contains(token) && !server.log().stderr().contains(token));
    }
}

macro_rules! on_site {
    ($test:ident, $site:ident, $body:block) => {
        #[test]
        fn $test() {
            let Some($site) = available(stringify!($test), site()) else {
                return;
            };
            $body
        }
    };
}

on_site!(audiences_of_the_suite, site, {
    let read = |draft: TokenDraft<'_>| draft.scope("storage.read:/ storage.modify:/ openid").mint();
    let own = site.audience();
    for audience in [json!(own), json!(["https://wrong.example.org", own]), json!([own])] {
        site.expect(
            "GET",
            "missing",
            &read(site.issuer.token().claim("aud", audience)),
            &[404],
        );
    }
    for audience in [
        json!("https://7e5a.example.org"),
        json!(["https://a.example.org", "https://b.example.org"]),
        json!(format!("{own}/")),
        json!(own.to_uppercase()),
    ] {
        site.expect(
            "GET",
            "missing",
            &read(site.issuer.token().claim("aud", audience)),
            &[401],
        );
    }
});

on_site!(a_token_without_scopes_and_groups_may_nothing, site, {
    let token = site.token("openid");
    site.expect("GET", "missing", &token, &[403]);
    site.expect("PUT", "nothing/x", &token, &[403]);
});

on_site!(groups_of_the_suite, site, {
    let of = |groups: &[&str]| site.issuer.token().scope("openid wlcg.groups").groups(groups).mint();
    let (member, tester) = (of(&["/wlcg"]), of(&["/wlcg", "/wlcg/test"]));
    site.expect("GET", "groups/missing", &member, &[404]);
    site.expect("PUT", "groups/x", &member, &[200, 201]);
    site.expect("GET", "protected/missing", &member, &[404]);
    site.expect("PUT", "protected/x", &member, &[403]);
    site.expect("GET", "protected/missing", &tester, &[404]);
    site.expect("PUT", "protected/y", &tester, &[200, 201]);
    site.expect("DELETE", "protected/y", &tester, &[200, 204]);
    // A child does not stand for its parent, and scopes make groups not count.
    site.expect("PUT", "groups/z", &of(&["/wlcg/other"]), &[403]);
    let both = site.issuer.token().scope("storage.read:/").groups(&["/wlcg"]).mint();
    site.expect("PUT", "groups/z", &both, &[403]);
});

on_site!(capabilities_of_the_suite, site, {
    let modify = site.token("storage.modify:/");
    site.expect("PUT", "caps/f", &modify, &[200, 201]);
    site.expect("DELETE", "caps/f", &modify, &[200, 204]);
    site.expect("MKCOL", "caps/dir", &modify, &[200, 201]);
    let read = site.token("storage.read:/");
    site.expect("GET", "caps/missing", &read, &[404]);
    site.expect("PUT", "caps/g", &read, &[403]);
    site.server.put("caps/existing", b"old");
    let create = site.token("storage.create:/");
    site.expect("GET", "caps/existing", &modify, &[403]);
    site.expect("GET", "caps/existing", &create, &[403]);
    site.expect("PUT", "caps/existing", &create, &[403]);
    site.expect("DELETE", "caps/existing", &create, &[403]);
    assert_eq!(site.server.stored("caps/existing").as_deref(), Some(&b"old"[..]));
    // Each lets its bearer see what there is (profile 1.1 and later); reading from tape is not
    // reading.
    for scopes in [
        "storage.create:/",
        "storage.modify:/",
        "storage.stage:/",
        "storage.read:/",
    ] {
        site.expect("HEAD", "caps/existing", &site.token(scopes), &[200]);
    }
    site.expect("GET", "caps/existing", &site.token("storage.stage:/"), &[403]);
    let refused = site.ask("GET", "caps/existing", &create);
    let challenge = refused.header("WWW-Authenticate").unwrap_or_default();
    assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
});

on_site!(paths_of_the_suite, site, {
    for name in ["wlcg-jwt/foobar/file", "wlcg-jwt/foo/file", "outside/file"] {
        site.server.put(name, b"content");
    }
    let token = |scope: &str| site.token(scope);
    site.expect("GET", "outside/missing", &token("storage.read:/wlcg-jwt"), &[403]);
    site.expect("GET", "wlcg-jwt/missing", &token("storage.read:/wlcg-jwt"), &[404]);
    site.expect("PUT", "outside/x", &token("storage.modify:/wlcg-jwt"), &[403]);
    site.expect("PUT", "wlcg-jwt/x", &token("storage.modify:/wlcg-jwt"), &[200, 201]);
    let file = "wlcg-jwt/foobar/file";
    site.expect("GET", file, &token("storage.read:/wlcg-jwt/foobar"), &[200]);
    site.expect("GET", file, &token("storage.read:/wlcg-jwt/foo"), &[403]);
    site.expect(
        "MKCOL",
        "wlcg-jwt/foobar/made",
        &token("storage.create:/wlcg-jwt"),
        &[200, 201],
    );
    site.expect("MKCOL", "wlcg-jwt/foobar/no", &token("storage.create:/wlcg-jw"), &[403]);
    site.expect("GET", file, &token("storage.read:/foobar"), &[403]);
    site.expect("GET", file, &token("storage.read:/wlcg-jwt/foobar/"), &[200]);
    site.expect("GET", file, &token("storage.read:/wlcg-jwt/foo/"), &[403]);
    site.expect("GET", file, &token("storage.read:/wlcg-jwt/foob%61r"), &[200]);
    // Parents of a place that may be used can be made.
    site.expect("MKCOL", "deep", &token("storage.create:/deep/er/est"), &[200, 201]);
});

on_site!(other_profiles_versions_and_ways_to_send, site, {
    site.server.put("ways/file", b"content");
    for draft in [
        site.issuer.token().claim("wlcg.ver", "1.3").scope("storage.read:/"),
        site.issuer
            .token()
            .algorithm(TokenAlgorithm::Es256)
            .scope("storage.read:/"),
        site.issuer.token().scitoken().scope("read:/ways write:/ways"),
        site.issuer
            .token()
            .scitoken()
            .claim("aud", site.audience())
            .scope("read"),
        site.issuer.token().without("wlcg.ver").without("aud").scope("read:/"),
        site.issuer
            .token()
            .without("wlcg.ver")
            .header("typ", "at+jwt")
            .claim("aud", site.audience())
            .scope("storage.read:/"),
    ] {
        site.expect("GET", "ways/file", &draft.mint(), &[200]);
    }
    let token = site.token("storage.read:/");
    let lower = format!("authorization: bearer {token}");
    site.lab
        .request("GET", &site.server.url("ways/file"), &[&lower])
        .expect(200);
    for query in [format!("authz=Bearer%20{token}"), format!("authz={token}")] {
        site.lab
            .request("GET", &format!("{}?{query}", site.server.url("ways/file")), &[])
            .expect(200);
    }
});

on_site!(tokens_that_must_be_refused, site, {
    let scoped = || site.issuer.token().scope("storage.read:/");
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let rows = [
        (
            scoped().algorithm(TokenAlgorithm::None).mint(),
            "token_algorithm",
            "\"none\"",
        ),
        (
            scoped().algorithm(TokenAlgorithm::Hs256WithPublicKey).mint(),
            "token_algorithm",
            "shared secret",
        ),
        (
            scoped().algorithm(TokenAlgorithm::Rs384).mint(),
            "token_algorithm",
            "RS384",
        ),
        (scoped().header("kid", "ec-1").mint(), "token_algorithm", "RS256"),
        (scoped().header("kid", "nobody").mint(), "token_key_unknown", "nobody"),
        (
            format!("{}AAAA", &scoped().mint()[..scoped().mint().len() - 4]),
            "token_signature",
            "changed",
        ),
        (
            scoped().claim("padding", "x".repeat(13_000)).mint(),
            "token_too_large",
            "are allowed",
        ),
        (scoped().claim("nested", deep).mint(), "token_malformed", "deeper"),
        (scoped().lifetime_s(-10).mint(), "token_expired", "it expired"),
        (
            scoped().claim("nbf", 4_000_000_000_u64).mint(),
            "token_not_yet_valid",
            "becomes valid",
        ),
        (
            scoped().audience("https://other.example.org").mint(),
            "token_audience",
            "other.example.org",
        ),
        (scoped().without("aud").mint(), "token_claims", "aud"),
        (scoped().claim("wlcg.ver", "2.0").mint(), "token_profile", "2.0"),
        (
            scoped().claim("iss", format!("{}/", site.issuer.url())).mint(),
            "token_issuer_unknown",
            "slash",
        ),
        (
            scoped().claim("iss", "https://evil.example.org").mint(),
            "token_issuer_unknown",
            "evil",
        ),
        (site.token("storage.read:/a/../.."), "token_scope", "goes up"),
        (site.token("storage.read:/a%2fb"), "token_scope", "encoded slash"),
        (site.token("storage.read:/a%252fb"), "token_scope", "encoded slash"),
        (site.token("storage.read"), "token_scope", "no path"),
        ("aaaa.bbbb.cccc".to_owned(), "token_malformed", "not JSON"),
    ];
    for (token, code, words) in rows {
        site.expect_invalid(&token, code, words);
    }
});

on_site!(the_same_over_the_xrootd_protocol, site, {
    if available("the_same_over_the_xrootd_protocol", require("xrdcp")).is_none() {
        return;
    }
    let (lab, server) = (&site.lab, &site.server);
    server.put("roots/dir/file", b"content");
    server.put("roots/directory/file", b"content");
    let fetch = |name: &str, token: &str| {
        let ztn = [("BEARER_TOKEN", token), ("XrdSecPROTOCOL", "ztn")];
        lab.xrdcp_with(&ztn, &[&server.roots(name), "-"])
    };
    let store = |name: &str, token: &str| {
        let local = lab.file(b"new");
        let ztn = [("BEARER_TOKEN", token), ("XrdSecPROTOCOL", "ztn")];
        lab.xrdcp_with(&ztn, &["-f", local.to_str().expect("plain"), &server.roots(name)])
    };
    let read = site.token("storage.read:/roots/dir");
    assert_eq!(fetch("roots/dir/file", &read).succeeded().text(), "content");
    assert_eq!(fetch("roots/directory/file", &read).code, Some(REFUSED));
    assert_eq!(store("roots/dir/new", &read).code, Some(REFUSED));
    let create = site.token("storage.create:/roots");
    store("roots/dir/new", &create).succeeded();
    assert_eq!(store("roots/dir/file", &create).code, Some(REFUSED));
    assert_eq!(fetch("roots/dir/file", &create).code, Some(REFUSED));
    store("roots/dir/file", &site.token("storage.modify:/roots")).succeeded();
    let member = site.issuer.token().scope("openid").groups(&["/wlcg"]).mint();
    store("roots/by-group", &member).succeeded();
    assert_eq!(store("protected/by-group", &member).code, Some(REFUSED));
    let scitoken = site.issuer.token().scitoken().scope("read:/roots").mint();
    assert_eq!(fetch("roots/dir/new", &scitoken).succeeded().text(), "new");
    let wrong = site
        .issuer
        .token()
        .scope("storage.read:/")
        .audience("https://other.example.org")
        .mint();
    assert_ne!(fetch("roots/dir/new", &wrong).code, Some(0));
    // In the URL, on a server whose sessions need not say anything.
    let free = lab.options("free");
    let free = guarded(lab, free, &site.issuer, "").expect("a server");
    free.put("file", b"content");
    let in_url = |token: &str| lab.xrdcp(&[&format!("{}?authz=Bearer%20{token}", free.roots("file")), "-"]);
    assert_eq!(in_url(&site.token("storage.read:/")).succeeded().text(), "content");
    assert_eq!(in_url(&site.token("storage.create:/")).code, Some(REFUSED));
    assert_eq!(in_url(&wrong).code, Some(REFUSED));
});

#[test]
fn an_issuer_that_hangs_holds_up_only_those_who_need_it_and_not_long() {
    let test = "an_issuer_that_hangs_holds_up_only_those_who_need_it_and_not_long";
    let Some(site) = available(test, site()) else {
        return;
    };
    let lab = &site.lab;
    for (name, mode) in [
        ("hangs", IssuerMode::Hang),
        ("dead", IssuerMode::Dead),
        ("large", IssuerMode::Large),
    ] {
        let bad = TokenIssuer::start(lab.authority()).expect("an issuer");
        bad.set_mode(mode);
        let also = format!(
            "[[issuer]]\nurl = \"{}\"\nbase_paths = [\"/data\"]\n[tokens]\nissuer_wait = \"500ms\"\n",
            site.issuer.url()
        );
        let server = server(lab, name, &bad, &also).expect("a server");
        server.put("file", b"content");
        let ask = |token: &str| {
            let header = format!("Authorization: Bearer {token}");
            let start = Instant::now();
            let answer = lab.request("GET", &server.url("file"), &[&header]);
            (answer, start.elapsed())
        };
        let good = site.token("storage.read:/");
        ask(&good).0.expect(200);
        let held = std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| ask(&bad.token().scope("storage.read:/").mint())))
                .collect();
            // Meanwhile others are served as ever.
            ask(&good).0.expect(200);
            waiting
                .into_iter()
                .map(|one| one.join().expect("ends"))
                .collect::<Vec<_>>()
        });
        for (answer, time) in held {
            assert_eq!(answer.status, 401, "{}", answer.text());
            assert!(time < Duration::from_secs(5), "{name}: {time:?}");
        }
        // Faults of the token itself are reported without the issuer.
        let (expired, _) = ask(&bad.token().lifetime_s(-5).mint());
        assert!(expired.text().contains("expired"), "{}", expired.text());
    }
}

on_site!(a_token_is_explained_offline_and_with_the_keys_of_its_issuer, site, {
    let Endpoint::Crossload(server) = &site.server else {
        unreachable!("it is ours")
    };
    let configuration = server.configuration();
    let configuration = configuration.to_str().expect("plain");
    let explain = |token: &str, more: &[&str]| {
        let file = site.lab.file(token.as_bytes());
        let file = file.to_str().expect("plain").to_owned();
        let mut arguments = vec!["explain", "--config", configuration, "--token", &file];
        arguments.extend(["--op", "read", "--path", "/data/a/f"]);
        arguments.extend(more);
        run(&site.lab.client(arguments).expect("the client"))
    };
    let good = site.token("storage.read:/a");
    // The server fetches the keys by itself when it starts; with an answer to a token it has them
    // all.
    let known = site.ask("HEAD", "/data/a/f", &good);
    assert!(matches!(known.status, 200 | 403 | 404), "{}", known.text());
    let asked = site.issuer.connections();
    let offline = explain(&good, &[]).succeeded();
    assert!(offline.text().contains("NOT verified"), "{}", offline.said());
    assert_eq!(site.issuer.connections(), asked, "nobody was asked");
    let online = explain(&good, &["--online"]).succeeded();
    assert!(online.text().contains("just fetched"), "{}", online.said());
    let forged = format!("{}AAAA", &good[..good.len() - 4]);
    let refused = explain(&forged, &["--online"]).failed_with(13);
    assert!(refused.text().contains("signature"), "{}", refused.said());
    explain(&site.token("storage.read:/b"), &[]).failed_with(13);
});

#[test]
fn the_issuers_of_a_scitokens_cfg_are_taken_over_and_read_again() {
    let test = "the_issuers_of_a_scitokens_cfg_are_taken_over_and_read_again";
    let Some(site) = available(test, site()) else {
        return;
    };
    let lab = &site.lab;
    let mut options = lab.options("cfg");
    options.exports[0].anonymous = Access::None;
    let file = lab.fresh("scitokens.cfg");
    let write = |base: &str| {
        let text = format!(
            "[Global]\naudience = https://site.example.org\n[Issuer one]\nissuer = {}\nbase_path = {base}\n",
            site.issuer.url()
        );
        std::fs::write(&file, text).expect("written");
    };
    write("/data/one");
    options.more = format!("[tokens]\nscitokens_file = {file:?}\n");
    let server = Endpoint::Crossload(Box::new(lab.crossload(options).expect("a server")));
    server.put("one/f", b"content");
    server.put("two/f", b"content");
    let token = site
        .issuer
        .token()
        .audience("https://site.example.org")
        .scope("storage.read:/")
        .mint();
    let header = format!("Authorization: Bearer {token}");
    let status = |name: &str| lab.request("GET", &server.url(name), &[&header]).status;
    assert_eq!((status("one/f"), status("two/f")), (200, 403));
    write("/data/two");
    conformance::until("the file is read again", Duration::from_secs(60), || {
        status("two/f") == 200
    });
    assert_eq!(status("one/f"), 403);
}
