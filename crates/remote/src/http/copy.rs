//! Third-party copies (WLCG HTTP-TPC): ordering a copy from a server and following it to its end.
//!
//! The status says only that the copy has begun. Whether it succeeded is in the last line of the
//! body.

use std::time::Duration;

use http_wire::{CopyProgress, Framing, MarkerParser, Method, Outcome, RequestBuilder};
use types::{Error, ErrorCode, Location, PeerStatus, Phase, Result, Side};

use super::answer::Answer;
use super::client::Client;
use super::exchange::{Ask, Body, Hop};
use super::verdict::{code_of, code_of_words, phase_of_words, side_of_words};
use crate::copying::{DelegationOutcome, OrderedCopy, without_proxy};
use crate::effect::lost;
use crate::options::{CopyAbilities, CopyOrder, Delegation, Direction};
use crate::protocol::Pending;
use crate::resource::{Access, Resource};

/// Why a server that answers 400 gets no proxy.
const TAKES_NONE: &str = "it takes no delegated proxies";
/// Why a server gets no proxy that has a token to show.
const SHOWS_TOKEN: &str = "it shows a token to the other server";

impl CopyOrder {
    /// Why no proxy is delegated to the active server although the user asked for it; `None` if one
    /// is.
    fn needs_no_proxy(&self, active: &Resource) -> Option<&'static str> {
        if self.peer.signature().is_some() {
            Some("the other server's URL is signed, and needs no further credential")
        } else if active.access.identity.is_none() {
            Some("we have no certificate to sign it with")
        } else if !self.peer.is_encrypted() && !self.peer.is_xrootd() {
            // The XRootD protocol shows it by gsi, without TLS too.
            Some("the other server is not reached over TLS, where a proxy would be shown")
        } else if self.has_token() && active.access.delegation != Delegation::Only {
            Some(SHOWS_TOKEN)
        } else {
            None
        }
    }

    fn has_token(&self) -> bool {
        let access = &self.peer_access;
        access.bearer_to_show().is_some() || access.forwarded.has_authorization()
    }

    /// The order with nothing to show to the other server but a delegated proxy.
    fn without_token(&self) -> Self {
        let access = Access {
            bearer: None,
            forwarded: self.peer_access.forwarded.without_authorization(),
            ..self.peer_access.clone()
        };
        Self {
            peer_access: access,
            ..self.clone()
        }
    }

    fn headers(&self, request: RequestBuilder, hop: &Hop<'_>, delegates: bool) -> RequestBuilder {
        let mut request = match self.direction {
            Direction::Pull => request.source(&self.peer),
            Direction::Push => request.destination(&self.peer),
        };
        let is_signed = self.peer.signature().is_some();
        if is_signed {
            // Servers that do not know signatures would ask with HEAD, for checksums too.
            request = request.no_head().no_delegate();
        }
        request = match delegates && !hop.left_tls && !is_signed {
            true => request.credential_delegated(),
            false => request.credential_none(),
        };
        request = request.accept_anything().overwrite(self.overwrite);
        let access = &self.peer_access;
        // A redirect led from TLS to clear text: the token for the other server stays here. And no
        // server takes one beside a signature.
        if !hop.left_tls && !is_signed {
            if let Some(token) = access
                .bearer_to_show()
                .filter(|_| !access.forwarded.has_authorization())
            {
                request = request.transfer_bearer(token);
            }
            request = transfer_headers(request, &access.forwarded);
        } else {
            request = transfer_headers(request, &access.forwarded.without_authorization());
        }
        if let Some(count) = self.streams {
            request = request.number_of_streams(count);
        }
        if let Some(required) = self.verification.or(is_signed.then_some(false)) {
            request = request.require_checksum_verification(required);
        }
        match &self.expected {
            Some(checksum) => request.repr_digest(checksum),
            None => request,
        }
    }
}

fn transfer_headers(request: RequestBuilder, headers: &http_wire::ForwardedHeaders) -> RequestBuilder {
    headers
        .iter()
        .fold(request, |request, (name, value)| request.transfer_header(name, value))
}

impl Client {
    /// Orders a copy from `active`. The copy runs as long as its answer is read. Redirects are
    /// followed with all headers, except that our own token stays with its origin.
    ///
    /// # Errors
    /// What the server answers before it begins: its own refusal, or what it met at the other side;
    /// `outcome_unknown` when it got the order and did not answer; `path_refused` for a name that
    /// the other side would cut.
    pub(crate) async fn copy(&self, active: &Resource, order: &CopyOrder) -> Result<Copying> {
        self.refuse_cut_peer(order).await?;
        let (answer, delegation) = match active.access.delegation {
            Delegation::Never => (self.ask_to_copy(active, order).await?, None),
            Delegation::First => {
                let (answer, outcome) = self.ask_delegating(active, order).await?;
                (answer, Some(outcome))
            }
            Delegation::Only => {
                let answer = self.ask_delegating_only(active, order).await?;
                (answer, Some(DelegationOutcome::Delegated))
            }
        };
        if !answer.is_success() {
            return Err(without_proxy(refused(answer, order).await, delegation.as_ref()));
        }
        let mut answer = answer;
        answer.set_stall(order.silence + Duration::from_secs(1));
        Ok(Copying {
            file: answer.file.clone(),
            answer: Some(answer),
            parser: MarkerParser::new(),
            order: order.clone(),
            delegation,
        })
    }

    /// Refuses a name that the other server would cut. That server need not answer to us.
    async fn refuse_cut_peer(&self, order: &CopyOrder) -> Result<()> {
        if !order.peer.is_http() || order.peer.signature().is_some() {
            return Ok(());
        }
        let peer = Resource {
            location: order.peer.clone(),
            access: Access::default(),
            side: order.direction.peer_side(),
        };
        match self.refuse_cut_name(&peer).await {
            Err(error) if error.code() == ErrorCode::PathRefused => Err(error),
            _ => Ok(()),
        }
    }

    /// What `active` says of fetching from the server of `other`. There is no question for it, but
    /// XRootD names itself in each answer. Its copies are made by libcurl (`XrdTpcTPC.cc`), which
    /// speaks no `root://`, and it creates an empty file before it notices.
    ///
    /// # Errors
    /// No answer.
    pub(crate) async fn copy_abilities(&self, active: &Resource, other: &Location) -> Result<CopyAbilities> {
        if !other.is_xrootd() {
            return Ok(CopyAbilities::default());
        }
        let answer = self.simple(active, Method::Options, |request| request).await?;
        let is_unable = answer.head.is_from_xrootd();
        answer.finish().await;
        Ok(CopyAbilities {
            pulls: is_unable.then_some(false),
            with_proxy: None,
        })
    }

    /// Orders a copy with a delegated proxy, or else without.
    async fn ask_delegating(&self, active: &Resource, order: &CopyOrder) -> Result<(Answer, DelegationOutcome)> {
        let why = match order.needs_no_proxy(active) {
            Some(why) => why.to_owned(),
            None => match self.ask_to_copy(active, order).await {
                // Most servers take no delegation, and say so. The other side may still need no
                // credential.
                Ok(answer) if answer.head.status == 400 => {
                    answer.finish().await;
                    TAKES_NONE.to_owned()
                }
                Err(error) if is_unsigned(&error) => error.detail().unwrap_or_default().to_owned(),
                answer => return Ok((answer?, DelegationOutcome::Delegated)),
            },
        };
        let answer = self.ask_to_copy(&active.delegating(Delegation::Never), order).await?;
        let server = active.location.authority();
        let outcome = DelegationOutcome::Without(format!("{server} got no proxy: {why}"));
        if why != SHOWS_TOKEN || answer.is_success() {
            return Ok((answer, outcome));
        }
        // It may need the proxy for a server behind it.
        let error = refused(answer, order).await;
        let words = error.peer_words().unwrap_or_default();
        match words.contains(ErrorCode::DelegationMissing.meaning()) {
            true => Ok((self.ask_to_copy(active, order).await?, DelegationOutcome::Delegated)),
            false => Err(without_proxy(error, Some(&outcome))),
        }
    }

    /// Orders a copy with a delegated proxy, and not without.
    async fn ask_delegating_only(&self, active: &Resource, order: &CopyOrder) -> Result<Answer> {
        let cannot = |why: &str| active.error(ErrorCode::PeerUnsupported, Phase::Open).with_detail(why);
        if let Some(why) = order.needs_no_proxy(active) {
            return Err(cannot(&format!("it gets no proxy: {why}")));
        }
        let order = order.without_token();
        let answer = self.ask_to_copy(active, &order).await?;
        if answer.head.status != 400 {
            return Ok(answer);
        }
        let words = answer.words().await;
        Err(cannot(TAKES_NONE).with_peer(Some(PeerStatus::Http(400)), &words))
    }

    async fn ask_to_copy(&self, active: &Resource, order: &CopyOrder) -> Result<Answer> {
        let delegates = active.access.delegates();
        let headers = |request: RequestBuilder, hop: &Hop<'_>| order.headers(request, hop, delegates);
        let ask = Ask {
            method: Method::Copy,
            headers: &headers,
            body: Body::Nothing,
        };
        self.ask_until_taken(active, &ask).await
    }
}

/// No proxy was signed; the server did not refuse anything.
fn is_unsigned(error: &Error) -> bool {
    let is_ours = matches!(error.code(), ErrorCode::CertificateUnusable | ErrorCode::PeerMisbehaved);
    is_ours && error.phase() == Phase::Authenticate
}

/// A COPY that was refused before it began. Newer servers report the other side's fault here, with
/// its status or as a failure line.
async fn refused(answer: Answer, order: &CopyOrder) -> Error {
    let (file, status, delay) = (answer.file.clone(), answer.head.status, answer.delay());
    let words = answer.words().await;
    let line = ["failure:", "failed:"].iter().find_map(|mark| words.strip_prefix(mark));
    let by_words = code_of_words(line.unwrap_or(&words));
    let code = match (status, line) {
        (412, None) if !order.overwrite => ErrorCode::PeerExists,
        // StoRM uses 412 for every early failure. A failure line says more than its status.
        (412, _) | (_, Some(_)) if by_words != ErrorCode::PeerFailed => by_words,
        (415, _) => ErrorCode::PeerUnsupported,
        _ => code_of(status),
    };
    let other = order.direction.peer_side();
    let side = match line {
        Some(line) => side_of_words(line, file.side, other),
        // What the server itself refuses, it blames on its client.
        None if side_of_words(&words, file.side, other) == other => other,
        None => file.side,
    };
    at_other_side(file.error(code, Phase::Open), side, &words, order)
        .with_peer(Some(PeerStatus::Http(status)), &words)
        .with_retry_after(delay)
        .with_reporter(Some(file.side))
}

/// The error at this side. At the other one, it is about the file there, in the phase that our
/// servers name.
fn at_other_side(error: Error, side: Side, words: &str, order: &CopyOrder) -> Error {
    if side != order.direction.peer_side() {
        return error.at_side(side);
    }
    let phase = phase_of_words(words).unwrap_or(error.phase());
    Error::new(error.code(), side, phase).with_subject(&order.peer)
}

/// A copy that another server makes. Dropping it closes the connection, on which that server gives
/// the copy up.
pub(crate) struct Copying {
    answer: Option<Answer>,
    file: Resource,
    parser: MarkerParser,
    order: CopyOrder,
    delegation: Option<DelegationOutcome>,
}

impl OrderedCopy for Copying {
    fn next(&mut self) -> Pending<'_, Option<CopyProgress>> {
        Box::pin(async move {
            let deadline = tokio::time::Instant::now() + self.order.silence;
            while let Some(answer) = &mut self.answer {
                let read = tokio::time::timeout_at(deadline, answer.next()).await;
                match read {
                    Err(_) => {
                        self.answer = None;
                        let error = self.file.error(ErrorCode::PeerStalled, Phase::Transfer);
                        let silent = format!("no progress marker for {} s", self.order.silence.as_secs());
                        return Err(lost(&self.file, Phase::Transfer, &error.with_detail(silent)));
                    }
                    Ok(Ok(Some(batch))) => {
                        let mut news = false;
                        for piece in batch.slices() {
                            news |= self.parser.feed(piece);
                        }
                        if self.parser.outcome().is_some() {
                            return self.conclude(None).await;
                        }
                        if news {
                            return Ok(Some(self.parser.progress().clone()));
                        }
                    }
                    Ok(Ok(None)) => return self.conclude(None).await,
                    Ok(Err(error)) => return self.conclude(Some(error)).await,
                }
            }
            Ok(None)
        })
    }

    fn progress(&self) -> &CopyProgress {
        self.parser.progress()
    }

    fn delegation(&self) -> Option<&DelegationOutcome> {
        self.delegation.as_ref()
    }
}

impl Copying {
    /// Judges the copy: the answer has ended, or its last line has come.
    async fn conclude(&mut self, broken: Option<Error>) -> Result<Option<CopyProgress>> {
        let outcome = self.parser.clone().finish();
        let answer = self.answer.take();
        match (outcome, broken) {
            (Some(Outcome::Success), _) => {
                if let Some(answer) = answer {
                    answer.finish().await;
                }
                Ok(None)
            }
            (Some(Outcome::Failure(words)), _) => Err(self.failed(&words)),
            (Some(Outcome::Aborted(words)), _) => Err(self
                .file
                .error(ErrorCode::Cancelled, Phase::Transfer)
                .with_peer(None, &words)),
            (None, Some(error)) => Err(lost(&self.file, Phase::Transfer, &error)),
            (None, None) if answer.as_ref().is_some_and(was_local) => {
                if let Some(answer) = answer {
                    answer.finish().await;
                }
                Ok(None)
            }
            (None, None) => {
                let error = self.file.error(ErrorCode::PeerMisbehaved, Phase::Transfer);
                let error = error.with_detail("the answer does not say how the copy went");
                Err(lost(&self.file, Phase::Transfer, &error))
            }
        }
    }

    fn failed(&self, words: &str) -> Error {
        let side = side_of_words(words, self.file.side, self.order.direction.peer_side());
        let error = self.file.error(code_of_words(words), Phase::Transfer);
        let error = at_other_side(error, side, words, &self.order).with_peer(None, words);
        error.with_reporter(Some(self.file.side))
    }
}

/// Whether both names were on the server itself, which made a plain copy (RFC 4918 §9.8.5).
fn was_local(answer: &Answer) -> bool {
    matches!(answer.head.status, 201 | 204) && matches!(answer.head.framing(&Method::Copy), Ok(Framing::Empty))
}

impl std::fmt::Debug for Copying {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Copying({}, {} bytes)",
            self.file.location,
            self.parser.progress().bytes
        )
    }
}
