//! Extended attributes, set by clients.

use credentials::capability::CapabilityUse;
use endpoint::{Change, ExportPath};
use policy::Operation;
use storage::Overwrite;
use types::{Error, ErrorCode, LogicalPath};
use xroot_wire::request::{AttributeAction, FileAttributes};
use xroot_wire::response::{AttributeAnswer, AttributeEntry, AttributeList, AttributeStatus};
use xroot_wire::{AttributeOptions, ErrorNumber};

use crate::elsewhere;
use crate::exchange::Exchange;
use crate::failure::Result;

/// Answers a request about attributes. Each attribute has a status of its own.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, request: &FileAttributes<'_>) -> Result<()> {
    let (operation, usage) = match request.action {
        AttributeAction::Get(_) | AttributeAction::List => (Operation::Read, CapabilityUse::Read),
        AttributeAction::Set(_) | AttributeAction::Delete(_) => (Operation::Overwrite, CapabilityUse::Update),
    };
    let named = match &request.path {
        Some(argument) => Some(exchange.path_for(argument, usage).await?),
        None => None,
    };
    let path = match &named {
        Some(named) => named.path.clone(),
        None => {
            let file = exchange.file(request.handle)?;
            let (path, capability) = (file.path.clone(), file.capability.clone());
            exchange.capability = capability;
            path
        }
    };
    let granted = exchange.authorize(operation.clone(), &path, None)?;
    if let Some(named) = &named
        && elsewhere::answers(exchange, named, usage, &granted).await?
    {
        return Ok(());
    }
    let mut export_path = exchange.export_path(&path, ErrorCode::Forbidden)?;
    if operation == Operation::Overwrite {
        let changing = exchange.begin_change(&export_path, &path, Change::Update).await?;
        export_path.store = export_path.store.during(&changing);
    }
    let body = act(&export_path, request).await;
    let body = body.map_err(|error| about(error, &path))?;
    exchange.ok(&body);
    Ok(())
}

fn about(error: Error, path: &LogicalPath) -> Error {
    error.with_subject(path)
}

async fn act(export_path: &ExportPath, request: &FileAttributes<'_>) -> types::Result<Vec<u8>> {
    match &request.action {
        AttributeAction::List => list(export_path, request.options.contains(AttributeOptions::WITH_VALUES)).await,
        AttributeAction::Get(names) => {
            // A missing file fails as a whole, not for each attribute.
            export_path.store.attributes(&export_path.path).await?;
            let mut entries = Vec::new();
            for name in names {
                entries.push(get(export_path, name).await);
            }
            Ok(AttributeAnswer::Values(entries).encode())
        }
        AttributeAction::Set(values) => {
            let overwrite = match request.options.contains(AttributeOptions::NEW) {
                true => Overwrite::Refuse,
                false => Overwrite::Allow,
            };
            export_path.store.attributes(&export_path.path).await?;
            let mut statuses = Vec::new();
            for (name, value) in values {
                let done = match text(name) {
                    Ok(text) => {
                        export_path
                            .store
                            .set_attribute(&export_path.path, text, value, overwrite)
                            .await
                    }
                    Err(error) => Err(error),
                };
                statuses.push(status(name, done.err().map(|error| error.code().into())));
            }
            Ok(AttributeAnswer::Changed(statuses).encode())
        }
        AttributeAction::Delete(names) => {
            export_path.store.attributes(&export_path.path).await?;
            let mut statuses = Vec::new();
            for name in names {
                statuses.push(status(name, delete(export_path, name).await));
            }
            Ok(AttributeAnswer::Changed(statuses).encode())
        }
    }
}

fn status(name: &[u8], error: Option<ErrorNumber>) -> AttributeStatus {
    AttributeStatus {
        name: name.to_vec(),
        error,
    }
}

fn text(name: &[u8]) -> types::Result<&str> {
    let refused = || {
        Error::new(ErrorCode::BadRequest, types::Side::Client, types::Phase::Open)
            .with_detail("the name of the attribute is not UTF-8")
    };
    std::str::from_utf8(name).map_err(|_| refused())
}

async fn list(export_path: &ExportPath, with_values: bool) -> types::Result<Vec<u8>> {
    let names = export_path.store.attributes(&export_path.path).await?;
    if !with_values {
        return Ok(AttributeList::Names(names.into_iter().map(String::into_bytes).collect()).encode());
    }
    let mut values = Vec::new();
    for name in names {
        // Removed since the names were read: not listed.
        if let Some(value) = export_path.store.attribute(&export_path.path, &name).await? {
            values.push((name.into_bytes(), value));
        }
    }
    Ok(AttributeList::Values(values).encode())
}

async fn get(export_path: &ExportPath, name: &[u8]) -> AttributeEntry {
    let found = match text(name) {
        Ok(text) => export_path.store.attribute(&export_path.path, text).await,
        Err(error) => Err(error),
    };
    let (value, error) = match found {
        Ok(Some(value)) => (value, None),
        Ok(None) => (Vec::new(), Some(ErrorNumber::ATTRIBUTE_NOT_FOUND)),
        Err(error) => (Vec::new(), Some(error.code().into())),
    };
    AttributeEntry {
        status: status(name, error),
        value,
    }
}

async fn delete(export_path: &ExportPath, name: &[u8]) -> Option<ErrorNumber> {
    let removed = match text(name) {
        Ok(text) => export_path.store.remove_attribute(&export_path.path, text).await,
        Err(error) => Err(error),
    };
    match removed {
        Ok(true) => None,
        Ok(false) => Some(ErrorNumber::ATTRIBUTE_NOT_FOUND),
        Err(error) => Some(error.code().into()),
    }
}
