//! `[tpc] pass_token_to`: the token of an order goes to the peer if its host is named, and to no
//! other server.

use std::time::Duration;

use conformance::{Lab, bytes, last_line, requests, until};
use testkit::{Access, Crossload, Result, TokenIssuer, available, require};

const ANY: &str = "https://wlcg.cern.ch/jwt/v1/any";

struct Site {
    lab: Lab,
    issuer: TokenIssuer,
    passive: Crossload,
}

fn site() -> Result<Site> {
    require("curl")?;
    let lab = Lab::new("pass-token")?;
    let issuer = TokenIssuer::start(lab.authority())?;
    let mut options = lab.options("passive");
    options.exports[0].anonymous = Access::None;
    options.more = believes(&issuer);
    let passive = lab.crossload(options)?;
    Ok(Site { lab, issuer, passive })
}

fn believes(issuer: &TokenIssuer) -> String {
    format!("[[issuer]]\nurl = \"{}\"\nbase_paths = [\"/data\"]\n", issuer.url())
}

impl Site {
    /// A server that makes copies, with these lines in its section `[tpc]`.
    fn active(&self, name: &str, tpc: &str) -> Crossload {
        let mut options = self.lab.options(name);
        options.exports[0].anonymous = Access::None;
        options.more = believes(&self.issuer);
        options.tpc = tpc.to_owned();
        self.lab.crossload(options).expect("a server")
    }
}

#[test]
fn a_token_is_passed_on_to_the_server_that_is_named_and_to_no_other() {
    let test = "a_token_is_passed_on_to_the_server_that_is_named_and_to_no_other";
    let Some(site) = available(test, site()) else {
        return;
    };
    let content = bytes(300_000, 61);
    std::fs::write(site.passive.data().join("f"), &content).expect("a file");
    let token = site
        .issuer
        .token()
        .audience(ANY)
        .scope("storage.read:/ storage.modify:/")
        .mint();
    let bearer = format!("Authorization: Bearer {token}");
    let (source, pushed) = (site.passive.url("/data/f"), site.passive.url("/data/pushed"));
    for (name, tpc, is_passed) in [
        ("silent", "", false),
        ("elsewhere", "pass_token_to = [\"other.example\"]\n", false),
        ("named", "pass_token_to = [\"localhost\"]\n", true),
    ] {
        let active = site.active(name, tpc);
        std::fs::write(active.data().join("own"), &content).expect("a file");
        let before = requests(site.passive.log()).len();
        let pull = site
            .lab
            .copy(&active.url("/data/pulled"), &format!("Source: {source}"), &[&bearer]);
        let push = site
            .lab
            .copy(&active.url("/data/own"), &format!("Destination: {pushed}"), &[&bearer]);
        let ended = [&pull, &push].map(|answer| answer.status < 300 && last_line(answer).starts_with("success"));
        assert_eq!(ended, [is_passed; 2], "{name}: {} {}", pull.text(), push.text());
        // Lines come behind the answers.
        let mut seen = Vec::new();
        until("the other side was asked", Duration::from_secs(30), || {
            seen = requests(site.passive.log()).split_off(before);
            seen.iter().any(|line| line["method"] == "PUT") || (!is_passed && !seen.is_empty())
        });
        let by_token = seen.iter().any(|line| line["credential"] == "token");
        assert_eq!(by_token, is_passed, "{name}: {seen:?}");
        assert!(!active.log().stderr().contains(&token), "it is in no log");
        if is_passed {
            assert!(std::fs::read(active.data().join("pulled")).expect("there") == content);
            assert!(std::fs::read(site.passive.data().join("pushed")).expect("there") == content);
        }
        // In clear text it goes nowhere, even to a named host.
        let clear = format!("Source: {}", site.passive.clear_url("/data/f"));
        let answer = site.lab.copy(&active.url("/data/clear"), &clear, &[&bearer]);
        assert!(
            answer.status >= 300 || !last_line(&answer).starts_with("success"),
            "{name}: {}",
            answer.text()
        );
    }
}
