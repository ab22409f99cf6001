//! From a request to the function that answers it.

use std::time::Instant;

use xroot_wire::FileHandle;
use xroot_wire::request::{Access, Payload, Request, RequestHeader};

use crate::answer::refuse;
use crate::connection::{Connection, Next};
use crate::exchange::Exchange;
use crate::failure::{Result, not_offered};
use crate::{
    attributes, close, elsewhere, list, locate, names, open, prepare, query, read, setup, stat, truncate, vector, write,
};

/// Answers a request. `buffered` is its payload, except for file data, which follow on the
/// connection.
pub(crate) async fn dispatch(
    connection: &mut Connection,
    header: &RequestHeader,
    buffered: &[u8],
    payload: Payload,
    began: Instant,
) -> types::Result<Next> {
    let request = match Request::parse(header, buffered) {
        Ok(request) => request,
        Err(refusal) => {
            if let Payload::Streamed(length) = payload {
                connection.frames.skip(length as u64).await?;
            }
            if let Some(path) = header.changed_path(buffered) {
                truncate::refuse_named(&mut Exchange::begin(connection, header, began), &path);
            }
            return Ok(refuse(connection, header, began, refusal.into()));
        }
    };
    if let Some(uploads) = is_upload(&request) {
        // Other requests take precedence over many uploads.
        let gives_way = uploads && connection.door.settings.site.activity.has_many_uploads();
        connection.frames.stream.give_way(gives_way).await;
    }
    let stream = header.stream;
    match request {
        Request::Read(request) => read::read(connection, stream, &request, began).await,
        Request::PageRead(request) => read::page_read(connection, stream, &request, began).await,
        Request::ReadVector(request) => vector::read_vector(connection, stream, &request, began).await,
        Request::Write(request) => write::write(connection, stream, &request, began).await,
        Request::PageWrite(request) => write::page_write(connection, stream, &request, began).await,
        Request::WriteVector(request) => write::write_vector(connection, stream, &request, began).await,
        request => {
            if let Payload::Embedded(_) = payload {
                // The embedded request's payload follows, and cannot be interpreted here.
                return Ok(refuse(connection, header, began, not_offered().closing()));
            }
            let mut exchange = Exchange::begin(connection, header, began);
            let result = act(&mut exchange, request).await;
            elsewhere::note_missing(&exchange, &result);
            let result = elsewhere::patient(&mut exchange, result);
            Ok(exchange.finish(result))
        }
    }
}

/// Answers a request that moves no data of open files.
async fn act(exchange: &mut Exchange<'_>, request: Request<'_>) -> Result<Next> {
    match request {
        Request::Protocol(request) => return setup::protocol(exchange, &request),
        Request::Login(request) => return setup::login(exchange, &request),
        Request::Authenticate(request) => return setup::authenticate(exchange, &request).await,
        Request::Bind(request) => return setup::bind(exchange, &request),
        Request::EndSession(request) => return setup::end_session(exchange, &request),
        Request::Ping | Request::Set(_) => exchange.ok(&[]),
        // This server requires no signatures, but accepts requests that have one.
        Request::SignatureVerify(_) => {}
        Request::Open(request) => return open::answer(exchange, &request).await,
        Request::Close(request) => close::close(exchange, &request).await?,
        Request::Sync(request) => return close::sync(exchange, &request).await,
        Request::Truncate(request) => truncate::truncate(exchange, &request).await?,
        Request::Stat(request) => stat::answer(exchange, &request).await?,
        Request::StatMany(request) => stat::many(exchange, &request).await?,
        Request::Locate(request) => locate::answer(exchange, &request).await?,
        Request::ListDirectory(request) => list::answer(exchange, &request).await?,
        Request::MakeDirectory(request) => names::make_directory(exchange, &request).await?,
        Request::RemoveDirectory(request) => names::remove_directory(exchange, &request).await?,
        Request::Remove(request) => names::remove(exchange, &request).await?,
        Request::Rename(request) => names::rename(exchange, &request).await?,
        Request::ChangeMode(request) => names::change_mode(exchange, &request).await?,
        Request::FileAttributes(request) => attributes::answer(exchange, &request).await?,
        Request::Prepare(request) => prepare::answer(exchange, &request).await?,
        Request::Query(request) => {
            let answered = query::answer(exchange, &request).await?;
            return Ok(if answered { Next::Request } else { Next::Later });
        }
        Request::Checkpoint(request) => return refuse_change(exchange, request.handle),
        Request::Clone(request) => return refuse_change(exchange, request.destination),
        Request::GetFile => return Err(not_offered()),
        // These move data and were served above.
        Request::Read(_)
        | Request::ReadVector(_)
        | Request::PageRead(_)
        | Request::PageWrite(_)
        | Request::Write(_)
        | Request::WriteVector(_) => return Err(not_offered()),
    }
    Ok(Next::Request)
}

/// Refuses a kind of change that is not offered. The file will not be what its client expects.
fn refuse_change(exchange: &mut Exchange<'_>, handle: FileHandle) -> Result<Next> {
    exchange.session()?.files.refuse_change(handle);
    Err(not_offered())
}

/// Whether a request is part of an upload; `None` if it could be either.
fn is_upload(request: &Request<'_>) -> Option<bool> {
    match request {
        Request::Open(open) => Some(open.access() != Access::Read),
        Request::Write(_) | Request::PageWrite(_) | Request::WriteVector(_) => Some(true),
        Request::Close(_) | Request::Sync(_) | Request::Truncate(_) => None,
        _ => Some(false),
    }
}
