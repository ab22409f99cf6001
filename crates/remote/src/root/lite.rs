//! Third-party copies with a delegated proxy (TPC Lite): the destination has a proxy of ours from
//! its login and fetches as we would. The source needs no rendezvous key, and sees no difference to
//! a download.

use types::{Error, ErrorCode, Phase, Result};
use xroot_wire::Request;
use xroot_wire::request::{Query, QueryKind};
use xroot_wire::response::ConfigAnswer;

use super::ask::Client;
use super::gsi::Delegated;
use super::held::Held;
use super::session::Reply;
use crate::copying::DelegationOutcome;
use crate::delegate::refusal;
use crate::options::Delegation;

/// Where a server says whose delegated credentials it fetches with. Servers without such copies
/// echo the key.
pub(super) const DELEGATION_KEY: &str = "tpcdlg";
/// The role of a server that has files itself. Others do not know what their data servers do.
const DATA_SERVER: &str = "server";

impl Client {
    /// Whether the destination of a copy, which is open, fetches with a proxy of ours; `None` if
    /// the user asked for none.
    ///
    /// # Errors
    /// With [`Delegation::Only`], why it does not. A lost connection.
    pub(super) async fn settle_delegation(&self, destination: &mut Held) -> Result<Option<DelegationOutcome>> {
        let file = destination.route.at.clone();
        if !file.access.delegation.is_wanted() {
            return Ok(None);
        }
        let cannot = |why: &str| file.error(ErrorCode::PeerUnsupported, Phase::Open).with_detail(why);
        let why: Error = match destination.session.delegated.clone() {
            // It asks for none if it has one from an earlier session.
            Delegated::Until(_) | Delegated::NotAsked if uses_proxies(destination).await? => {
                return Ok(Some(DelegationOutcome::Delegated));
            }
            Delegated::Until(_) => cannot("it got a proxy, but does not fetch with delegated proxies"),
            Delegated::Refused(why) => refusal(&file, &why),
            Delegated::NotAsked => cannot("it asked for no proxy when we logged in"),
            Delegated::NotOffered if file.access.identity.is_none() => {
                cannot("it gets no proxy: we have no certificate to sign it with")
            }
            Delegated::NotOffered => cannot("it gets no proxy: it offers no gsi that could delegate one"),
        };
        if file.access.delegation == Delegation::Only {
            return Err(why);
        }
        let words = why.detail().unwrap_or_default();
        let words = format!("{} fetches without a proxy of ours: {words}", file.location.authority());
        Ok(Some(DelegationOutcome::Without(words)))
    }
}

/// Asks in the session that has the file open, since a redirector does not know.
async fn uses_proxies(destination: &mut Held) -> Result<bool> {
    let argument = format!("tpc {DELEGATION_KEY}\0");
    let question = Request::Query(Query::new(QueryKind::Config, argument.as_bytes()));
    let session = &mut destination.session;
    let blame = |error| destination.route.at.blame(error);
    let id = session.send(&question).await.map_err(blame)?;
    let Reply::Done(body) = session.answer(id).await.map_err(blame)? else {
        return Ok(false);
    };
    let answer = ConfigAnswer::parse(&body).map_err(blame)?;
    let protocols = answer.value(1, DELEGATION_KEY).unwrap_or_default();
    Ok(answer.offers_third_party(0) && names_gsi(protocols))
}

/// Whether a server fetches with delegated proxies, by its answers to [`DELEGATION_KEY`] and to its
/// role; `None` if it may be a data server behind it that knows.
pub(super) fn takes_proxies(protocols: Option<&str>, role: Option<&str>) -> Option<bool> {
    match protocols.is_some_and(names_gsi) {
        true => Some(true),
        false => (role == Some(DATA_SERVER)).then_some(false),
    }
}

fn names_gsi(protocols: &str) -> bool {
    protocols.split([' ', ',']).any(|name| name == gsi_wire::gsi::NAME)
}
