//! Signing in to the pages: by programs that play a browser, and by Chromium.

use std::fs;
use std::time::Duration;

use conformance::{Answer, Lab, Look, assert_pages_are_good, background, log_lines, look_at, until};
use serde_json::Value;
use testkit::{Crossload, PUBLIC_CLIENT, Result, SignInAnswers, TokenIssuer, available};

/// Limit for what must happen.
const LIMIT: Duration = Duration::from_secs(60);

/// A server whose pages are for `jane` of an issuer.
pub(crate) struct GuardedPages {
    pub(crate) lab: Lab,
    pub(crate) issuer: TokenIssuer,
    pub(crate) server: Crossload,
    pub(crate) url: String,
}

impl GuardedPages {
    /// `web` has further keys, `ISSUER` in it stands for the issuer.
    pub(crate) fn start(name: &str, web: &str) -> Result<Self> {
        Self::start_in(Lab::new(name)?, web)
    }

    /// The same in this laboratory.
    pub(crate) fn start_in(lab: Lab, web: &str) -> Result<Self> {
        let issuer = TokenIssuer::start(lab.authority())?;
        let mut options = lab.options("pages");
        options.macaroons = true;
        options.more = format!(
            "[web]\nlisten = \"127.0.0.1:0\"\n{}\n[[issuer]]\nurl = \"{1}\"\nvo = \"wlcg\"\n",
            web.replace("ISSUER", &issuer.url()),
            issuer.url()
        );
        let server = lab.crossload(options)?;
        let url = server.log().pages_url("https");
        Ok(Self {
            lab,
            issuer,
            server,
            url,
        })
    }

    /// A token that says nothing but who has it.
    pub(crate) fn token(&self, subject: &str) -> String {
        self.issuer.token().claim("sub", subject).mint()
    }

    /// A new file of cookies.
    pub(crate) fn jar(&self) -> String {
        self.lab.fresh("jar").to_str().expect("plain").to_owned()
    }

    /// Signs a browser in, whose cookies are in this file.
    #[track_caller]
    pub(crate) fn sign_in(&self, jar: &str, subject: &str, back: &str) -> Answer {
        let (token, back) = (format!("token={}", self.token(subject)), format!("back={back}"));
        let place = format!("{}/sign-in", self.url);
        let form = [
            "-b",
            jar,
            "-c",
            jar,
            "--data-urlencode",
            &token,
            "--data-urlencode",
            &back,
            &place,
        ];
        self.lab.curl(&form)
    }

    /// The status of a page for a browser with these cookies.
    pub(crate) fn status(&self, jar: &str) -> u16 {
        self.lab.curl(&["-b", jar, &format!("{}/now", self.url)]).status
    }
}

/// The first value of a hidden field in a page.
pub(crate) fn field(page: &str, name: &str) -> String {
    let found = page.split_once(&format!("name=\"{name}\" value=\""));
    let (_, behind) = found.unwrap_or_else(|| panic!("no {name} in {page}"));
    behind.split('"').next().unwrap_or_default().to_owned()
}

/// Demands that an answer sets a cookie that browsers show to this server only, over TLS, and to no
/// script; `more` are further words of it.
#[track_caller]
pub(crate) fn demand_cookie(answer: &Answer, more: &[&str]) {
    let cookie = answer.header("set-cookie").expect("a cookie");
    let all = ["__Host-crossload-", "; HttpOnly", "; Secure", "; Path=/"];
    for demanded in all.iter().chain(more) {
        assert!(cookie.contains(demanded), "{demanded}: {cookie}");
    }
}

const VIEWERS: &str = "viewers = [[\"issuer:ISSUER\", \"subject:jane\"]]";

#[test]
fn a_token_signs_a_browser_in_and_no_other_client_gets_in() {
    let name = "a_token_signs_a_browser_in_and_no_other_client_gets_in";
    let Some(pages) = available(name, GuardedPages::start("pages-sign-in", VIEWERS)) else {
        return;
    };
    let (lab, url) = (&pages.lab, &pages.url);
    let sign_in = format!("{url}/sign-in");
    let asked = lab.curl(&[&format!("{url}/now?q=a&sort=age")]).expect(401).text();
    assert_eq!(field(&asked, "back"), "/now?q=a&#38;sort=age", "{asked}");
    let json = ["-H", "Accept: application/json", &format!("{url}/now")];
    let asked = lab.curl(&json).expect(401).text();
    let asked: Value = serde_json::from_str(&asked).expect("JSON");
    assert_eq!(asked["error"]["code"], "unauthenticated", "{asked}");

    let refused = |token: &str, more: &[&str], status: u16| {
        let form = format!("token={token}");
        let words = [more, &["--data-urlencode", &form, &sign_in]].concat();
        let answer = lab.curl(&words).expect(status);
        assert_eq!(answer.header("set-cookie"), None);
        answer.text()
    };
    let said = refused(&pages.token("john"), &[], 403);
    assert!(
        said.contains("does not name this client") && said.contains("name=\"token\""),
        "{said}"
    );
    let data = pages.issuer.token().claim("sub", "jane").scope("storage.read:/").mint();
    let said = refused(&data, &[], 403);
    assert!(said.contains("a token for data does not sign you in"), "{said}");
    refused("", &[], 401);
    refused("a.b.c", &[], 401);
    let jane = pages.token("jane");
    refused(&format!("{}x", &jane[..jane.len() - 3]), &[], 401);
    for forged in [
        "Origin: https://evil.example",
        "Sec-Fetch-Site: cross-site",
        "Origin: null",
    ] {
        refused(&jane, &["-H", forged], 403);
    }

    let jar = pages.jar();
    let begun = pages.sign_in(&jar, "jane", "/now?q=x").expect(303);
    assert_eq!(begun.header("location"), Some("/now?q=x"));
    demand_cookie(&begun, &["; SameSite=Strict"]);
    let page = lab.curl(&["-b", &jar, &format!("{url}/now")]).expect(200).text();
    assert!(page.contains("Signed in as jane@"), "{page}");
    let elsewhere = pages.sign_in(&pages.jar(), "jane", "//evil.example/").expect(303);
    assert_eq!(elsewhere.header("location"), Some("/"));
    // A token in a header counts before the session.
    let other = format!("Authorization: Bearer {}", pages.token("john"));
    lab.curl(&["-b", &jar, "-H", &other, &format!("{url}/now")]).expect(403);
    pages.server.log().demand_no_secrets();
}

#[test]
fn a_session_ends_when_its_client_ends_it_or_may_look_no_more() {
    let name = "a_session_ends_when_its_client_ends_it_or_may_look_no_more";
    let Some(pages) = available(name, GuardedPages::start("pages-sign-out", VIEWERS)) else {
        return;
    };
    let (lab, url) = (&pages.lab, &pages.url);
    // An identifier that another site has given to the browser begins no session.
    let jar = pages.jar();
    let (_, port) = url.rsplit_once(':').expect("a port");
    let planted = format!("__Host-crossload-{port}={}", "0".repeat(64));
    let form = format!("token={}", pages.token("jane"));
    let begun = lab.curl(&[
        "-H",
        &format!("Cookie: {planted}"),
        "-c",
        &jar,
        "-d",
        &form,
        &format!("{url}/sign-in"),
    ]);
    assert!(
        !begun
            .expect(303)
            .header("set-cookie")
            .expect("a session")
            .contains(&planted)
    );
    lab.curl(&["-H", &format!("Cookie: {planted}"), &format!("{url}/now")])
        .expect(401);
    // Signing in anew ends the session that the browser had.
    let old = pages.lab.fresh("old");
    fs::copy(&jar, &old).expect("a copy");
    let old = old.to_str().expect("plain");
    assert_eq!(pages.status(old), 200);
    pages.sign_in(&jar, "jane", "/").expect(303);
    assert_eq!((pages.status(old), pages.status(&jar)), (401, 200));

    let page = lab.curl(&["-b", &jar, &format!("{url}/now")]).expect(200).text();
    let sign_out = format!("{url}/sign-out");
    let token = format!("form={}", field(&page, "form"));
    for forged in [
        &["-d", "form="][..],
        &["-d", "form=0123456789abcdef"],
        &["-d", &token, "-H", "Origin: https://evil.example"],
    ] {
        lab.curl(&[&["-b", &jar][..], forged, &[&sign_out]].concat())
            .expect(403);
    }
    lab.curl(&["-b", &jar, &sign_out]).expect(405);
    assert_eq!(pages.status(&jar), 200, "nothing has ended it");
    let events = ["-N", "-b", &jar, &format!("{url}/now/events")];
    let mut open = background(&mut lab.curl_command(&events).expect("curl"), lab.scratch()).expect("curl");
    until("the page follows", LIMIT, || open.stdout().contains("event: table"));
    let kept = lab.fresh("kept");
    fs::copy(&jar, &kept).expect("a copy");
    lab.curl(&["-b", &jar, "-c", &jar, "-d", &token, &sign_out]).expect(303);
    assert_eq!(
        pages.status(kept.to_str().expect("plain")),
        401,
        "the server has forgotten it, too"
    );
    until("the page that stayed open gets nothing more", LIMIT, || {
        !open.is_running()
    });
    until("it is logged", LIMIT, || {
        let lines = log_lines(pages.server.log());
        let has = |event: &str| {
            lines
                .iter()
                .any(|line| line["event"] == event && line["who"].is_string())
        };
        has("signed_in") && has("signed_out")
    });

    // A viewer who is removed is out, and the session does not come back.
    pages.sign_in(&jar, "jane", "/").expect(303);
    let file = pages.server.configuration();
    let text = fs::read_to_string(&file).expect("a configuration");
    fs::write(&file, text.replace("subject:jane", "subject:joan")).expect("a new one");
    until("out", LIMIT, || pages.status(&jar) != 200);
    fs::write(&file, &text).expect("the old one");
    until("in by signing in", LIMIT, || {
        pages.sign_in(&pages.jar(), "jane", "/").status == 303
    });
    assert_eq!(pages.status(&jar), 401);
}

#[test]
fn a_browser_signs_in_by_the_form() {
    let name = "a_browser_signs_in_by_the_form";
    let Some(pages) = available(name, GuardedPages::start("pages-form", VIEWERS)) else {
        return;
    };
    let paths = ["/now", "/sign-in"];
    let refused = Look::new(&pages.url, &paths);
    let Some(seen) = available(name, look_at(&pages.lab, &refused)) else {
        return;
    };
    assert_pages_are_good(&seen, &paths);
    assert!(seen.iter().any(|page| page["status"] == 401), "{seen:?}");
    let signed_in = Look::new(&pages.url, &paths).signed_in_with(&pages.token("jane"));
    let seen = look_at(&pages.lab, &signed_in).expect("Chromium");
    assert_pages_are_good(&seen, &paths);
    assert!(seen.iter().all(|page| page["status"] == 200), "{seen:?}");
    let plain = look_at(&pages.lab, &signed_in.without_scripts()).expect("Chromium");
    assert!(plain.iter().all(|page| page["status"] == 200), "{plain:?}");
}

/// Demands that each page was seen by `jane`, whose browser has one cookie: the session, for this
/// server only.
#[track_caller]
fn demand_session(seen: &[Value]) {
    for page in seen {
        assert_eq!(page["status"], 200, "{page:#}");
        let viewer = page["viewer"].as_str().expect("a viewer");
        assert!(viewer.starts_with("Signed in as jane@"), "{viewer}");
        let cookies = page["cookies"].as_array().expect("cookies");
        assert_eq!(cookies.len(), 1, "{page:#}");
        let cookie = &cookies[0];
        let name = cookie["name"].as_str().expect("a name");
        assert!(name.starts_with("__Host-crossload-"), "{name}");
        let flags = [&cookie["httpOnly"], &cookie["secure"]];
        assert!(flags.iter().all(|flag| **flag == true), "{cookie}");
        assert_eq!(cookie["sameSite"], "Strict", "{cookie}");
    }
}

#[test]
fn a_browser_signs_in_at_the_issuer() {
    let name = "a_browser_signs_in_at_the_issuer";
    let web = format!("{VIEWERS}\noidc_issuer = \"ISSUER\"\noidc_client_id = \"{PUBLIC_CLIENT}\"\n");
    let Some(pages) = available(name, GuardedPages::start("pages-oidc", &web)) else {
        return;
    };
    let paths = ["/now", "/endpoint"];
    let signed_in = Look::new(&pages.url, &paths).signed_in_at_issuer();
    let Some(seen) = available(name, look_at(&pages.lab, &signed_in)) else {
        return;
    };
    assert_pages_are_good(&seen, &paths);
    demand_session(&seen);
    let plain = look_at(&pages.lab, &signed_in.without_scripts()).expect("Chromium");
    demand_session(&plain);
    assert_eq!(pages.issuer.grants().signed_in, 2, "each browser once");

    // The issuer refuses, in words that are no markup.
    pages.issuer.set_sign_in(SignInAnswers {
        error: Some(("access_denied".to_owned(), "<script>no</script>".to_owned())),
        ..SignInAnswers::default()
    });
    let refused = ["/sign-in/issuer?back=/now"];
    let seen = look_at(&pages.lab, &Look::new(&pages.url, &refused)).expect("Chromium");
    assert_pages_are_good(&seen, &refused);
    for page in seen {
        let at = page["at"].as_str().expect("a place");
        assert!(
            at.starts_with(&format!("{}/sign-in/issuer/return?", pages.url)),
            "{page:#}"
        );
        assert_eq!((&page["status"], &page["viewer"]), (&401.into(), &"Sign in".into()));
    }
}
