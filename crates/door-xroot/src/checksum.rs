//! Checksums: a kept one is answered at once, another is computed while the connection serves other
//! requests.

use std::time::Duration;

use crate::limits::XROOT_LATE_ANSWER_TIME;
use credentials::capability::CapabilityUse;
use endpoint::{Elsewhere, Found, refusal};
use policy::Operation;
use types::{ChecksumAlgorithm, Error, ErrorCode, Phase, Side};
use xroot_wire::request::Query;
use xroot_wire::{Cgi, ErrorNumber};

use crate::elsewhere::{self, Asked};
use crate::exchange::{Exchange, Named};
use crate::failure::{Failure, Result};
use crate::late::Late;

/// How long a computation is waited for before the client must ask again: shorter than the wait
/// that the client was promised.
const PROMISE_KEPT_TIME: Duration = XROOT_LATE_ANSWER_TIME.saturating_sub(Duration::from_secs(60));

/// The algorithm that a client asks for, or the usual one.
pub(crate) fn algorithm_of(exchange: &Exchange<'_>, cgi: &Cgi<'_>) -> Result<ChecksumAlgorithm> {
    let usual = exchange.connection.door.settings.site.usual_checksum();
    let Some(name) = cgi.checksum_algorithm() else {
        return Ok(usual);
    };
    ChecksumAlgorithm::from_name(name).ok_or_else(|| {
        let error = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Checksum);
        Failure::from(error.with_detail("this checksum is not offered")).numbered(ErrorNumber::SERVER)
    })
}

/// Answers a query for a checksum. Returns whether it has been answered already.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, query: &Query<'_>) -> Result<bool> {
    let named = exchange.path_for(&query.argument, CapabilityUse::Look).await?;
    let path = &named.path;
    let algorithm = algorithm_of(exchange, &named.cgi)?;
    // The client compares the name with the one that it used.
    let name = named.cgi.checksum_algorithm().unwrap_or(algorithm.name()).to_owned();
    let mut export_path = exchange.export_path(path, ErrorCode::IsDirectory)?;
    if let Some(elsewhere) = export_path.store.elsewhere().cloned() {
        exchange.authorize(Operation::Stat, path, None)?;
        return at_server(exchange, elsewhere, &named, algorithm).await;
    }
    // A destination that reads the file with a rendezvous key may know its checksum, too.
    if exchange.session()?.files.lends(path) || exchange.has_used_capability(path)? {
        export_path.store = export_path.store.for_itself();
    } else {
        exchange.authorize(Operation::Stat, path, None)?;
    }
    let found = Found::at(&export_path).await;
    if found.into_stat(path)?.is_directory() {
        return Err(refusal(ErrorCode::IsDirectory, path).into());
    }
    let known = export_path.store.stored_checksums(&export_path.path).await?;
    if let Some(known) = known.iter().find(|known| known.algorithm() == algorithm) {
        exchange.ok_text(&format!("{name} {}", known.to_hex()));
        return Ok(true);
    }
    let subject = path.clone();
    let requester = export_path
        .store
        .ask_checksum(&export_path.path, algorithm, &exchange.client());
    let requester = requester.map_err(|error| error.with_subject(path))?;
    let work = async move {
        match requester.wait_for(PROMISE_KEPT_TIME).await {
            Ok(computed) => Ok(Late::Text(format!("{name} {}", computed.to_hex()))),
            Err(error) if error.code() == ErrorCode::ChecksumPending => Ok(Late::Again),
            Err(error) => Err(error.with_subject(subject).into()),
        }
    };
    exchange.later(path, seconds(), work)?;
    Ok(false)
}

/// A checksum of a file that is on another server. Clients of this protocol cannot show a
/// capability with this question, so a redirector that judges for its nodes puts it itself.
async fn at_server(
    exchange: &mut Exchange<'_>,
    elsewhere: Elsewhere,
    named: &Named<'_>,
    algorithm: ChecksumAlgorithm,
) -> Result<bool> {
    let (path, name) = (
        &named.path,
        named.cgi.checksum_algorithm().unwrap_or(algorithm.name()).to_owned(),
    );
    let question = match elsewhere::own_question(exchange, &elsewhere, named).await? {
        Asked::Redirected => return Ok(true),
        Asked::Directory => return Err(refusal(ErrorCode::IsDirectory, path).into()),
        Asked::ByUs(question) => question,
    };
    let subject = path.clone();
    let work = async move {
        let computed = elsewhere.checksum(&question.target, question.location, algorithm).await;
        let computed = computed.map_err(|error| error.with_subject(subject))?;
        Ok(Late::Text(format!("{name} {}", computed.to_hex())))
    };
    exchange.later(path, seconds(), work)?;
    Ok(false)
}

/// How long a client has to wait at most.
fn seconds() -> u32 {
    u32::try_from(XROOT_LATE_ANSWER_TIME.as_secs()).unwrap_or(u32::MAX)
}

/// Cancels the late checksums of a file.
pub(crate) async fn cancel(exchange: &mut Exchange<'_>, query: &Query<'_>) -> Result<()> {
    let named = exchange.path(&query.argument).await?;
    let granted = exchange.authorize(Operation::Stat, &named.path, None)?;
    if elsewhere::answers(exchange, &named, CapabilityUse::Look, &granted).await? {
        return Ok(());
    }
    let cancelled = exchange.connection.late.cancel(&named.path);
    exchange.answer_all(cancelled);
    exchange.ok(&[]);
    Ok(())
}
