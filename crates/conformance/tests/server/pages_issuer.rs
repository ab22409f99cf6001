//! Signing in to the pages at an issuer (OpenID Connect), by curl as the browser.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conformance::{Answer, Lab, log_lines, until};
use serde_json::{Value, json};
use testkit::{IssuerMode, PUBLIC_CLIENT, Result, SignInAnswers, TOKEN_CLIENT, TokenAlgorithm, available, secrets};

use crate::pages_sign_in::{GuardedPages, demand_cookie, field};

/// Limit for what must happen.
const LIMIT: Duration = Duration::from_secs(60);

const VIEWERS: &str = "viewers = [[\"issuer:ISSUER\", \"subject:jane\"]]\noidc_issuer = \"ISSUER\"\n";

/// Pages at whose issuer people sign in; the server has no secret there.
fn start(name: &str) -> Result<GuardedPages> {
    GuardedPages::start(name, &format!("{VIEWERS}oidc_client_id = \"{PUBLIC_CLIENT}\"\n"))
}

/// A browser with cookies of its own.
struct Browser<'a> {
    pages: &'a GuardedPages,
    jar: String,
}

impl<'a> Browser<'a> {
    fn new(pages: &'a GuardedPages) -> Self {
        Self {
            pages,
            jar: pages.jar(),
        }
    }

    /// Asks the pages for something.
    #[track_caller]
    fn ask(&self, more: &[&str], place: &str) -> Answer {
        let cookies = ["-b", &self.jar, "-c", &self.jar];
        self.pages.lab.curl(&[&cookies[..], more, &[place]].concat())
    }

    /// Follows the link of the form.
    #[track_caller]
    fn begin(&self, back: &str) -> Answer {
        let place = format!("{}/sign-in/issuer?back={back}", self.pages.url);
        let begun = self.ask(&[], &place);
        let to = begun.header("location").unwrap_or_default();
        secrets::note("the state of a sign-in", &parameter(to, "state"));
        secrets::note("the nonce of a sign-in", &parameter(to, "nonce"));
        begun
    }

    /// Signs in at the issuer; the URL with which it sends the browser back.
    #[track_caller]
    fn at_issuer(&self, back: &str) -> String {
        let begun = self.begin(back).expect(303);
        let to = begun.header("location").expect("the page of the issuer");
        assert!(to.starts_with(&self.pages.issuer.url()), "{to}");
        let sent = self.pages.lab.curl(&[to]).expect(302);
        sent.header("location").expect("the way back").to_owned()
    }

    /// Goes the whole way.
    #[track_caller]
    fn sign_in(&self, back: &str) -> Answer {
        let place = self.at_issuer(back);
        self.ask(&[], &place)
    }

    fn status(&self) -> u16 {
        self.pages.status(&self.jar)
    }

    /// Demands that an answer refuses, says why, and begins no session.
    #[track_caller]
    fn demand_refused(&self, answer: Answer, status: u16, words: &str) {
        let answer = answer.expect(status);
        let said = answer.text();
        assert!(said.contains(words), "{words}: {said}");
        assert!(!answer.heads.contains("SameSite=Strict"), "{}", answer.heads);
        assert_eq!(self.status(), 401);
    }
}

/// The value of a parameter, as it stands in a URL.
fn parameter(url: &str, name: &str) -> String {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(known, _)| *known == name);
    found.map(|(_, value)| value.to_owned()).unwrap_or_default()
}

/// The URL with another value of a parameter.
fn with(url: &str, name: &str, value: &str) -> String {
    url.replace(&format!("{name}={}", parameter(url, name)), &format!("{name}={value}"))
}

/// The secret with which codes are redeemed, for the search of logs.
fn note_verifier(pages: &GuardedPages) {
    let form = pages.issuer.grants().latest;
    let verifier = form.iter().find_map(|pair| pair.strip_prefix("code_verifier="));
    secrets::note("the verifier of a sign-in", verifier.expect("PKCE"));
}

#[test]
fn people_sign_in_at_their_issuer() {
    let name = "people_sign_in_at_their_issuer";
    let Some(pages) = available(name, start("pages-issuer")) else {
        return;
    };
    let (browser, url) = (Browser::new(&pages), &pages.url);
    let asked = browser.ask(&[], &format!("{url}/now?q=a")).expect(401).text();
    assert!(
        asked.contains("href=\"/sign-in/issuer?back=%2Fnow%3Fq%3Da\"") && asked.contains("Sign in at localhost"),
        "{asked}"
    );
    let begun = browser.begin("/now%3Fq%3Da").expect(303);
    let to = begun.header("location").expect("the issuer");
    for (parameter_name, value) in [
        ("response_type", "code"),
        ("client_id", PUBLIC_CLIENT),
        ("scope", "openid"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(parameter(to, parameter_name), value, "{to}");
    }
    assert!(to.contains("redirect_uri=https%3A%2F%2Flocalhost%3A"), "{to}");
    assert_eq!(begun.header("referrer-policy"), Some("no-referrer"));
    demand_cookie(&begun, &["; SameSite=Lax", "; Max-Age=600"]);

    let place = browser.at_issuer("/now%3Fq%3Da");
    let back = browser.ask(&[], &place).expect(200);
    note_verifier(&pages);
    assert!(back.heads.contains("SameSite=Strict"), "{}", back.heads);
    assert_eq!(back.header("referrer-policy"), Some("no-referrer"));
    let page = back.text();
    assert!(page.contains("content=\"0; url=/now?q=a\""), "{page}");
    assert!(page.contains("Signed in as jane@"), "{page}");
    let page = browser.ask(&[], &format!("{url}/now")).expect(200).text();
    assert!(page.contains("Signed in as jane@"), "{page}");

    // The same answer once more, as a browser that goes back sends it.
    let again = Browser::new(&pages);
    fs::copy(&browser.jar, &again.jar).expect("a copy");
    let said = again.ask(&[], &place).expect(401).text();
    assert!(said.contains("was not begun in this browser"), "{said}");
    assert_eq!(pages.issuer.grants().signed_in, 1, "it is asked once");

    // The session before ends with a new one, and with the form.
    let old = Browser::new(&pages);
    fs::copy(&browser.jar, &old.jar).expect("a copy");
    browser.sign_in("/").expect(200);
    assert_eq!((old.status(), browser.status()), (401, 200));
    let form = format!("form={}", field(&page_of(&browser), "form"));
    browser.ask(&["-d", &form], &format!("{url}/sign-out")).expect(303);
    assert_eq!(browser.status(), 401);
    let log = pages.server.log();
    until("it is logged", LIMIT, || {
        let has_name = |line: &Value| line["event"] == "signed_in" && line["who"].is_string();
        log_lines(log).iter().any(has_name)
    });
    let is_named =
        |line: &Value| line["path"] == "/now" && line["credential"] == "token" && line["subject"].is_string();
    until("its requests are logged", LIMIT, || log_lines(log).iter().any(is_named));
    log.demand_no_secrets();
}

fn page_of(browser: &Browser<'_>) -> String {
    let page = browser.ask(&[], &format!("{}/now", browser.pages.url));
    page.expect(200).text()
}

fn claims(value: Value) -> SignInAnswers {
    SignInAnswers {
        claims: value.as_object().cloned().unwrap_or_default(),
        ..SignInAnswers::default()
    }
}

#[test]
fn what_an_issuer_must_not_say_signs_no_one_in() {
    let name = "what_an_issuer_must_not_say_signs_no_one_in";
    let Some(pages) = available(name, start("pages-issuer-lies")) else {
        return;
    };
    let browser = Browser::new(&pages);
    let now = now_s();
    let signed = |algorithm: TokenAlgorithm| SignInAnswers {
        algorithm,
        ..SignInAnswers::default()
    };
    let refuses = |word: &str, sentence: &str| SignInAnswers {
        error: Some((word.to_owned(), sentence.to_owned())),
        ..SignInAnswers::default()
    };
    for (answers, words) in [
        (claims(json!({"nonce": "0".repeat(64)})), "token_claims"),
        (claims(json!({"nonce": null})), "token_claims"),
        (claims(json!({"aud": "another"})), "token_audience"),
        (claims(json!({"aud": [PUBLIC_CLIENT, "another"]})), "token_audience"),
        (claims(json!({"azp": "another"})), "token_audience"),
        (claims(json!({"exp": now - 1})), "token_expired"),
        (claims(json!({"iat": now + 3600})), "token_not_yet_valid"),
        (claims(json!({"sub": null})), "token_claims"),
        (claims(json!({"iss": "https://other.example"})), "token_issuer_unknown"),
        (signed(TokenAlgorithm::None), "token_algorithm"),
        (signed(TokenAlgorithm::Hs256WithPublicKey), "token_algorithm"),
        (signed(TokenAlgorithm::Rs384), "token_algorithm"),
        (refuses("access_denied", "<script>no</script>"), "you have declined"),
        (refuses("access_denied", "<script>no</script>"), "&#60;script&#62;no"),
        (refuses("temporarily_unavailable", ""), "at the moment"),
        (refuses("strange", "x"), "(strange: x)"),
        (
            SignInAnswers {
                named: Some("https://other.example".to_owned()),
                ..SignInAnswers::default()
            },
            "another issuer has answered",
        ),
        (
            SignInAnswers {
                is_nameless: true,
                ..SignInAnswers::default()
            },
            "does not say who has",
        ),
    ] {
        pages.issuer.set_sign_in(answers);
        let answer = browser.sign_in("/now");
        browser.demand_refused(answer, 401, words);
    }
    pages.issuer.set_sign_in(claims(json!({"sub": "john"})));
    let answer = browser.sign_in("/now");
    browser.demand_refused(answer, 403, "the issuer calls you john@");
    // Scopes of an ID token are none.
    pages.issuer.set_sign_in(claims(json!({"scope": "storage.read:/"})));
    browser.sign_in("/now").expect(200);
    assert_eq!(browser.status(), 200);
    pages.server.log().demand_no_secrets();
}

/// Seconds since 1970.
fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("a time after 1970").as_secs()
}

#[test]
fn a_sign_in_belongs_to_the_browser_that_began_it() {
    let name = "a_sign_in_belongs_to_the_browser_that_began_it";
    let Some(pages) = available(name, start("pages-issuer-browsers")) else {
        return;
    };
    let (mallory, victim) = (Browser::new(&pages), Browser::new(&pages));
    let here = |browser: &Browser<'_>, place: &str| browser.ask(&[], place);
    // Login CSRF: the answer for one browser, opened in another.
    let place = mallory.at_issuer("/now");
    let words = "was not begun in this browser";
    victim.demand_refused(here(&victim, &place), 401, words);
    // The other one has begun a sign-in of its own, too.
    let own = victim.at_issuer("/now");
    victim.demand_refused(here(&victim, &place), 401, words);
    let wrong = with(&place, "state", &"0".repeat(64));
    mallory.demand_refused(here(&mallory, &wrong), 401, words);
    let none = with(&place, "state", "");
    mallory.demand_refused(here(&mallory, &none), 401, "does not say to which sign-in");
    let twice = format!("{place}&state={}", parameter(&place, "state"));
    mallory.demand_refused(here(&mallory, &twice), 401, "says something twice");
    assert_eq!(pages.issuer.grants().signed_in, 0, "the issuer is not asked");
    // A code of another sign-in is not redeemed (RFC 7636 §1).
    let injected = with(&own, "code", &parameter(&place, "code"));
    victim.demand_refused(here(&victim, &injected), 401, "no longer accepts the code");
    assert_eq!(pages.issuer.grants().signed_in, 0);
    // The attempt is used up; two that run side by side do not disturb each other.
    victim.demand_refused(here(&victim, &own), 401, words);
    let (one, two) = (victim.at_issuer("/now"), victim.at_issuer("/endpoint"));
    let page = here(&victim, &two).expect(200).text();
    assert!(page.contains("url=/endpoint\""), "{page}");
    here(&victim, &one).expect(200);

    let begin = format!("{}/sign-in/issuer?back=/now", pages.url);
    // However many are begun from its address meanwhile.
    let pending = victim.at_issuer("/now");
    for _ in 0..40 {
        pages.lab.curl(&[&begin]).expect(303);
    }
    here(&victim, &pending).expect(200);
    for forged in ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"] {
        victim.ask(&["-H", forged], &begin).expect(403);
    }
    victim.ask(&["-H", "Host: evil.example"], &begin).expect(421);
    for outside in [
        "//evil.example/",
        "https://evil.example",
        "/%5Cevil.example",
        "javascript:alert(1)",
    ] {
        let page = victim.sign_in(outside).expect(200).text();
        assert!(
            page.contains("content=\"0; url=/\"") && !page.contains("evil"),
            "{page}"
        );
    }
    pages.server.log().demand_no_secrets();
}

#[test]
fn an_issuer_that_fails_is_named() {
    let name = "an_issuer_that_fails_is_named";
    let Some(pages) = available(name, start("pages-issuer-fails")) else {
        return;
    };
    let browser = Browser::new(&pages);
    until("the server has the keys", LIMIT, || {
        log_lines(pages.server.log())
            .iter()
            .any(|line| line["event"] == "issuer_keys")
    });
    for (mode, words) in [
        (IssuerMode::Dead, "cannot be asked"),
        (IssuerMode::Failing, "cannot be asked"),
        (IssuerMode::Garbage, "another issuer"),
        (IssuerMode::OtherIssuer, "another issuer"),
        (IssuerMode::Large, "cannot be asked"),
        (IssuerMode::Redirect("https://other.example/".to_owned()), "redirect"),
    ] {
        pages.issuer.set_mode(mode);
        let answer = browser.begin("/now");
        assert_eq!(answer.header("set-cookie"), None);
        browser.demand_refused(answer, 401, words);
    }
    pages.issuer.set_mode(IssuerMode::Well);
    let place = browser.at_issuer("/now");
    pages.issuer.set_mode(IssuerMode::Dead);
    browser.demand_refused(browser.ask(&[], &place), 401, "cannot be asked");
    pages.issuer.set_mode(IssuerMode::Well);
    browser.sign_in("/now").expect(200);
    // One without an ID token.
    let other = Browser::new(&pages);
    let place = other.at_issuer("/now");
    pages
        .issuer
        .set_answer(Some(json!({"access_token": "a", "token_type": "Bearer"})));
    other.demand_refused(other.ask(&[], &place), 401, "no ID token");
    pages.server.log().demand_no_secrets();
}

#[test]
fn an_issuer_that_was_mended_or_has_moved_is_used_again() {
    let name = "an_issuer_that_was_mended_or_has_moved_is_used_again";
    let Some(pages) = available(name, start("pages-issuer-mended")) else {
        return;
    };
    let (browser, issuer) = (Browser::new(&pages), &pages.issuer);
    for wrong in [
        json!(null),
        json!("javascript:alert(1)"),
        json!("http://localhost/authorize"),
    ] {
        issuer.set_document(&json!({"authorization_endpoint": wrong}));
        browser.demand_refused(browser.begin("/now"), 401, "no authorization endpoint");
    }
    issuer.set_document(&json!({"token_endpoint": "http://localhost/token"}));
    let answer = browser.sign_in("/now");
    browser.demand_refused(answer, 401, "its token endpoint has no https URL");
    // A sign-in needs none of these.
    let others = json!({"device_authorization_endpoint": "http://localhost/device", "revocation_endpoint": "::::"});
    issuer.set_document(&others);
    browser.sign_in("/now").expect(200);

    issuer.set_document(&json!({}));
    issuer.move_tokens("/moved/token");
    let other = Browser::new(&pages);
    let answer = other.sign_in("/now");
    other.demand_refused(answer, 401, "status 404");
    issuer.set_sign_in(SignInAnswers {
        is_nameless: true,
        ..SignInAnswers::default()
    });
    let answer = other.sign_in("/now");
    other.demand_refused(answer, 401, "does not say who has");
    issuer.set_document(&json!({"authorization_response_iss_parameter_supported": false}));
    other.sign_in("/now").expect(200);
    assert_eq!(other.status(), 200);
    pages.server.log().demand_no_secrets();
}

#[test]
fn a_server_with_a_secret_shows_it_to_its_issuer() {
    let name = "a_server_with_a_secret_shows_it_to_its_issuer";
    let Some(lab) = available(name, Lab::new("pages-issuer-secret")) else {
        return;
    };
    let file = lab.file(format!("{}\n", TOKEN_CLIENT.1).as_bytes());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    secrets::note("the secret of a client", TOKEN_CLIENT.1);
    let web = format!(
        "{VIEWERS}oidc_client_id = \"{}\"\noidc_client_secret_file = {file:?}\noidc_button = \"In & out\"\n",
        TOKEN_CLIENT.0
    );
    let pages = GuardedPages::start_in(lab, &web).expect("pages");
    let browser = Browser::new(&pages);
    let asked = browser.ask(&[], &format!("{}/sign-in", pages.url)).expect(200).text();
    assert!(asked.contains("In &#38; out"), "{asked}");
    browser.sign_in("/now").expect(200);
    assert_eq!(browser.status(), 200);
    let sent = pages.issuer.grants().latest;
    assert!(
        !sent.iter().any(|pair| pair.contains("secret")),
        "not in the form: {sent:?}"
    );
    let document = browser.ask(&["-H", "Accept: application/json"], &format!("{}/endpoint", pages.url));
    assert!(!document.expect(200).text().contains(TOKEN_CLIENT.1));
    pages.server.log().demand_no_secrets();
}

#[test]
fn a_session_ends_with_its_issuer() {
    let name = "a_session_ends_with_its_issuer";
    let Some(pages) = available(name, start("pages-issuer-gone")) else {
        return;
    };
    let (at_issuer, by_form) = (Browser::new(&pages), Browser::new(&pages));
    at_issuer.sign_in("/now").expect(200);
    pages.sign_in(&by_form.jar, "jane", "/").expect(303);
    let statuses = || [at_issuer.status(), by_form.status()];
    assert_eq!(statuses(), [200; 2]);
    let file = pages.server.configuration();
    let text = fs::read_to_string(&file).expect("a configuration");

    // Another client there counts from the next start on, which ends all sessions.
    let client = format!("oidc_client_id = \"{PUBLIC_CLIENT}\"");
    assert!(text.contains(&client), "{text}");
    fs::write(&file, text.replace(&client, "oidc_client_id = \"another\"")).expect("a new one");
    until("it waits for a restart", LIMIT, || {
        let is_ignored = |line: &Value| line["event"] == "reload_ignored" && line["key"] == "web.oidc_client_id";
        log_lines(pages.server.log()).iter().any(is_ignored)
    });
    assert_eq!(statuses(), [200; 2]);
    let begun = Browser::new(&pages).begin("/now").expect(303);
    let to = begun.header("location").expect("the issuer");
    assert_eq!(parameter(to, "client_id"), PUBLIC_CLIENT, "{to}");

    let issuer = format!("[[issuer]]\nurl = \"{}\"", pages.issuer.url());
    assert!(text.contains(&issuer), "{text}");
    let gone = text.replace(&issuer, "[[issuer]]\nurl = \"https://other.example\"");
    let kept = gone.lines().filter(|line| !line.starts_with("oidc_"));
    let gone: String = kept.map(|line| format!("{line}\n")).collect();
    fs::write(&file, gone).expect("one without the issuer");
    until("both are out", LIMIT, || statuses() == [401; 2]);
    let answer = at_issuer.sign_in("/now");
    at_issuer.demand_refused(answer, 401, "its ID token is refused");

    // It is accepted again: its sessions of before do not come back.
    fs::write(&file, &text).expect("the old one");
    until("in by signing in", LIMIT, || {
        Browser::new(&pages).sign_in("/now").status == 200
    });
    assert_eq!(statuses(), [401; 2]);
}
