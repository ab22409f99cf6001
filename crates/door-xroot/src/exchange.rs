//! One request: the state that all requests share, and how they ask for rights and locks. How they
//! are answered is in `answer`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use crate::limits::{PENDING_WAIT, XROOT_WAITS_MAX};
use credentials::Credential;
use credentials::capability::{CapabilityUse, Redeemed};
use endpoint::ids::{foreign_id, fresh_id};
use endpoint::{
    Change, Changing, ClientId, ExportPath, Exports, Found, Granted, Holder, LinkLimit, LockKeys, PathTarget, Permit,
    Protocol, RequestRecord, Requester, Shown, Spoken, allow_by_capability, elapsed_us, refusal, span_of, trace_for,
};
use policy::{Operation, allows_at_most};
use types::{ErrorCode, LogicalPath};
use xroot_wire::request::RequestHeader;
use xroot_wire::{Argument, Cgi, FileHandle, Opcode, StreamId};

use crate::capability_uses::Use;
use crate::connection::Connection;
use crate::failure::{Failure, Result};
use crate::files::{Content, OpenFile};
use crate::method::method_name;
use crate::session::Session;
use crate::writers::Writer;

/// One request.
pub(crate) struct Exchange<'c> {
    pub(crate) connection: &'c mut Connection,
    /// The number by which the client matches the answer to the request.
    pub(crate) stream: StreamId,
    /// The exports at the time of the request.
    pub(crate) exports: Arc<Exports>,
    pub(crate) credential: types::Result<Arc<Credential>>,
    /// What a redirector has allowed; it decides instead of policy.
    pub(crate) capability: Option<Arc<Redeemed>>,
    pub(crate) record: RequestRecord,
    pub(crate) began: Instant,
    /// How often it waits for servers that have just gone.
    pub(crate) waits_max: u32,
    /// How far symbolic links may lead, if the client limits that.
    pub(crate) link_limit: Option<LinkLimit>,
    /// The client does not want to wait for servers that do not answer now.
    pub(crate) is_impatient: bool,
    /// The client has tried other servers in vain.
    pub(crate) has_tried: bool,
}

/// A path of a request, and the parameters behind its `?`.
pub(crate) struct Named<'a> {
    pub(crate) path: LogicalPath,
    pub(crate) cgi: Cgi<'a>,
}

impl<'c> Exchange<'c> {
    pub(crate) fn begin(connection: &'c mut Connection, header: &RequestHeader, began: Instant) -> Self {
        let method = header.known_opcode().map_or("unknown", method_name);
        Self::new(connection, header.stream, method, began)
    }

    /// Stands for a close that the client did not send, because its connection ended.
    pub(crate) fn closing(connection: &'c mut Connection, stream: StreamId, began: Instant) -> Self {
        Self::new(connection, stream, method_name(Opcode::Close), began)
    }

    pub(crate) fn new(connection: &'c mut Connection, stream: StreamId, method: &'static str, began: Instant) -> Self {
        // What needs an allocation is filled in when the record is reported.
        let record = RequestRecord {
            method: Cow::Borrowed(method),
            ..RequestRecord::new(Protocol::Xroot, connection.peer, connection.frames.stream.security())
        };
        let session = connection.session.as_ref();
        let credential = session.map_or_else(anonymous, |session| session.credential.clone());
        let mut exchange = Self {
            exports: connection.door.settings.site.exports.current(),
            credential: Ok(credential),
            capability: None,
            connection,
            stream,
            record,
            began,
            waits_max: XROOT_WAITS_MAX,
            link_limit: None,
            is_impatient: false,
            has_tried: false,
        };
        exchange.note_credential();
        exchange
    }

    /// Microseconds since the request's header was read.
    pub(crate) fn elapsed_us(&self) -> u64 {
        elapsed_us(self.began)
    }

    /// The path of the request. A token in its parameters replaces the session's credential.
    pub(crate) async fn path<'a>(&mut self, argument: &Argument<'a>) -> Result<Named<'a>> {
        let named = argument.path()?;
        Ok(self.name(named.path, named.cgi).await)
    }

    /// The same for a request that may come from a redirector with a capability for this use.
    pub(crate) async fn path_for<'a>(&mut self, argument: &Argument<'a>, usage: CapabilityUse) -> Result<Named<'a>> {
        let mut named = argument.path()?;
        named.path = self.exports.respelled(&named.path).unwrap_or(named.path);
        let redeemed = self.redeem(&named.path, &named.cgi, usage);
        let named = match &redeemed {
            Ok(Some(_)) => {
                named.path.as_str().clone_into(&mut self.record.path);
                self.note_origin(&named.cgi);
                Named {
                    path: named.path,
                    cgi: named.cgi,
                }
            }
            _ => self.name(named.path, named.cgi).await,
        };
        match redeemed {
            Ok(Some(redeemed)) => {
                self.credential = Ok(anonymous());
                self.capability = Some(Arc::new(redeemed));
                self.note_credential();
                Ok(named)
            }
            // A client with a credential of its own is judged by that. It may be a server that got
            // the URL of a redirected client.
            Err(error) if matches!(self.credential.as_deref(), Ok(Credential::Anonymous)) => Err(error.into()),
            _ => Ok(named),
        }
    }

    /// Redeems the capability of a request, if it has one and redirectors may send clients here.
    fn redeem(&self, path: &LogicalPath, cgi: &Cgi<'_>, usage: CapabilityUse) -> types::Result<Option<Redeemed>> {
        let hand_over = self.connection.door.settings.hand_over.as_deref();
        let Some((hand_over, text)) = hand_over.filter(|ours| ours.accepts_others()).zip(cgi.capability()) else {
            return Ok(None);
        };
        let is_elsewhere = match self.exports.export_of(path) {
            // It was for a node from which the client comes back.
            Some((export, _)) => export.store.elsewhere().is_some(),
            None => false,
        };
        // The rendezvous key of a third-party copy decides alone.
        if is_elsewhere || cgi.third_party().is_some_and(|copy| copy.origin.is_some()) {
            return Ok(None);
        }
        let shown = Shown {
            usage,
            path,
            address: self.connection.peer.ip(),
            spoken: Spoken::Xrootd,
        };
        hand_over.redeem(&text, &shown).map(Some)
    }

    /// The request is refused, and has changed nothing.
    pub(crate) fn give_back_capability(&self) {
        let hand_over = self.connection.door.settings.hand_over.as_deref();
        if let Some((hand_over, redeemed)) = hand_over.zip(self.capability.as_deref()) {
            hand_over.give_back(redeemed);
        }
    }

    pub(crate) async fn name<'a>(&mut self, path: LogicalPath, cgi: Cgi<'a>) -> Named<'a> {
        let path = self.exports.respelled(&path).unwrap_or(path);
        path.as_str().clone_into(&mut self.record.path);
        self.note_origin(&cgi);
        // A rename has two paths.
        if let Some(limit) = cgi.link_limit() {
            self.link_limit = Some(LinkLimit::parse(limit));
        }
        if let Some(token) = cgi.token() {
            self.credential = match self.admit_secrets() {
                Ok(()) => {
                    self.connection
                        .door
                        .settings
                        .site
                        .authenticator
                        .bearer(token.expose())
                        .await
                }
                Err(error) => Err(error),
            };
            self.note_credential();
        }
        Named { path, cgi }
    }

    /// Notes under which names other servers and the client know the request.
    fn note_origin(&mut self, cgi: &Cgi<'_>) {
        self.record.redirect_id = cgi.redirect_id().and_then(foreign_id);
        let (carried, events) = (cgi.traceparent(), &self.connection.door.settings.site.events);
        self.record.traceparent = carried.map(|trace| trace_for(&**events, Some(trace)));
        self.record.parent_span = span_of(carried);
    }

    /// Whether secrets may be sent on this connection.
    ///
    /// # Errors
    /// `tls_required` if not.
    pub(crate) fn admit_secrets(&self) -> types::Result<()> {
        let authenticator = &self.connection.door.settings.site.authenticator;
        authenticator.admit_secrets(self.connection.state.is_secure(), self.connection.peer.ip())
    }

    /// Asks policy. The reason for a refusal is kept under the request's name.
    pub(crate) fn authorize(
        &mut self,
        operation: Operation,
        path: &LogicalPath,
        size_bytes: Option<u64>,
    ) -> Result<Granted> {
        let holder = self.capability.as_ref().map(|redeemed| &redeemed.capability.holder);
        if let Some(facts) = self.exports.upstream_facts(self.requester(), holder, path) {
            self.record.note_upstream(facts);
        }
        if let Some(redeemed) = &self.capability {
            self.record.authorized_us = Some(self.elapsed_us());
            // The export may have been closed since the capability was issued.
            allows_at_most(self.exports.policy(), &operation, path).map_err(|error| error.with_subject(path))?;
            self.exports.drain_gate().check(&operation)?;
            return Ok(allow_by_capability(&redeemed.capability, operation, path, size_bytes)?);
        }
        let refusals = &self.connection.door.settings.site.refusals;
        let name = &mut self.record.request_id;
        let requester = Requester {
            credential: &self.credential,
            address: self.connection.peer.ip(),
        };
        let granted = self
            .exports
            .authorize(requester, operation, path, size_bytes, refusals, || name_of(name));
        self.record.authorized_us = Some(self.elapsed_us());
        Ok(granted?)
    }

    /// The client whose share is charged.
    pub(crate) fn client(&self) -> ClientId {
        ClientId::at(self.connection.peer.ip()).showing(&self.credential)
    }

    pub(crate) fn requester(&self) -> Requester<'_> {
        Requester {
            credential: &self.credential,
            address: self.connection.peer.ip(),
        }
    }

    /// Whether an existing file may be replaced.
    pub(crate) fn may_replace(&self, path: &LogicalPath, size_bytes: Option<u64>) -> bool {
        if let Some(redeemed) = &self.capability {
            let is_open = allows_at_most(self.exports.policy(), &Operation::Overwrite, path).is_ok();
            return redeemed.capability.may_replace && is_open;
        }
        self.exports
            .would_allow(self.requester(), Operation::Overwrite, path, size_bytes)
    }

    /// Whether a file that is opened for an update may be read as well.
    pub(crate) fn may_read(&self, path: &LogicalPath) -> bool {
        if let Some(redeemed) = &self.capability {
            return redeemed.capability.may_read
                && allows_at_most(self.exports.policy(), &Operation::Read, path).is_ok();
        }
        self.exports.would_allow(self.requester(), Operation::Read, path, None)
    }

    /// Waits a moment for a file that a client of the same host is writing on another session.
    /// xrootdfs closes files late: a program that has just written one reads, renames or removes it
    /// before it is stored. A server that shows files while they are written has no such problem.
    pub(crate) async fn settle(&mut self, path: &LogicalPath) -> Result<()> {
        let writers = self.connection.door.writers.clone();
        let is_elsewhere = writers.is_written_from(path, self.connection.peer.ip());
        if is_elsewhere && !self.session()?.files.writes(path) {
            writers.wait_for_end(path, PENDING_WAIT).await;
        }
        Ok(())
    }

    /// What stands under a name, if the client may look at it.
    pub(crate) async fn lookup(&self, export_path: &ExportPath, path: &LogicalPath) -> Found {
        match &self.capability {
            Some(_) => Found::at(export_path).await,
            None => self.exports.lookup(self.requester(), export_path, path).await,
        }
    }

    /// Whether WebDAV's locks allow a change. This protocol cannot send lock tokens, so a lock
    /// binds all its clients. To be called after policy has allowed the change.
    pub(crate) async fn check_locks(&self, export_path: &ExportPath, path: &LogicalPath, change: Change) -> Result<()> {
        let (requester, keys) = (self.requester(), LockKeys::default());
        Ok(self
            .exports
            .check_locks(requester, export_path, path, change, &keys)
            .await?)
    }

    /// The same for a change that begins now: until the result is dropped, no conflicting lock is
    /// granted.
    pub(crate) async fn begin_change(
        &self,
        export_path: &ExportPath,
        path: &LogicalPath,
        change: Change,
    ) -> Result<Changing> {
        let (requester, keys) = (self.requester(), LockKeys::default());
        Ok(self
            .exports
            .begin_change_by(requester, export_path, path, change, &keys)
            .await?)
    }

    /// The right to store a file, to be checked again before the file gets its name.
    pub(crate) fn permit(&self, path: &LogicalPath) -> Permit {
        let exports = &self.connection.door.settings.site.exports;
        Permit::new(
            exports,
            &self.exports,
            self.capability.is_none().then_some(&self.credential),
            self.connection.peer.ip(),
            path,
        )
    }

    /// What a path stands for, for this client.
    pub(crate) fn place(&self, path: &LogicalPath) -> PathTarget {
        let target = match &self.capability {
            Some(redeemed) => {
                let holder = &redeemed.capability.holder;
                self.exports.place_by_capability(self.requester(), holder, path)
            }
            None => self.exports.place(self.requester(), path),
        };
        target.limiting_links(self.link_limit())
    }

    /// How far links may lead, if another server has judged the request or is the client.
    fn link_limit(&self) -> Option<&LinkLimit> {
        let judged_elsewhere = self.capability.as_ref().map(|redeemed| redeemed.capability.audience);
        match judged_elsewhere {
            Some(audience) if !audience.follows_links() => Some(&LinkLimit::Nowhere),
            _ => self.link_limit.as_ref(),
        }
    }

    fn note_credential(&mut self) {
        self.record.note_holder(Holder::of(&self.credential));
        if let Some(redeemed) = &self.capability {
            let holder = &redeemed.capability.holder;
            self.record.credential = "capability";
            self.record.subject.clone_from(&holder.subject);
            self.record.token_id.clone_from(&holder.token_id);
            self.record.vo.clone_from(&holder.vo);
        }
    }

    /// The export that holds a path. Above all exports nothing can be changed, and the request is
    /// refused with `above`.
    pub(crate) fn export_path(&mut self, path: &LogicalPath, above: ErrorCode) -> Result<ExportPath> {
        match self.place(path) {
            PathTarget::Stored(export_path) => Ok(export_path),
            PathTarget::Above(_) => Err(refusal(above, path).into()),
            PathTarget::Nowhere => Err(self.nowhere(path)),
        }
    }

    /// Why a path outside of all exports is refused.
    pub(crate) fn nowhere(&mut self, path: &LogicalPath) -> Failure {
        // Policy knows whether the token is valid at all.
        match self.authorize(Operation::Stat, path, None) {
            Err(failure) => failure,
            Ok(_) => refusal(ErrorCode::NotFound, path).into(),
        }
    }

    /// Remembers that the client has this file open by a capability, or had it until now.
    pub(crate) fn note_capability_use(&mut self, path: &LogicalPath) -> Result<()> {
        if self.capability.is_some() {
            let used = self.capability_use(path)?;
            self.connection.door.capability_uses.note(used, Instant::now());
        }
        Ok(())
    }

    /// Whether the client had this file open by a capability lately.
    pub(crate) fn has_used_capability(&mut self, path: &LogicalPath) -> Result<bool> {
        let used = self.capability_use(path)?;
        Ok(self.connection.door.capability_uses.knows(&used, Instant::now()))
    }

    fn capability_use(&mut self, path: &LogicalPath) -> Result<Use> {
        Ok(Use {
            path: path.clone(),
            address: self.connection.peer.ip().to_canonical(),
            caller: self.session()?.caller.clone(),
        })
    }

    /// The session of the connection.
    pub(crate) fn session(&mut self) -> Result<&mut Session> {
        self.connection.session()
    }

    /// The client program, as a writer of this file.
    pub(crate) fn writer(&mut self, path: &LogicalPath) -> Result<Writer> {
        let (address, client) = (self.connection.peer.ip().to_canonical(), self.client());
        let session = self.session()?;
        Ok(Writer {
            path: path.clone(),
            address,
            process: session.process,
            agent: session.agent.clone(),
            client,
        })
    }

    /// An open file.
    pub(crate) fn file(&mut self, handle: FileHandle) -> Result<&mut OpenFile> {
        let file = self.connection.files()?.file(handle)?;
        file.path.as_str().clone_into(&mut self.record.path);
        self.record.traceparent.clone_from(&file.traceparent);
        Ok(file)
    }

    /// The request's name, made when it is needed first.
    pub(crate) fn name_request(&mut self) -> &str {
        name_of(&mut self.record.request_id)
    }

    /// Takes over what the record of a file's close says.
    pub(crate) fn note_file(&mut self, file: &OpenFile) {
        file.path.as_str().clone_into(&mut self.record.path);
        self.credential = Ok(file.credential.clone());
        self.capability.clone_from(&file.capability);
        self.record.redirect_id.clone_from(&file.redirect_id);
        self.record.traceparent.clone_from(&file.traceparent);
        self.note_credential();
        (self.record.bytes_in, self.record.bytes_out) = file.traffic.totals();
        self.record.open_us = Some(elapsed_us(file.opened));
        if let Content::Reading(reader) = &file.content {
            self.record.upstream_redirected_to = reader.redirected_to();
        }
    }
}

/// The name of a request, made when it is needed first.
fn name_of(name: &mut String) -> &str {
    if name.is_empty() {
        *name = fresh_id();
    }
    name
}

/// The credential of a client that has shown none.
pub(crate) fn anonymous() -> Arc<Credential> {
    Arc::new(Credential::Anonymous)
}
