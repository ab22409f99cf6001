//! Authentication with a certificate or proxy in several rounds (`gsi`), and the delegation of a
//! proxy in its last round.
//!
//! It is shown only to servers whose own certificate is trusted and names the host that we
//! connected to; the check is that of TLS. The host must be among the alternative names of the
//! certificate, and no name service is asked for another name.
//!
//! A proxy is signed only for the active server of a copy whose user asked for it
//! ([`Access::delegation`](crate::Access::delegation)). Servers whose key agreement is not signed
//! (version below 10400) are not spoken to at all.

use credentials::gsi::client::{Heard, Holder, Opened, Shown};
use credentials::x509::{Naming, Unsigned};
use gsi_wire::gsi::key::PrivateNumbers;
use gsi_wire::gsi::{ClientOptions, Fault, ServerEntry};
use net::random::fill;
use net::tls::ClientIdentity;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::client::ClientOptions as Options;
use crate::delegate::sign_proxy;
use crate::limits::DELEGATED_LIFETIME;

/// What a server hears that asks for a proxy although we offered none.
const NOT_OFFERED: &str = "this client delegates a proxy only for a copy, when its user asks for that";

/// Whether the server of a session has a proxy of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Delegated {
    /// No: it was offered none.
    #[default]
    NotOffered,
    /// It asked for none although we offered one. It may have one from an earlier session.
    NotAsked,
    /// No: we signed none.
    Refused(Unsigned),
    /// Yes, one that expires at this time, in seconds since 1970.
    Until(i64),
}

impl Delegated {
    /// Whether a copy may begin with it: it lasts for half of [`DELEGATED_LIFETIME`], or as long as
    /// our own certificates.
    pub(super) fn lasts(&self, own_expires_s: i64, now_s: i64) -> bool {
        let half_s = i64::try_from(DELEGATED_LIFETIME.as_secs() / 2).unwrap_or(0);
        match self {
            Self::Until(end_s) => *end_s >= (now_s + half_s).min(own_expires_s),
            Self::NotOffered | Self::NotAsked | Self::Refused(_) => true,
        }
    }
}

/// An authentication that is under way.
pub(super) struct Gsi {
    holder: Holder,
    identity: ClientIdentity,
    /// Whether a proxy was offered.
    offers: bool,
    delegated: Delegated,
    state: State,
}

enum State {
    Opened(Opened),
    Shown(Shown),
    /// The server has got an answer to its request for a proxy.
    Answered,
}

impl Gsi {
    /// Whether the protocol can show this identity: it knows no keys but those of RSA.
    pub(super) fn can_show(identity: &ClientIdentity) -> bool {
        PrivateNumbers::parse(identity.private_key().secret_der()).is_ok()
    }

    /// Begins, and gives the first message. With `delegates` it offers to sign a proxy.
    ///
    /// # Errors
    /// `internal` when it cannot be calculated.
    pub(super) async fn begin(
        server: &ServerEntry,
        identity: &ClientIdentity,
        options: &Options,
        delegates: bool,
    ) -> Result<(Self, Vec<u8>)> {
        let (server, identity) = (server.clone(), identity.clone());
        let offers = delegates && options.tls.is_verifying();
        let delegated = match (delegates, offers) {
            (false, _) => Delegated::NotOffered,
            (true, true) => Delegated::NotAsked,
            (true, false) => Delegated::Refused(Unsigned::Own("the server's certificate is not verified".to_owned())),
        };
        calculate(move || {
            let key = identity.private_key().secret_der();
            let holder = Holder::new(identity.chain(), key).map_err(failed)?;
            let options = match offers {
                true => ClientOptions::DELEGATES | ClientOptions::SIGNS,
                false => ClientOptions::default(),
            };
            let (opened, message) = Opened::begin(&server, options, &mut fill);
            let begun = Self {
                holder,
                identity,
                offers,
                delegated,
                state: State::Opened(opened),
            };
            Ok((begun, message))
        })
        .await
    }

    /// Whether the server has got a proxy so far.
    pub(super) fn delegated(&self) -> &Delegated {
        &self.delegated
    }

    /// Takes a message of the server, and gives the answer to it.
    ///
    /// # Errors
    /// `peer_misbehaved` when it cannot be understood, `peer_untrusted` when the server's
    /// certificate is not believed or that of another host.
    pub(super) async fn step(mut self, message: Vec<u8>, options: &Options, host: &str) -> Result<(Self, Vec<u8>)> {
        match std::mem::replace(&mut self.state, State::Answered) {
            State::Opened(opened) => {
                let heard: Heard = calculate(move || opened.hear(&message).map_err(failed)).await?;
                let checked = options.tls.check_server(&heard.certificate, host, Side::Source);
                checked.map_err(|error| untrusted(&error))?;
                calculate(move || {
                    let (shown, answer) = heard.show(&self.holder, &mut fill).map_err(failed)?;
                    self.state = State::Shown(shown);
                    Ok((self, answer))
                })
                .await
            }
            State::Shown(shown) => calculate(move || self.answer(&shown, &message)).await,
            State::Answered => Err(failed(Fault("the server asks for a proxy twice"))),
        }
    }

    /// Answers the request for a proxy.
    fn answer(mut self, shown: &Shown, message: &[u8]) -> Result<(Self, Vec<u8>)> {
        let mut delegated = self.delegated.clone();
        let sign = |request: &[u8]| {
            if !self.offers {
                return Err(NOT_OFFERED.to_owned());
            }
            match sign_proxy(&self.identity, request, Naming::Numbered) {
                Ok(proxy) => {
                    delegated = Delegated::Until(proxy.expires_s);
                    Ok(proxy.pem.into_bytes())
                }
                Err(why) => {
                    let words = why.to_string();
                    delegated = Delegated::Refused(why);
                    Err(words)
                }
            }
        };
        let answer = shown.delegate(message, &self.holder, sign, &mut fill).map_err(failed)?;
        self.delegated = delegated;
        Ok((self, answer))
    }
}

/// Calculates on a thread where no other task waits.
async fn calculate<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    execution::blocking_try(Side::Active, Phase::Authenticate, work).await
}

/// The error for a server whose certificate is not believed. There may be no TLS to blame.
fn untrusted(error: &Error) -> Error {
    let untrusted = Error::new(ErrorCode::PeerUntrusted, error.side(), Phase::Authenticate);
    untrusted.with_detail(error.detail().unwrap_or_default())
}

/// The caller says which side it was.
fn failed(fault: Fault) -> Error {
    Error::new(ErrorCode::PeerMisbehaved, Side::Source, Phase::Authenticate).with_detail(fault.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_left_when_its_proxy_nears_its_end() {
        let hour_s = 3600;
        for (end_s, own_s, lasts) in [
            (12 * hour_s, 48 * hour_s, true),
            (6 * hour_s, 48 * hour_s, true),
            (6 * hour_s - 1, 48 * hour_s, false),
            // A new one would last no longer.
            (hour_s, hour_s, true),
            (-1, -1, true),
        ] {
            let now_s = 1_700_000_000;
            let delegated = Delegated::Until(now_s + end_s);
            assert_eq!(delegated.lasts(now_s + own_s, now_s), lasts, "{end_s} {own_s}");
        }
        assert!(Delegated::NotAsked.lasts(0, 1) && Delegated::NotOffered.lasts(0, 1));
    }
}
