//! Extended attributes of files (`kXR_fattr`).

use types::Result;
use xroot_wire::request::{AttributeAction, FileAttributes};
use xroot_wire::response::{AttributeAnswer, AttributeList, AttributeStatus};
use xroot_wire::{Argument, AttributeOptions, FileHandle, Request};

use super::ask::{Ask, Client, Encode};
use crate::attributes::{Attribute, AttributeCall};
use crate::resource::Resource;

impl Client {
    /// Lists, reads, sets or removes attributes of a file.
    ///
    /// # Errors
    /// The server's refusal, or an answer that cannot be understood.
    pub(crate) async fn attributes(&self, file: &Resource, call: AttributeCall<'_>) -> Result<Vec<Attribute>> {
        let encode: Encode<'_> = &|target, id, out| {
            let request = FileAttributes {
                handle: FileHandle::default(),
                path: Some(Argument::new(target.path)),
                options: AttributeOptions::empty(),
                action: action(call),
            };
            Request::FileAttributes(request).encode(id, out);
        };
        let ask = match call {
            AttributeCall::List | AttributeCall::Get(_) => Ask::looking(encode),
            AttributeCall::Set(..) | AttributeCall::Remove(_) => Ask::changing(encode),
        };
        let body = self.ask_text(file, &ask).await?;
        understood(&body, call).map_err(|error| file.blame(error))
    }
}

fn action(call: AttributeCall<'_>) -> AttributeAction<'_> {
    match call {
        AttributeCall::List => AttributeAction::List,
        AttributeCall::Get(name) => AttributeAction::Get(vec![name.as_bytes()]),
        AttributeCall::Set(name, value) => AttributeAction::Set(vec![(name.as_bytes(), value)]),
        AttributeCall::Remove(name) => AttributeAction::Delete(vec![name.as_bytes()]),
    }
}

fn understood(body: &[u8], call: AttributeCall<'_>) -> Result<Vec<Attribute>> {
    let attribute = |name: &[u8], value| Attribute {
        name: String::from_utf8_lossy(name).into_owned(),
        value,
    };
    let answer = match call {
        AttributeCall::List => {
            return Ok(match AttributeList::parse(body, false)? {
                AttributeList::Names(names) => names.iter().map(|name| attribute(name, Vec::new())).collect(),
                AttributeList::Values(values) => values
                    .into_iter()
                    .map(|(name, value)| attribute(&name, value))
                    .collect(),
            });
        }
        AttributeCall::Get(_) => AttributeAnswer::parse_values(body)?,
        AttributeCall::Set(..) | AttributeCall::Remove(_) => AttributeAnswer::parse_changed(body)?,
    };
    match answer {
        AttributeAnswer::Values(entries) => entries
            .into_iter()
            .map(|entry| succeeded(&entry.status).map(|()| attribute(&entry.status.name, entry.value)))
            .collect(),
        AttributeAnswer::Changed(statuses) => statuses.iter().try_for_each(succeeded).map(|()| Vec::new()),
    }
}

/// The answer as a whole is a success although an attribute failed.
fn succeeded(status: &AttributeStatus) -> Result<()> {
    match status.error {
        None => Ok(()),
        Some(number) => Err(number.to_peer_error("")),
    }
}
