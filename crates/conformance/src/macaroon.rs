//! Asking for macaroons, and a pair of servers: one issues them, the other requires them.

use std::fs;

use serde_json::{Value, json};
use testkit::{Access, Crossload, CrossloadOptions, Result, secrets};

use crate::endpoint::Endpoint;
use crate::lab::Lab;

/// Two of our servers over the same files and with the same secret: one open, which gives macaroons
/// to everybody, and one that does nothing without.
#[derive(Debug)]
pub struct Twins {
    /// Gives macaroons out.
    pub open: Endpoint,
    /// Wants macaroons.
    pub guarded: Endpoint,
}

impl Twins {
    /// Starts both.
    ///
    /// # Errors
    /// As [`Crossload::start`].
    pub fn start(lab: &Lab, name: &str) -> Result<Self> {
        Self::start_with(lab, name, |_| {})
    }

    /// Starts both, with changed options of the guarded one.
    ///
    /// # Errors
    /// As [`Crossload::start`].
    pub fn start_with(lab: &Lab, name: &str, change: impl FnOnce(&mut CrossloadOptions)) -> Result<Self> {
        let options = lab.options(&format!("{name}-open"));
        let mut guarded = lab.options(&format!("{name}-guarded"));
        let secret = "macaroon.secret";
        let first = options.directory.join(secret);
        guarded.exports[0].directory.clone_from(&options.exports[0].directory);
        guarded.exports[0].anonymous = Access::None;
        change(&mut guarded);
        let open = Crossload::start(options)?;
        fs::create_dir_all(&guarded.directory)?;
        fs::copy(first, guarded.directory.join(secret))?;
        let guarded = Crossload::start(guarded)?;
        Ok(Self {
            open: Endpoint::Crossload(Box::new(open)),
            guarded: Endpoint::Crossload(Box::new(guarded)),
        })
    }

    /// A macaroon that the guarded one takes for `name` and what is below it.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    #[must_use]
    pub fn macaroon(&self, lab: &Lab, name: &str, activities: &str) -> String {
        macaroon(lab, &self.open.url(name), &[&format!("activity:{activities}")], &[])
    }
}

/// Asks for a macaroon in the form of XRootD and dCache.
///
/// # Panics
/// When it is refused.
#[track_caller]
#[must_use]
pub fn macaroon(lab: &Lab, url: &str, caveats: &[&str], headers: &[&str]) -> String {
    let body = json!({"caveats": caveats, "validity": "PT12H"}).to_string();
    let mut all = vec!["Content-Type: application/macaroon-request"];
    all.extend(headers);
    let mut arguments = vec!["-X", "POST", "-d", &body];
    for header in all {
        arguments.extend(["-H", header]);
    }
    arguments.push(url);
    let answer = lab.curl(&arguments).expect(200);
    let value: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let macaroon = value["macaroon"].as_str().expect("a macaroon");
    secrets::note("a macaroon", macaroon);
    macaroon.to_owned()
}

/// Asks for a macaroon in the form of OAuth 2, with the parameter `scope` or, as gfal2 spells it,
/// `scopes`.
///
/// # Panics
/// When it is refused.
#[track_caller]
#[must_use]
pub fn oauth_macaroon(lab: &Lab, endpoint: &str, parameter: &str, scope: &str) -> String {
    let scope = format!("{parameter}={scope}");
    let answer = lab.curl(&[
        "--data",
        "grant_type=client_credentials",
        "--data",
        "expire_in=600",
        "--data-urlencode",
        &scope,
        endpoint,
    ]);
    let answer = answer.expect(200);
    let value: Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert!(value["expires_in"].as_u64().is_some_and(|s| s <= 600), "{value}");
    let token = value["access_token"].as_str().expect("a token");
    secrets::note("a macaroon", token);
    token.to_owned()
}
