//! A throw-away issuer of tokens: an HTTPS server on loopback with discovery and a key set, which
//! mints any token, sound or not, and which can be made to hang, lie and die.

mod grants;
mod keys;
mod server;
mod sign_in;
mod token;

use std::collections::HashMap;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustls::ServerConfig;

use crate::{Authority, KeyKind, Result};
use grants::Endpoint;
pub use grants::{Grants, PUBLIC_CLIENT, TOKEN_CLIENT};
use keys::SigningKeys;
pub use sign_in::SignInAnswers;
pub use token::{TokenAlgorithm, TokenDraft};

/// How the issuer's server behaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IssuerMode {
    /// As it should.
    #[default]
    Well,
    /// Takes connections and says nothing on them, not even TLS' first word.
    Hang,
    /// Answers with a head that announces a body, and stops in the middle of the body.
    Stall,
    /// Answers every request with a redirect to this URL.
    Redirect(String),
    /// Answers with 10 MB of a JSON document.
    Large,
    /// Answers with bytes that are no JSON.
    Garbage,
    /// Answers with status 500.
    Failing,
    /// Serves a discovery document that names another issuer.
    OtherIssuer,
    /// Its port is closed.
    Dead,
}

/// What the threads of a server share.
#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    tls: Arc<ServerConfig>,
    keys: Mutex<SigningKeys>,
}

#[derive(Debug, Default)]
struct State {
    mode: IssuerMode,
    stopping: bool,
    /// The paths that were asked for, in their order.
    requests: Vec<String>,
    connections: usize,
    /// The sockets of the open connections by their numbers, to end them with the issuer.
    sockets: HashMap<usize, TcpStream>,
    /// What is appended to the server's URL to make the issuer's name.
    suffix: String,
    /// Members of the discovery document that are not as usual.
    document: serde_json::Map<String, serde_json::Value>,
    /// Where tokens are given; empty: at the usual place.
    token_path: String,
    endpoint: Endpoint,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self) -> MutexGuard<'_, SigningKeys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn url(&self) -> String {
        format!("https://localhost:{}{}", self.address.port(), self.state().suffix)
    }
}

/// An issuer of tokens. Dropping it ends its server.
#[derive(Debug)]
pub struct TokenIssuer {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl TokenIssuer {
    /// Starts one with a host certificate of `authority`, one RSA and one P-256 key.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] without a free port, or when a key cannot be made.
    pub fn start(authority: &Authority) -> Result<Self> {
        Self::start_at(authority, "")
    }

    /// As [`TokenIssuer::start`]; the issuer's name is the server's URL with this behind it (such
    /// as `/` or `/realms/vo`).
    ///
    /// # Errors
    /// As [`TokenIssuer::start`].
    pub fn start_at(authority: &Authority, suffix: &str) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let label = format!("issuer-{}", address.port());
        let host = authority.issue_host(&label, &["localhost", "127.0.0.1"], KeyKind::EcdsaP256)?;
        let shared = Arc::new(Shared {
            address,
            state: Mutex::new(State {
                suffix: suffix.to_owned(),
                ..State::default()
            }),
            changed: Condvar::new(),
            tls: crate::tls_server(&host.certificate, &host.key)?,
            keys: Mutex::new(SigningKeys::new(1)?),
        });
        let for_acceptor = Arc::clone(&shared);
        let acceptor = thread::spawn(move || server::accept(listener, &for_acceptor));
        Ok(Self {
            shared,
            acceptor: Some(acceptor),
        })
    }

    /// The issuer's name, as `iss` in its tokens has it.
    #[must_use]
    pub fn url(&self) -> String {
        self.shared.url()
    }

    /// From now on the server behaves so. Connections that hang under the old way are closed.
    pub fn set_mode(&self, mode: IssuerMode) {
        let closes = mode == IssuerMode::Dead;
        self.shared.state().mode = mode;
        self.shared.changed.notify_all();
        if closes {
            self.wake();
        }
    }

    /// New keys under new names take the place of the old ones.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] when a key cannot be made.
    pub fn rotate_keys(&self) -> Result<()> {
        let mut keys = self.shared.keys();
        *keys = SigningKeys::new(keys.generation() + 1)?;
        Ok(())
    }

    /// The key set (RFC 7517), as the server serves it.
    #[must_use]
    pub fn jwks(&self) -> String {
        self.shared.keys().jwks()
    }

    /// A sound token of the WLCG profile, good for an hour for any audience, without scopes, signed
    /// with RS256; to be changed as the test wants.
    #[must_use]
    pub fn token(&self) -> TokenDraft<'_> {
        TokenDraft::new(self)
    }

    /// The paths that were asked for so far.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.shared.state().requests.clone()
    }

    /// What became of requests for tokens so far.
    #[must_use]
    pub fn grants(&self) -> Grants {
        self.shared.state().endpoint.grants.clone()
    }

    /// From now on its answers say that its tokens live so long, whatever the tokens say.
    pub fn set_answered_life_s(&self, life_s: i64) {
        self.shared.state().endpoint.answered_life_s = Some(life_s);
    }

    /// Access tokens that are given from now on are good for so many seconds.
    pub fn set_life_s(&self, life_s: i64) {
        self.shared.state().endpoint.life_s = life_s;
    }

    /// From now on all forms get this answer; `None`: its own.
    pub fn set_answer(&self, answer: Option<serde_json::Value>) {
        self.shared.state().endpoint.answer = answer;
    }

    /// From now on those who sign in are answered so.
    pub fn set_sign_in(&self, answers: SignInAnswers) {
        self.shared.state().endpoint.sign_in = answers;
    }

    /// From now on the discovery document has these members instead of its own.
    pub fn set_document(&self, members: &serde_json::Value) {
        self.shared.state().document = members.as_object().cloned().unwrap_or_default();
    }

    /// From now on tokens are given at this path and no longer at the one before.
    pub fn move_tokens(&self, path: &str) {
        path.clone_into(&mut self.shared.state().token_path);
    }

    /// The next answer with tokens is lost on its way.
    pub fn lose_answer(&self) {
        self.shared.state().endpoint.loses_answer = true;
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.state().connections
    }

    /// Makes the acceptor look at the state.
    fn wake(&self) {
        let _ = TcpStream::connect(self.shared.address);
    }
}

impl Drop for TokenIssuer {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.stopping = true;
            for (_, socket) in state.sockets.drain() {
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        self.shared.changed.notify_all();
        self.wake();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

#[cfg(test)]
mod tests;
