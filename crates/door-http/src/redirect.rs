//! Redirects of hand-over: a client that comes with a capability, or is redirected with one.

use credentials::capability::{Audience, CapabilityUse};
use endpoint::{Decided, ExportPath, HandOver, Recipient, Target};
use http_wire::RequestHead;
use storage::LinkUse;
use types::{Location, LogicalPath, Result, Secret};

use crate::exchange::FileExchange;
use crate::hand_over;

impl FileExchange<'_, '_> {
    /// Redeems the capability of the request, which then decides instead of policy.
    pub(crate) fn take_capability(&mut self, head: &RequestHead) -> Result<()> {
        let Some(hand_over) = self.door.settings.hand_over.clone() else {
            return Ok(());
        };
        self.capability = hand_over::redeem(&hand_over, head, &self.http.path, self.http.peer.ip())?;
        if let Some(redeemed) = &self.capability {
            let holder = &redeemed.capability.holder;
            self.http.record.credential = "capability";
            self.http.record.subject = holder.subject.clone();
            self.http.record.token_id = holder.token_id.clone();
        }
        Ok(())
    }

    /// A capability counts as used only if the request was not refused before the upload began.
    pub(crate) fn settle_capability(&self, result: &Result<()>) {
        let hand_over = self.door.settings.hand_over.as_ref();
        if let (Some(hand_over), Some(redeemed), Err(_), false) = (hand_over, &self.capability, result, self.has_begun)
        {
            hand_over.give_back(redeemed);
        }
    }

    /// Redirects the client with a capability, if both sides want that. Returns true if it did.
    pub(crate) async fn hand_over(
        &mut self,
        head: &RequestHead,
        decided: &Decided<'_>,
        export_path: &ExportPath,
    ) -> Result<bool> {
        let Some(url) = self.capability_url(head, decided) else {
            return Ok(false);
        };
        let (status, used) = match (decided.usage, decided.may_replace) {
            (CapabilityUse::Read, _) => (302, LinkUse::Read),
            (_, true) => (307, LinkUse::Overwrite),
            (_, false) => (307, LinkUse::Create),
        };
        // The server that gets the capability does not check rights again.
        let checked = export_path.store.check_links(&export_path.path, used).await;
        checked.map_err(|error| error.with_subject(&self.http.path))?;
        self.http
            .whole(status, &[], |head| head.location(url.expose()).no_store())
            .await?;
        Ok(true)
    }

    fn capability_url(&self, head: &RequestHead, decided: &Decided<'_>) -> Option<Secret> {
        let hand_over = self.door.settings.hand_over.as_deref()?;
        let settings = hand_over.settings();
        let is_wanted = match decided.usage {
            CapabilityUse::Read => settings.reads,
            // Without it, the client is already sending the body, and would have to send it again.
            _ => settings.writes && head.expects_continue(),
        };
        let is_secure = self.http.connection.stream.is_encrypted();
        if !is_wanted || !is_secure || head.wants_secure_redirection() || decided.size_bytes < settings.minimum_bytes {
            return None;
        }
        let audience = match &settings.target {
            // Links are checked before the client is sent there.
            Some(target) => endpoint_of(target).after_checking_links(),
            None => hand_over.life(),
        };
        let path = &self.http.path;
        let target = self.with_capability(hand_over, head, decided, path, audience, settings.bind_address)?;
        Some(Secret::new(match &settings.target {
            Some(server) => server.wire_of(target.expose()),
            None => format!("http://{}{}", head.host()?, target.expose()),
        }))
    }

    /// The URL of the same request at a node, with a capability; `None` if nodes judge themselves.
    pub(crate) fn node_url(&self, head: &RequestHead, decided: &Decided<'_>, target: &Target) -> Option<Secret> {
        self.url_at_node(head, decided, target, true)
    }

    /// The same for a request of this server's own, in the client's name.
    pub(crate) fn own_node_url(&self, head: &RequestHead, decided: &Decided<'_>, target: &Target) -> Option<Secret> {
        self.url_at_node(head, decided, target, false)
    }

    fn url_at_node(
        &self,
        head: &RequestHead,
        decided: &Decided<'_>,
        target: &Target,
        is_bound: bool,
    ) -> Option<Secret> {
        let hand_over = self.door.settings.hand_over.as_deref()?;
        // Servers of others ignore capabilities, and judge by the client's own credential.
        if !hand_over.settings().to_nodes || !target.is_ours {
            return None;
        }
        let place = &target.location;
        let is_bound = is_bound && hand_over.settings().bind_address;
        let there = LogicalPath::parse_url_path(place.path()).ok()?;
        let sealed = self.with_capability(hand_over, head, decided, &there, endpoint_of(place), is_bound)?;
        let (_, query) = sealed.expose().split_once('?')?;
        Some(Secret::new(format!("{}?{query}", place.to_wire())))
    }

    /// Path and query of the request, with a capability for one server, which knows the file by
    /// this path.
    fn with_capability(
        &self,
        hand_over: &HandOver,
        head: &RequestHead,
        decided: &Decided<'_>,
        path: &LogicalPath,
        audience: Audience,
        is_bound: bool,
    ) -> Option<Secret> {
        let recipient = Recipient {
            record: &self.http.record,
            path,
            audience,
            address: is_bound.then(|| self.http.peer.ip()),
        };
        let text = hand_over.issue(decided, &recipient)?;
        Some(head.target.text_with_capability(&text))
    }
}

/// A server, by its URL without a path.
fn endpoint_of(place: &Location) -> Audience {
    Audience::endpoint(&place.wire_of("/"))
}
