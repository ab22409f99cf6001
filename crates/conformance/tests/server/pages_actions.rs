//! What operators do on the pages: ending a copy, and every way in which others may not.

use std::fs;
use std::time::Duration;

use conformance::{Answer, Lab, Look, Terminal, assert_pages_are_good, background, log_lines, look_at, until};
use serde_json::Value;
use testkit::{Process, Result, TokenIssuer, available};

use crate::pages::{PART_BYTES, SlowSource};
use crate::pages_sign_in::{GuardedPages, field};

/// Limit for what must happen.
const LIMIT: Duration = Duration::from_secs(60);

const JANE: &str = "/O=Crossload test/CN=Jane Doe";

/// Everyone on this machine may look; an operator of the issuer, and Jane by her certificate, may
/// act.
fn operated(name: &str) -> Result<GuardedPages> {
    // A copy that is looked at waits until the browser is free.
    let operators = format!(
        "operators = [[\"issuer:ISSUER\", \"subject:olga\"], \"dn:{JANE}\"]\n[limits]\nstall_timeout = \"10m\""
    );
    GuardedPages::start(name, &operators)
}

/// A copy that moves until it is ended.
struct Moving {
    copy: Process,
    id: String,
    /// It sends nothing more while this is held.
    _source: SlowSource,
}

impl Moving {
    fn start(pages: &GuardedPages, name: &str) -> Self {
        let source = SlowSource::start();
        let from = format!("Source: http://127.0.0.1:{}/{name}", source.port);
        let to = pages.server.url(&format!("/data/{name}"));
        let arguments = ["-X", "COPY", "--max-time", "600", "-H", &from, &to];
        let mut command = pages.lab.curl_command(&arguments).expect("curl");
        let copy = background(&mut command, pages.lab.scratch()).expect("curl");
        let mut id = String::new();
        until("moving", LIMIT, || {
            let now = running(pages);
            let copies = now["copies"].as_array().cloned().unwrap_or_default();
            let this = copies.iter().find(|copy| copy["bytes"] == PART_BYTES);
            id = this
                .map_or("", |copy| copy["transfer_id"].as_str().expect("an ID"))
                .to_owned();
            !id.is_empty()
        });
        Self {
            copy,
            id,
            _source: source,
        }
    }

    /// Demands that it has ended as an operator wanted it.
    fn demand_ended(mut self, pages: &GuardedPages, name: &str) {
        until("ended", LIMIT, || !self.copy.is_running());
        let said = self.copy.stdout();
        assert!(
            said.contains("failure") && said.contains("canceled by an operator"),
            "{said}"
        );
        until("gone", LIMIT, || running(pages)["totals"]["running"] == 0);
        assert!(!pages.server.data().join(name).exists(), "nothing is stored");
        until("logged", LIMIT, || {
            let lines = log_lines(pages.server.log());
            let acted = |line: &&Value| line["event"] == "operator_action" && line["transfer_id"] == self.id.as_str();
            let ended = |line: &&Value| line["event"] == "transfer" && line["transfer_id"] == self.id.as_str();
            let action = lines.iter().find(acted);
            let transfer = lines.iter().find(ended);
            action.is_some_and(|line| line["result"] == "done" && line["who"].is_string())
                && transfer.is_some_and(|line| line["error"]["message"].to_string().contains("canceled by an operator"))
        });
    }
}

fn running(pages: &GuardedPages) -> Value {
    pages.lab.page_json(&format!("{}/now", pages.url))
}

#[test]
fn an_operator_ends_a_copy_and_no_other_client_does() {
    let name = "an_operator_ends_a_copy_and_no_other_client_does";
    let Some(pages) = available(name, operated("pages-cancel")) else {
        return;
    };
    let (lab, url) = (&pages.lab, &pages.url);
    let moving = Moving::start(&pages, "f");
    let (cancel, id) = (format!("{url}/now/cancel"), format!("id={}", moving.id));
    let post = |words: &[&str]| -> Answer { lab.curl(&[words, &["-d", &id, &cancel]].concat()) };
    // Without a credential, with tokens of others, and with one for data.
    let open = lab.curl(&[&format!("{url}/now")]).expect(200).text();
    assert!(
        open.contains("href=\"/sign-in\"") && !open.contains("/now/cancel"),
        "{open}"
    );
    post(&[]).expect(403);
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    post(&["-H", &bearer(&pages.token("jane"))]).expect(403);
    let data = pages.issuer.token().claim("sub", "olga").scope("storage.read:/").mint();
    post(&["-H", &bearer(&data)]).expect(403);
    let stranger = TokenIssuer::start(lab.authority()).expect("an issuer");
    post(&["-H", &bearer(&stranger.token().claim("sub", "olga").mint())]).expect(401);
    let refused = pages.sign_in(&pages.jar(), "jane", "/").expect(403).text();
    assert!(refused.contains("operators does not name this client"), "{refused}");

    let (jar, other) = (pages.jar(), pages.jar());
    for jar in [&jar, &other] {
        pages.sign_in(jar, "olga", "/now").expect(303);
    }
    let page = lab.curl(&["-b", &jar, &format!("{url}/now")]).expect(200).text();
    assert!(page.contains(&format!("/now/cancel?id={}", moving.id)), "{page}");
    let token_of = |jar: &str| {
        let asked = lab.curl(&["-b", jar, &format!("{cancel}?{id}")]).expect(200).text();
        assert!(
            asked.contains("/data/f") && asked.contains("The copy ends at once"),
            "{asked}"
        );
        format!("form={}", field(&asked, "form"))
    };
    let (form, others) = (token_of(&jar), token_of(&other));
    for forged in [
        &["-d", "form="][..],
        &["-d", "form=0123456789abcdef"],
        &["-d", &others],
        &["-H", "Origin: https://evil.example", "-d", &form],
        &["-H", "Sec-Fetch-Site: cross-site", "-d", &form],
        &["-H", "Sec-Fetch-Site: same-site", "-H", "Origin: null", "-d", &form],
    ] {
        let said = post(&[&["-b", &jar][..], forged].concat()).expect(403).text();
        assert!(said.contains("form"), "{said}");
    }
    lab.curl(&["-b", &jar, &format!("{cancel}?{id}&{form}")]).expect(200);
    lab.curl(&["-b", &jar, "-d", "id=none", "-d", &form, &cancel])
        .expect(404);
    assert_eq!(running(&pages)["totals"]["running"], 1, "nothing has ended it");
    let look = Look::new(url, &["/now", &format!("/now/cancel?{id}")]).signed_in_with(&pages.token("olga"));
    if let Some(seen) = available(name, look_at(lab, &look)) {
        assert_pages_are_good(&seen, &["/now", "/now/cancel"]);
    }
    let answer = post(&["-b", &jar, "-d", &form]).expect(303);
    assert_eq!(answer.header("location"), Some("/now"));
    moving.demand_ended(&pages, "f");
    // A page that stayed open after the session ended.
    let token = field(&page, "form");
    lab.curl(&["-b", &jar, "-d", &format!("form={token}"), &format!("{url}/sign-out")])
        .expect(303);
    post(&["-b", &jar, "-d", &form]).expect(403);
}

#[test]
fn programs_and_certificates_act_without_a_session() {
    let name = "programs_and_certificates_act_without_a_session";
    let Some(pages) = available(name, operated_with_certificates("pages-programs")) else {
        return;
    };
    let (lab, cancel) = (&pages.lab, format!("{}/now/cancel", pages.url));
    let json = ["-H", "Accept: application/json"];
    let moving = Moving::start(&pages, "by-token");
    let id = format!("id={}", moving.id);
    let bearer = format!("Authorization: Bearer {}", pages.token("olga"));
    let done = lab
        .curl(&[&json[..], &["-H", &bearer, "-d", &id, &cancel]].concat())
        .expect(200);
    let done: Value = serde_json::from_str(&done.text()).expect("JSON");
    assert_eq!(
        (&done["action"], &done["subject"]),
        (&"cancel_copy".into(), &moving.id.as_str().into())
    );
    moving.demand_ended(&pages, "by-token");

    let user = lab.authority().issue_user(JANE).expect("a certificate");
    let pair = user.write_pair(lab.scratch().path(), "user").expect("files");
    let [certificate, key] = [&pair.0, &pair.1].map(|path| path.to_str().expect("plain"));
    let by = ["--cert", certificate, "--key", key];
    let moving = Moving::start(&pages, "by-certificate");
    let id = format!("id={}", moving.id);
    // A browser shows the certificate for every page, so forms of other sites must not count.
    lab.curl(&[&by[..], &["-d", &id, &cancel]].concat()).expect(403);
    let asked = lab
        .curl(&[&by[..], &json, &[&format!("{cancel}?{id}")]].concat())
        .expect(200);
    let asked: Value = serde_json::from_str(&asked.text()).expect("JSON");
    let form = format!("form={}", asked["form"].as_str().expect("a token"));
    lab.curl(&["-d", &id, "-d", &form, &cancel]).expect(403);
    lab.curl(&[&by[..], &["-d", &id, "-d", &form, &cancel]].concat())
        .expect(303);
    moving.demand_ended(&pages, "by-certificate");
}

/// `top` on a terminal, with the token of this user of the issuer, or without one.
fn top<'a>(pages: &'a GuardedPages, user: Option<&str>) -> Result<Terminal<'a>> {
    let (lab, terminal) = (&pages.lab, Terminal::new(&pages.lab)?);
    let token = user.map(|user| lab.file(pages.token(user).as_bytes()));
    let token = token.as_ref().map(|file| file.to_str().expect("plain"));
    let options = token.map_or(vec![], |file| vec!["--token-file", file]);
    let arguments = lab.client_arguments("top", &[&options[..], &[pages.url.as_str()]].concat());
    let program = lab.client(&arguments)?.get_program().to_owned();
    let line = format!("{} {}", program.display(), arguments.join(" "));
    terminal.start(200, lab.scratch().path(), &line);
    Ok(terminal)
}

#[test]
fn top_ends_a_copy_for_an_operator_and_for_no_other_client() {
    let name = "top_ends_a_copy_for_an_operator_and_for_no_other_client";
    let Some(pages) = available(name, operated("pages-top")) else {
        return;
    };
    let moving = Moving::start(&pages, "by-key");
    for (user, words) in [
        (None, "Refused: no credential was sent"),
        (Some("jane"), "operators does not name this client"),
    ] {
        let Some(terminal) = available(name, top(&pages, user)) else {
            return;
        };
        until("the copy is shown", LIMIT, || terminal.shows("/data/by-key"));
        terminal.press(&["j", "c"]);
        until("it is refused", LIMIT, || terminal.shows(words));
    }
    let terminal = top(&pages, Some("olga")).expect("it started before");
    until("the copy is shown", LIMIT, || terminal.shows("/data/by-key"));
    // A yes before the question was there is no answer to it.
    terminal.press(&["j", "c", "y"]);
    let question = format!("End the copy {}? (y/n)", moving.id);
    until("it asks", LIMIT, || {
        terminal.shows(&question) && terminal.shows("to /data/by-key")
    });
    assert!(terminal.coloured().contains("[7m"), "its row is marked");
    terminal.press(&["n"]);
    until("no was understood", LIMIT, || terminal.shows("Nothing was done"));
    assert_eq!(running(&pages)["totals"]["running"], 1);
    terminal.press(&["c"]);
    until("it asks again", LIMIT, || terminal.shows(&question));
    terminal.press(&["y"]);
    let done = format!("Ended the copy {}", moving.id);
    until("it says so", LIMIT, || terminal.shows(&done));
    moving.demand_ended(&pages, "by-key");
}

fn operated_with_certificates(name: &str) -> Result<GuardedPages> {
    let lab = Lab::new(name)?;
    let trust = lab.authority().trust_directory();
    let operators = format!(
        "operators = [[\"issuer:ISSUER\", \"subject:olga\"], \"dn:{JANE}\"]\n[x509]\ntrust_directory = {trust:?}"
    );
    GuardedPages::start_in(lab, &operators)
}

#[test]
fn a_change_of_operators_counts_at_once() {
    let name = "a_change_of_operators_counts_at_once";
    let Some(pages) = available(name, operated("pages-operators")) else {
        return;
    };
    let jar = pages.jar();
    pages.sign_in(&jar, "olga", "/").expect(303);
    let file = pages.server.configuration();
    let text = fs::read_to_string(&file).expect("a configuration");
    fs::write(&file, text.replace("subject:olga", "subject:otto")).expect("a new one");
    let post = || {
        pages
            .lab
            .curl(&["-b", &jar, "-d", "id=x", &format!("{}/now/cancel", pages.url)])
    };
    until("olga is out", LIMIT, || {
        post().text().contains("operators does not name this client")
    });
    assert_eq!(pages.status(&jar), 200, "everyone on this machine may look");
    pages.sign_in(&jar, "otto", "/").expect(303);
}
