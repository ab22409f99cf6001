//! What pages show of a server; the server gathers it.

use std::net::IpAddr;

use credentials::Credential;
use policy::Operation;
use serde::Serialize;
use serde_json::Value;
use types::LogicalPath;

use crate::words::Words;

/// A server, as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndpointFacts {
    /// Its addresses, each with its scheme.
    pub addresses: Vec<Words>,
    /// When it was started, in seconds since 1970.
    pub started_s: i64,
    /// Why the last reload failed; the configuration before it stays in use.
    pub reload_fault: Option<Words>,
    /// The configuration in effect, without secrets.
    pub configuration: Vec<Section>,
    /// Its own certificate, those of authorities, and their revocation lists.
    pub certificates: Vec<Certificate>,
    /// Certificates and lists that could not be read.
    pub certificates_unread: usize,
    /// What it serves, and to whom.
    pub exports: Vec<Export>,
    /// Whether it can do its work, as `/ready` at the admin port says.
    pub checks: Vec<Check>,
}

/// A question: may this client do that?
#[derive(Clone, Debug)]
pub struct ExplainQuestion {
    /// The path.
    pub path: LogicalPath,
    /// What the client wants to do with it.
    pub operations: Vec<Operation>,
    /// The client. Nothing about it was verified.
    pub credential: Credential,
    /// Where it comes from.
    pub address: IpAddr,
}

/// What a server answers for one operation.
#[derive(Clone, Debug)]
pub struct ExplainAnswer {
    /// For programs.
    pub value: Value,
    /// For people.
    pub lines: Vec<Words>,
}

/// A section of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// Its number among those of its name, from 1, if there can be several.
    pub number: Option<usize>,
    /// Its keys.
    pub keys: Vec<Key>,
}

/// A key of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: Words,
    /// Its value.
    pub value: Setting,
    /// Whether that is the default.
    pub is_default: bool,
    /// When a change takes effect.
    pub reload: &'static str,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// It is not set.
    Unset,
    /// As TOML.
    Text(Words),
    /// It is set, and not shown.
    Hidden,
}

/// A certificate or revocation list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// What it is, such as `revocation list`.
    pub kind: &'static str,
    /// Whose it is: the subject of a certificate, the issuer of a list.
    pub of: Words,
    /// Its file.
    pub file: Words,
    /// When it ends, in seconds since 1970; `None` if never.
    pub ends_s: Option<i64>,
}

/// An export, and who may do what there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Export {
    /// Its URL path.
    pub path: Words,
    /// Where its files are.
    pub files: Words,
    /// What clients without a credential may do.
    pub anonymous: &'static str,
    /// What no rule or token exceeds; empty: no limit.
    pub at_most: Words,
    /// The rules that concern it.
    pub rules: Vec<Words>,
}

/// A check of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: Words,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found.
    pub says: Words,
}

/// What clients share of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its name in metrics.
    pub name: &'static str,
    /// How much is in use now.
    pub in_use: usize,
    /// How much there is.
    pub limit: usize,
}

impl Share {
    /// Its name for people.
    pub(crate) fn label(&self) -> String {
        self.name.replace('_', " ")
    }
}
