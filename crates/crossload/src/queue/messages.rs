//! Messages: the listener for subscribers, and the brokers that get all of them.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use config::Configuration;
use door_queue::messages::{Listener, Password, Subscribers, Topics};
use http_server::Server;
use net::listen::Acceptor;
use net::tls::{ClientIdentity, ClientTls};
use queue::messages::push::{Broker, BrokerLogin, BrokerSettings, Push, PushLog};
use queue::messages::{Feed, FeedSettings};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use types::Error;

use super::state;
use crate::failure::Failure;
use crate::output;
use crate::server::log::Log;
use crate::server::service_manager::Sockets;
use crate::server::{broker_login, secret};

/// What is read and opened before the queue starts, so that mistakes are found at once.
pub(super) struct Prepared {
    sockets: Vec<TcpListener>,
    subscribers: Subscribers,
    brokers: Vec<Broker>,
    settings: Arc<BrokerSettings>,
}

impl Prepared {
    /// # Errors
    /// An address, a file of passwords, or a certificate.
    pub(super) fn build(
        configuration: &Configuration,
        worker: &str,
        trust: &ClientTls,
        inherited: &Sockets,
    ) -> Result<Self, Failure> {
        let messages = &configuration.messages;
        let mut sockets = Vec::new();
        for address in &messages.listen {
            sockets.push(inherited.listen(*address)?);
        }
        let brokers = messages.brokers.iter().map(|url| {
            Broker::parse(url).ok_or_else(|| Failure::invalid(format!("[messages] brokers: \"{url}\" is no broker")))
        });
        Ok(Self {
            sockets,
            subscribers: subscribers(configuration)?,
            brokers: brokers.collect::<Result<_, _>>()?,
            settings: Arc::new(broker_settings(configuration, worker, trust)?),
        })
    }

    /// Starts the listeners and the brokers. `server` is as the door's.
    ///
    /// # Errors
    /// A socket that cannot be watched.
    pub(super) fn start(
        self,
        configuration: &Configuration,
        catalog: Catalog,
        server: Server,
        log: &Log,
    ) -> Result<Messages, Failure> {
        let settings = FeedSettings {
            endpoint: state::host_name(),
            retries: u16::try_from(configuration.queue.retries).unwrap_or(u16::MAX),
        };
        let feed = Feed::new(catalog, settings);
        let topics = Topics::new(feed.clone());
        let listener = Listener::new(server, topics.clone(), self.subscribers);
        let stopping = watch::Sender::new(false);
        let mut tasks = Vec::new();
        if !self.sockets.is_empty() {
            let mut stops = stopping.subscribe();
            tasks.push(tokio::spawn(async move {
                tokio::select! {
                    () = topics.follow() => {}
                    _ = stops.wait_for(|stops| *stops) => {}
                }
            }));
        }
        for socket in self.sockets {
            let address = socket.local_addr().ok();
            let acceptor = Acceptor::new(socket).map_err(|cause| Failure::system("listening", &cause))?;
            let listener = listener.clone();
            tokio::spawn(async move { listener.accept(acceptor).await });
            say(address);
        }
        let brokers = self.brokers.into_iter().map(|broker| {
            broker_login::log_clear_text(log, &broker, self.settings.login.as_ref());
            let push = Push::new(
                feed.clone(),
                broker,
                self.settings.clone(),
                Arc::new(BrokerLog(log.clone())),
            );
            tokio::spawn(push.run(stopping.subscribe()))
        });
        tasks.extend(brokers);
        Ok(Messages {
            listener,
            stopping,
            tasks,
        })
    }
}

fn say(address: Option<SocketAddr>) {
    if let Some(address) = address {
        output::line(&format!("messages on {address}"));
    }
}

fn subscribers(configuration: &Configuration) -> Result<Subscribers, Failure> {
    let messages = &configuration.messages;
    let mut passwords = Vec::new();
    if let Some(file) = &messages.password_file {
        for line in secret::load_passwords(file)? {
            let password = Password::parse(&line);
            passwords.push(password.ok_or_else(|| {
                Failure::invalid(format!("passwords {}: a line is not user:password", file.display()))
            })?);
        }
    }
    Ok(Subscribers {
        passwords,
        rights: state::rights_of(&messages.users, &[]),
        is_open: configuration.queue.anonymous && messages.password_file.is_none() && messages.users.is_empty(),
    })
}

/// What is wrong with the files that are read at the start, by their keys.
pub(crate) fn file_faults(configuration: &Configuration) -> Vec<(&'static str, Failure)> {
    let faults = [
        ("password_file", subscribers(configuration).err()),
        ("broker_password_file", broker_login(configuration).err()),
        ("broker_certificate", broker_identity(configuration).err()),
    ];
    let found = faults.into_iter().filter_map(|(key, fault)| Some((key, fault?)));
    found.collect()
}

fn broker_login(configuration: &Configuration) -> Result<Option<BrokerLogin>, Failure> {
    broker_login::login(configuration.messages.broker_password_file.as_deref())
}

fn broker_identity(configuration: &Configuration) -> Result<Option<ClientIdentity>, Failure> {
    let messages = &configuration.messages;
    broker_login::identity(messages.broker_certificate.as_deref(), messages.broker_key.as_deref())
}

fn broker_settings(configuration: &Configuration, worker: &str, trust: &ClientTls) -> Result<BrokerSettings, Failure> {
    let messages = &configuration.messages;
    let (login, identity) = (broker_login(configuration)?, broker_identity(configuration)?);
    Ok(BrokerSettings {
        worker: worker.to_owned(),
        prefix: messages.broker_prefix.clone(),
        is_persistent: messages.persistent,
        login,
        tls: trust.showing(identity.as_ref()),
    })
}

/// What runs.
pub(super) struct Messages {
    listener: Listener,
    stopping: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Messages {
    /// Ends it. Messages that brokers have not confirmed are sent after the next start, or by
    /// others.
    pub(super) async fn stop(self, grace: Duration) {
        self.stopping.send_replace(true);
        self.listener.shut_down(grace).await;
        for task in self.tasks {
            let _ = tokio::time::timeout(grace, task).await;
        }
    }
}

/// Writes how it goes with brokers.
struct BrokerLog(Log);

impl PushLog for BrokerLog {
    fn connected(&self, broker: &str) {
        self.0.write("broker_connected", &json!({"broker": broker}));
    }

    fn failed(&self, broker: &str, error: &Error, pause: Duration) {
        let words = error.public().to_string();
        let fields = json!({"broker": broker, "error": words, "next_attempt_s": pause.as_secs()});
        self.0.write("broker_failed", &fields);
    }
}
