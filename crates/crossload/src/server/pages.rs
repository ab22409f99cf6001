//! The pages for operators: their port, and the facts that they show.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::shown::{ShownValue, shown, without_passwords};
use config::{Configuration, Export};
use credentials::Activities;
use door_admin::Admin;
use door_web::{
    Access, Check, EndpointFacts, EndpointPages, IssuerSettings, KeptRuns, Key, Manual, Section, Setting, Share, Words,
};
use endpoint::{FairShare, ShareKind, clock};
use http_server::Server;
use http_server::control::shares;
use net::listen::Acceptor;
use policy::Rule;
use remote::TokenProvider;
use tokio::sync::Mutex;

use super::assemble::{Assembly, PRODUCT, named_place};
use super::certificate_list::CertificateList;
use super::events::AdminLog;
use super::subsystem::{Change, Current, Ground, Renewal, Subsystem};
use super::{certificate_list, explained, rules, secret};
use crate::failure::Failure;
use crate::made_client::new_client;

/// Facts are gathered anew after this time, however many pages are open.
const FACTS_AGE_MAX: Duration = Duration::from_secs(1);

/// What the pages follow.
pub(crate) struct Pages {
    /// The configuration in effect.
    configuration: Current<Arc<Configuration>>,
}

impl Subsystem for Pages {
    type Ground = Ground;

    fn build(_ground: &Ground, configuration: &Configuration) -> Result<Self, Failure> {
        Ok(Self {
            configuration: Current::new(Arc::new(configuration.clone())),
        })
    }

    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        Ok(self.configuration.becomes(Arc::new(change.fresh.clone())))
    }
}

/// Who may look at the pages.
pub(crate) fn viewers(configuration: &Configuration) -> Vec<Rule> {
    let viewers = configuration.web.viewers.iter();
    viewers.map(config::RuleSubjects::rule).collect()
}

/// Who may change what runs.
pub(crate) fn operators(configuration: &Configuration) -> Vec<Rule> {
    let operators = configuration.web.operators.iter();
    operators.map(config::RuleSubjects::rule).collect()
}

/// The issuer at which people sign in to the pages, if there is one.
///
/// # Errors
/// The secret cannot be read, or no issuer has this name.
fn issuer(configuration: &Configuration, ground: &Ground) -> Result<Option<IssuerSettings>, Failure> {
    let web = &configuration.web;
    let (Some(issuer), Some(client_id)) = (&web.oidc_issuer, &web.oidc_client_id) else {
        return Ok(None);
    };
    if !ground.authenticator.accepts_issuer(issuer) {
        return Err(Failure::invalid(format!(
            "web.oidc_issuer: tokens of {issuer} are not accepted; add an [[issuer]] with this url, byte for byte"
        )));
    }
    let secret = web.oidc_client_secret_file.as_deref().map(secret::load_client_secret);
    Ok(Some(IssuerSettings {
        provider: TokenProvider {
            issuer: issuer.clone(),
            client_id: client_id.clone(),
            client_secret: secret.transpose()?,
            token_url: None,
        },
        // The site names the issuer itself, so that it may have any address.
        client: new_client(ground.trust.clone()),
        scopes: web.oidc_scopes.clone(),
        words: web.oidc_button.clone(),
        redirect_url: web.oidc_redirect_url.clone(),
    }))
}

/// With the issuer at which people sign in, if the configuration names one.
///
/// # Errors
/// As [`issuer`].
pub(crate) fn with_issuer(access: Access, configuration: &Configuration, ground: &Ground) -> Result<Access, Failure> {
    Ok(match issuer(configuration, ground)? {
        Some(issuer) => access.with_issuer(issuer),
        None => access,
    })
}

impl Pages {
    /// What pages take from the configuration.
    #[cfg(test)]
    pub(crate) fn wanted(&self) -> String {
        let configuration = self.configuration.get();
        let (viewers, operators) = (viewers(&configuration), operators(&configuration));
        format!("{viewers:?} {operators:?} {:?}", configuration.web.history)
    }
}

/// What facts about the endpoint are gathered from.
struct Gatherer {
    configuration: Current<Arc<Configuration>>,
    /// Where the doors listen.
    addresses: Vec<SocketAddr>,
    /// The checks of the admin door.
    admin: Arc<Admin>,
    started_s: i64,
    /// The facts that were gathered last.
    kept: Mutex<Option<(Instant, EndpointFacts)>>,
}

/// Opens the port of the pages of an endpoint.
///
/// # Errors
/// The listener cannot be used.
pub(crate) fn open(listener: TcpListener, assembly: &Assembly, admin: Arc<Admin>) -> Result<(), Failure> {
    let address = listener.local_addr();
    let address = address.map_err(|cause| Failure::system("listening", &cause))?;
    let ground = &assembly.ground;
    let server = Server {
        tls: assembly.certificate.tls.get(),
        authenticator: ground.authenticator.clone(),
        ..Server::new(PRODUCT, Arc::new(AdminLog(ground.observer.clone())))
    };
    let configuration = assembly.pages.configuration.clone();
    let fair_share = ground.fair_share.clone();
    let gatherer = Arc::new(Gatherer {
        configuration: configuration.clone(),
        addresses: ground.addresses.clone(),
        admin,
        started_s: clock::now_s(),
        kept: Mutex::default(),
    });
    let (followed, operated) = (configuration.clone(), configuration.clone());
    let asked = configuration.clone();
    let started_with = configuration.get();
    let access = Access::new(
        address,
        ground.authenticator.clone(),
        Box::new(move || viewers(&configuration.get())),
        Box::new(move || operators(&operated.get())),
        ground.observer.clone(),
    );
    let pages = door_web::Pages {
        server: name(&started_with),
        program: PRODUCT.to_owned(),
        access: with_issuer(access, &started_with, ground)?,
        cluster: Some(assembly.exported.cluster()),
        runs: Some(KeptRuns::new(move || followed.get().web.history.clone())),
        manual: Manual::at(started_with.web.manual_directory()),
        endpoint: Some(EndpointPages {
            facts: Box::new(move || Box::pin(gatherer.clone().facts())),
            explain: Box::new(move |question| Box::pin(explained::answer(asked.get(), question))),
            copies: ground.observer.running().cloned().unwrap_or_default(),
            shares: Box::new(move || shares_of(&fair_share)),
        }),
        queue: None,
    };
    serve(listener, server, pages)
}

/// Serves pages for as long as the process runs: they stay open while other doors close, and show
/// what still runs.
///
/// # Errors
/// The listener cannot be used.
pub(crate) fn serve(listener: TcpListener, server: Server, pages: door_web::Pages) -> Result<(), Failure> {
    let listener = Acceptor::new(listener).map_err(|cause| Failure::system("listening", &cause))?;
    let server = Server {
        fair_share: shares(door_web::limits::WEB_CONNECTIONS_MAX),
        ..server
    };
    let door = door_web::door(server, pages);
    tokio::spawn(async move { door.accept(listener).await });
    Ok(())
}

/// What clients hold now.
fn shares_of(fair_share: &FairShare) -> Vec<Share> {
    let share = |kind: ShareKind| Share {
        name: kind.name(),
        in_use: fair_share.in_use(kind),
        limit: fair_share.limit(kind),
    };
    ShareKind::ALL.into_iter().map(share).collect()
}

/// The name of this server for people.
fn name(configuration: &Configuration) -> String {
    match named_place(configuration) {
        Some(place) => place.host().to_owned(),
        None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    }
}

impl Gatherer {
    async fn facts(self: Arc<Self>) -> EndpointFacts {
        // Those who come meanwhile wait for the same facts.
        let mut kept = self.kept.lock().await;
        if let Some((_, facts)) = kept.as_ref().filter(|(at, _)| at.elapsed() < FACTS_AGE_MAX) {
            return facts.clone();
        }
        let facts = self.gather().await;
        *kept = Some((Instant::now(), facts.clone()));
        facts
    }

    async fn gather(&self) -> EndpointFacts {
        let configuration = self.configuration.get();
        let checks = self.admin.checks().await;
        let checks = checks.into_iter().map(|check| Check {
            name: check.name.into(),
            ok: check.ok,
            says: check.says.into(),
        });
        let scheme = match configuration.server.certificate {
            Some(_) => "https",
            None => "http",
        };
        let address = |address: &SocketAddr| Words::from(format!("{scheme}://{address}"));
        let mut facts = EndpointFacts {
            addresses: self.addresses.iter().map(address).collect(),
            started_s: self.started_s,
            reload_fault: (self.admin.reload)().and_then(|reload| reload.fault).map(Words::from),
            configuration: sections(&configuration),
            checks: checks.collect(),
            ..EndpointFacts::default()
        };
        // Files are read beside the threads that serve.
        let read = execution::blocking(move || (certificate_list::read(&configuration), exports(&configuration)));
        if let Ok((CertificateList { certificates, unread }, exports)) = read.await {
            facts.certificates = certificates;
            facts.certificates_unread = unread;
            facts.exports = exports;
        }
        facts
    }
}

/// The configuration without secrets.
fn sections(configuration: &Configuration) -> Vec<Section> {
    let key = |key: config::shown::ShownKey| Key {
        name: key.key.name,
        about: flow(key.key.about).into(),
        value: match key.value {
            ShownValue::Unset => Setting::Unset,
            ShownValue::Hidden => Setting::Hidden,
            ShownValue::Text(text) => Setting::Text(text.into()),
        },
        is_default: key.is_default,
        reload: key.key.facts.reload.label(),
    };
    let sections = shown(configuration).into_iter();
    sections
        .map(|section| Section {
            name: section.name,
            number: section.number,
            keys: section.keys.into_iter().map(key).collect(),
        })
        .collect()
}

/// Text of several lines as one.
fn flow(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The exports, each with the rules that concern it.
fn exports(configuration: &Configuration) -> Vec<door_web::Export> {
    // A broken authdb is not in effect; the reload says so.
    let rules = rules::rules(configuration).unwrap_or_else(|_| configuration.policy_rules());
    let own = configuration
        .exports
        .iter()
        .map(|export| (export.rules(), files_of(export)));
    let tree = (!configuration.nodes.is_empty()).then(|| {
        let files = format!("{} nodes behind this redirector", configuration.nodes.len());
        (configuration.redirector.rules(), files)
    });
    let all = own.chain(tree);
    all.map(|(export, files)| {
        let at_most = export.ceiling();
        let concerns = |rule: &&Rule| rules::meets(&rule.area.to_string(), export.path.as_str());
        door_web::Export {
            path: export.path.to_string().into(),
            files: files.into(),
            anonymous: export.anonymous.name(),
            at_most: match at_most == Activities::ALL {
                true => Words::default(),
                false => at_most.to_string().into(),
            },
            rules: rules
                .iter()
                .filter(concerns)
                .map(|rule| rule.to_string().into())
                .collect(),
        }
    })
    .collect()
}

/// Where the files of an export are, in words.
fn files_of(export: &Export) -> String {
    let shown = |directory: &PathBuf| format!("directory {}", directory.display());
    let elsewhere = export.remote.as_ref().or(export.s3.as_ref());
    match (&export.directory, elsewhere) {
        (Some(directory), _) => shown(directory),
        (None, Some(url)) => without_passwords(url),
        (None, None) => format!("servers that clients name: {}", export.remote_hosts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_issuer_sends_browsers_to_where_the_configuration_says() {
        assert_eq!(config::RETURN_PATH, door_web::RETURN_PATH);
    }

    #[test]
    fn exports_have_the_rules_that_concern_them() {
        let text = "[[export]]\npath = \"/a\"\ndirectory = \"d\"\nanonymous = \"read\"\n\
            [[export]]\npath = \"/b\"\nremote = \"https://far.example/x\"\nread_only = true\n\
            [[rule]]\nwho = \"vo:one\"\npath = \"/a/x\"\nmay = \"read\"\n\
            [[rule]]\nwho = \"vo:two\"\nmay = \"all\"\n";
        let configuration = Configuration::parse(text, Path::new("/srv"), "c").unwrap();
        let exports = exports(&configuration);
        let texts = |index: usize| -> Vec<String> { exports[index].rules.iter().map(Words::to_string).collect() };
        assert_eq!(
            (exports[0].anonymous, exports[0].files.raw()),
            ("read", "directory /srv/d")
        );
        assert!(exports[0].at_most.is_empty() && !exports[1].at_most.is_empty());
        assert_eq!(texts(0).len(), 2);
        assert!(texts(0)[0].contains("vo:one"), "{:?}", texts(0));
        assert_eq!(texts(1).len(), 1);
        assert_eq!(exports[1].files.raw(), "https://far.example/x");
    }

    #[test]
    fn the_configuration_has_words_and_no_secret() {
        let text = "[macaroons]\nsecret_file = \"hush\"\n";
        let configuration = Configuration::parse(text, Path::new("/srv"), "c").unwrap();
        let sections = sections(&configuration);
        let section = sections.iter().find(|section| section.name == "macaroons").unwrap();
        let key = section.keys.iter().find(|key| key.name == "secret_file").unwrap();
        assert_eq!(key.value, Setting::Hidden);
        assert!(!key.about.raw().contains('\n') && !key.is_default);
    }
}
