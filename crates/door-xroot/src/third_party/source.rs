//! The source of a third-party copy: keys are registered and claimed.

use endpoint::ExportPath;
use policy::rendezvous::{Claim, Offer, Origin, Verdict};
use storage::Stat;
use types::{Error, ErrorCode, LogicalPath, Phase, Side};
use xroot_wire::ThirdParty;

use crate::admit;
use crate::exchange::Exchange;
use crate::failure::Result;
use crate::files::Content;
use crate::keys::{EXPIRED, Registered, named, seen};
use crate::late::Late;

/// The result of an open at the source.
pub(crate) enum Opened {
    /// The file is open; with the key, if the client registered one.
    Now(Content, Stat, Option<Registered>),
    /// The key is not known yet. The answer comes late.
    Later,
}

/// Opens the source of a third-party copy: for the client, which registers the key, or for the
/// destination, which presents it.
pub(crate) async fn open(
    exchange: &mut Exchange<'_>,
    export_path: &ExportPath,
    path: &LogicalPath,
    copy: &ThirdParty<'_>,
) -> Result<Opened> {
    let key = copy.key.unwrap_or_default();
    match (copy.destination, copy.origin) {
        (Some(destination), None) => {
            let (content, stat) = admit::read(exchange, export_path, path).await?;
            let registered = register(exchange, path, key, destination, copy).await?;
            Ok(Opened::Now(content, stat, Some(registered)))
        }
        (None, Some(origin)) => claim(exchange, export_path, path, key, origin).await,
        _ => Err(bad_request("conflicting tpc cgi").into()),
    }
}

fn bad_request(why: &str) -> Error {
    Error::new(ErrorCode::BadRequest, Side::Client, Phase::Open).with_detail(why)
}

async fn register(
    exchange: &mut Exchange<'_>,
    path: &LogicalPath,
    key: &str,
    destination: &str,
    copy: &ThirdParty<'_>,
) -> Result<Registered> {
    let destination = named(destination).await;
    let settings = exchange.connection.door.settings.third_party.clone();
    let asked = copy.time_to_live_s().map(std::time::Duration::from_secs);
    let offer = Offer {
        key: key.to_owned(),
        path: path.clone(),
        user: exchange.session()?.caller.clone(),
        destination,
        lifetime: asked.unwrap_or(settings.key_lifetime).min(settings.key_lifetime_max),
    };
    let registered = settings.keys.register(offer, &exchange.client());
    Ok(registered.map_err(|error| error.with_subject(path))?)
}

/// The key replaces every other credential.
async fn claim(
    exchange: &mut Exchange<'_>,
    export_path: &ExportPath,
    path: &LogicalPath,
    key: &str,
    origin: &str,
) -> Result<Opened> {
    let origin = Origin::parse(origin).ok_or_else(|| bad_request("tpc.org is not user.process@host"))?;
    let destination = seen(exchange.connection.peer.ip()).await;
    let settings = exchange.connection.door.settings.third_party.clone();
    let verdict = settings.keys.claim(&Claim {
        key,
        path,
        user: &origin.user,
        destination: &destination,
    });
    let refused = |why: &str| {
        let error = Error::new(ErrorCode::Forbidden, Side::Client, Phase::Authorize);
        error.with_detail(why).with_subject(path)
    };
    match verdict {
        Verdict::Granted => {
            // The client that registered the key had the right to read the file; the destination is
            // anonymous.
            let reader = export_path.store.for_itself().open(&export_path.path).await;
            let reader = reader.map_err(|error| error.with_subject(path))?;
            let stat = reader.stat().clone();
            Ok(Opened::Now(Content::Reading(reader), stat, None))
        }
        Verdict::Expired => Err(refused(EXPIRED).into()),
        Verdict::Refused => Err(refused("dest not authorized for tpc").into()),
        Verdict::Unknown => {
            let (keys, key, patience) = (settings.keys.clone(), key.to_owned(), settings.key_lifetime);
            let subject = path.clone();
            let work = async move {
                let appeared = keys.appear(key, patience).await;
                appeared.map_err(|error| error.with_subject(subject))?;
                Ok(Late::Again)
            };
            // A little longer than our own timeout.
            let seconds = u32::try_from(patience.as_secs() + 5).unwrap_or(u32::MAX);
            exchange.later(path, seconds, work)?;
            Ok(Opened::Later)
        }
    }
}
