//! Authentication with a certificate or proxy in several rounds (`gsi`).
//!
//! It is shown only to servers whose own certificate is trusted and names the host that we
//! connected to; the check is that of TLS. The host must be among the alternative names of the
//! certificate, and no name service is asked for another name.

use credentials::gsi::client::{Heard, Holder, Opened, Shown};
use gsi_wire::gsi::key::PrivateNumbers;
use gsi_wire::gsi::{ClientOptions, Fault, ServerEntry};
use net::random::fill;
use net::tls::ClientIdentity;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::client::ClientOptions as Options;

/// An authentication that is under way.
pub(super) struct Gsi {
    holder: Holder,
    state: State,
}

enum State {
    Opened(Opened),
    Shown(Shown),
}

impl Gsi {
    /// Whether the protocol can show this identity: it knows no keys but those of RSA.
    pub(super) fn can_show(identity: &ClientIdentity) -> bool {
        PrivateNumbers::parse(identity.private_key().secret_der()).is_ok()
    }

    /// Begins, and gives the first message.
    ///
    /// # Errors
    /// `internal` when it cannot be calculated.
    pub(super) async fn begin(server: &ServerEntry, identity: &ClientIdentity) -> Result<(Self, Vec<u8>)> {
        let (server, identity) = (server.clone(), identity.clone());
        calculate(move || {
            let key = identity.private_key().secret_der();
            let holder = Holder::new(identity.chain(), key).map_err(failed)?;
            // Reading and writing need no delegation.
            let (opened, message) = Opened::begin(&server, ClientOptions::default(), &mut fill);
            let state = State::Opened(opened);
            Ok((Self { holder, state }, message))
        })
        .await
    }

    /// Takes a message of the server, and gives the answer to it.
    ///
    /// # Errors
    /// `peer_misbehaved` when it cannot be understood, `peer_tls_failed` when the server's
    /// certificate is not believed or that of another host.
    pub(super) async fn step(self, message: Vec<u8>, options: &Options, host: &str) -> Result<(Self, Vec<u8>)> {
        let Self { holder, state } = self;
        match state {
            State::Opened(opened) => {
                let heard: Heard = calculate(move || opened.hear(&message).map_err(failed)).await?;
                options.tls.check_server(&heard.certificate, host, Side::Source)?;
                calculate(move || {
                    let (shown, answer) = heard.show(&holder, &mut fill).map_err(failed)?;
                    let state = State::Shown(shown);
                    Ok((Self { holder, state }, answer))
                })
                .await
            }
            State::Shown(shown) => {
                calculate(move || {
                    let refuse = |_: &[u8]| Err("this client delegates nothing".to_owned());
                    let answer = shown.delegate(&message, &holder, refuse, &mut fill);
                    let state = State::Shown(shown);
                    Ok((Self { holder, state }, answer.map_err(failed)?))
                })
                .await
            }
        }
    }
}

/// Calculates on a thread where no other task waits.
async fn calculate<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = execution::blocking(work).await;
    done.unwrap_or_else(|cause| {
        Err(Error::new(ErrorCode::Internal, Side::Active, Phase::Authenticate).with_private(cause))
    })
}

/// The caller says which side it was.
fn failed(fault: Fault) -> Error {
    Error::new(ErrorCode::PeerMisbehaved, Side::Source, Phase::Authenticate).with_detail(fault.0)
}
