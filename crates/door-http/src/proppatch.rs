//! PROPPATCH: clients store properties of their own with a file or directory (RFC 4918 §9.2). A
//! request makes all its changes or none. It needs the right to overwrite, like attributes in the
//! XRootD protocol.

use std::sync::{Arc, Mutex, PoisonError};

use http_wire::webdav::{DeadProperties, PropertyChange, PropertyName, parse_proppatch, proppatch_answer};
use http_wire::{ContentType, RequestHead};
use policy::Operation;
use types::limits::PROPPATCH_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::access::check_conditions;
use crate::exchange::FileExchange;
use crate::state::PathChange;
use endpoint::{Change, ExportPath};

/// The status of every answer about properties (RFC 4918 §9.2.1).
const MULTISTATUS: u16 = 207;
/// A change that is not made because another one failed (§11.4).
const FAILED_DEPENDENCY: u16 = 424;

/// Answers PROPPATCH.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let mut export_path = exchange.export_path(ErrorCode::Forbidden)?;
    let path = exchange.http.path.clone();
    let found = exchange.lookup(&export_path, &path).await;
    exchange.authorize_here(Operation::Overwrite)?;
    let stat = found.into_stat(&path)?;
    check_conditions(head, Some(&stat), &path)?;
    let body = exchange.http.small_body(PROPPATCH_BODY_BYTES_MAX).await?;
    let changing = exchange
        .begin_changes(head, &[PathChange::new(&export_path, &path, Change::Update)])
        .await?;
    export_path.store = export_path.store.during(&changing);
    let changes = Arc::new(parse_proppatch(&body)?);
    let refused = match protected(&changes) {
        Some(refused) => Some(refused),
        None => change(exchange, &export_path, &changes).await?,
    };
    let outcome = |index: usize| match &refused {
        None => 200,
        Some(refused) => match refused.status_of(index) {
            Some(status) => status,
            None => FAILED_DEPENDENCY,
        },
    };
    let outcomes: Vec<(&PropertyName, u16)> = changes
        .iter()
        .enumerate()
        .map(|(index, change)| (change.name(), outcome(index)))
        .collect();
    if let Some(refused) = &refused {
        exchange.http.record.error = Some((&refused.error).into());
    }
    let body = proppatch_answer(&path, stat.is_directory(), &outcomes);
    exchange
        .http
        .whole(MULTISTATUS, body.as_bytes(), |head| head.content_type(ContentType::Xml))
        .await
}

/// The reason why a request changes nothing, and the changes that caused it.
struct Refused {
    error: Error,
    indexes: Vec<usize>,
}

impl Refused {
    fn status_of(&self, index: usize) -> Option<u16> {
        self.indexes.contains(&index).then(|| self.error.code().http_status())
    }
}

/// Changes to WebDAV's own properties, which only the server sets.
fn protected(changes: &[PropertyChange]) -> Option<Refused> {
    let numbered = changes.iter().enumerate();
    let indexes: Vec<usize> = numbered
        .filter(|(_, change)| change.name().is_davs_own())
        .map(|(index, _)| index)
        .collect();
    let error = || {
        let error = Error::new(ErrorCode::Forbidden, Side::Client, Phase::Open);
        error.with_detail("properties of WebDAV itself cannot be changed")
    };
    (!indexes.is_empty()).then(|| Refused {
        error: error(),
        indexes,
    })
}

/// Makes the changes. Returns those that do not fit.
async fn change(
    exchange: &FileExchange<'_, '_>,
    export_path: &ExportPath,
    changes: &Arc<Vec<PropertyChange>>,
) -> Result<Option<Refused>> {
    let too_large = Arc::new(Mutex::new(None));
    let (noted, wanted) = (too_large.clone(), changes.clone());
    let apply = move |stored: &[u8]| {
        let mut properties = DeadProperties::decode(stored);
        match wanted.iter().position(|change| !properties.change(change)) {
            None => Ok(properties.encode()),
            Some(index) => {
                *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(index);
                let error = Error::new(ErrorCode::NoSpace, Side::Active, Phase::Open);
                Err(error.with_detail("too many properties, or too large ones"))
            }
        }
    };
    let changed = export_path
        .store
        .change_dead_properties(&export_path.path, Box::new(apply))
        .await;
    let index = too_large.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (changed, index) {
        (Ok(()), _) => Ok(None),
        (Err(error), Some(index)) => Ok(Some(Refused {
            error,
            indexes: vec![index],
        })),
        // The file system holds less than we allow; it does not report which property is too large.
        (Err(error), None) if error.code() == ErrorCode::NoSpace => Ok(Some(Refused {
            error,
            indexes: (0..changes.len()).collect(),
        })),
        (Err(error), None) => Err(error.with_subject(&exchange.http.path)),
    }
}
