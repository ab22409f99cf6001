//! Who may subscribe.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use credentials::Credential;
use identity::Authenticator;
use stomp_wire::Frame;
use stomp_wire::server::refusals;

use crate::rights::{Level, Rights};
use crate::term::Term;

/// A user with a password. It is kept as a digest.
#[derive(Clone)]
pub struct Password {
    user: String,
    digest: Vec<u8>,
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Password({})", self.user)
    }
}

impl Password {
    /// Of a line `user:password`; `None` without a colon or a user.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (user, password) = line.split_once(':')?;
        (!user.is_empty()).then(|| Self {
            user: user.to_owned(),
            digest: digest(&SHA256, password.as_bytes()).as_ref().to_vec(),
        })
    }

    /// Takes as long whatever is wrong with the password.
    fn is(&self, login: &str, passcode: &str) -> bool {
        let given = digest(&SHA256, passcode.as_bytes());
        let is_same = verify_slices_are_equal(&self.digest, given.as_ref()).is_ok();
        self.user == login && is_same
    }
}

/// Who may subscribe, by any of three ways.
#[derive(Clone, Debug, Default)]
pub struct Subscribers {
    /// Users with passwords.
    pub passwords: Vec<Password>,
    /// Users with a certificate or token: those who have the right to all transfers here.
    pub rights: Rights,
    /// Whether everyone may.
    pub is_open: bool,
}

/// Decides about one connection.
pub(super) struct Admission {
    pub(super) subscribers: Arc<Subscribers>,
    pub(super) authenticator: Authenticator,
    /// What the connection's certificate says.
    pub(super) holder: Arc<Credential>,
    pub(super) is_encrypted: bool,
    pub(super) peer: IpAddr,
}

impl Admission {
    /// Whether the client of a `CONNECT` frame may subscribe, and for how long; `None`: it may not.
    ///
    /// # Errors
    /// Why not, where the client or the administrator can mend it.
    pub(super) async fn admits(&self, frame: &Frame) -> Result<Option<Term>, Cow<'static, str>> {
        if self.subscribers.is_open {
            return Ok(Some(Term::default()));
        }
        if self.may(&self.holder) {
            return self.term(&self.holder).map(Some);
        }
        let (Some(login), Some(passcode)) = (frame.header("login"), frame.header("passcode")) else {
            return self.not_named(&self.holder).map_or(Ok(None), |words| Err(words.into()));
        };
        if self.authenticator.admit_secrets(self.is_encrypted, self.peer).is_err() {
            return Err(refusals::NEEDS_TLS.into());
        }
        let mut known = false;
        for password in &self.subscribers.passwords {
            known |= password.is(login, passcode);
        }
        if known {
            return Ok(Some(Term::default()));
        }
        match self.authenticator.bearer(passcode).await {
            Ok(credential) if self.may(&credential) => self.term(&credential).map(Some),
            Ok(credential) => self.not_named(&credential).map_or(Ok(None), |words| Err(words.into())),
            Err(_) => Ok(None),
        }
    }

    /// Why a known user may not subscribe; `None` for one without a credential.
    fn not_named(&self, credential: &Credential) -> Option<String> {
        let caller = self.subscribers.rights.caller(credential).ok()?;
        (!is_anonymous(credential)).then(|| format!("{} may not subscribe: messages.users", caller.owner.user))
    }

    /// How long a session with this credential lasts.
    ///
    /// # Errors
    /// The credential has expired since the connection was opened.
    fn term(&self, credential: &Credential) -> Result<Term, Cow<'static, str>> {
        let term = Term::of(credential);
        match term.has_ended() {
            true => Err(refusals::EXPIRED.into()),
            false => Ok(term),
        }
    }

    fn may(&self, credential: &Credential) -> bool {
        let caller = self.subscribers.rights.caller(credential);
        !is_anonymous(credential) && caller.is_ok_and(|caller| caller.levels.transfer == Level::All)
    }
}

fn is_anonymous(credential: &Credential) -> bool {
    matches!(credential, Credential::Anonymous | Credential::RefusedCertificate(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_compared_whole_and_never_shown() {
        let password = Password::parse("rucio:a:b").unwrap();
        assert!(password.is("rucio", "a:b"));
        for (login, passcode) in [("rucio", "a"), ("Rucio", "a:b"), ("", "")] {
            assert!(!password.is(login, passcode));
        }
        assert_eq!(format!("{password:?}"), "Password(rucio)");
        assert!(Password::parse("nothing").is_none() && Password::parse(":x").is_none());
    }
}
