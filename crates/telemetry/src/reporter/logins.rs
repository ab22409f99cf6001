//! The logins that receivers know.

use std::collections::HashMap;
use std::net::SocketAddr;

use monitoring_wire::{FlowLabel, LoginId};

use crate::client::Client;

/// A login without open files is forgotten after this time, if the end of its connection has not
/// been heard.
const IDLE_S: u64 = 3600;
/// Most logins of one connection: so many credentials can be shown on it before the first one
/// without open files is taken for ended. What one client can cost stays small.
const OF_CONNECTION_MAX: usize = 32;

struct Login {
    client: Client,
    id: LoginId,
    open: u32,
    has_left: bool,
    used_s: u64,
    /// What its files belong to, as receivers know it.
    label: Option<FlowLabel>,
}

/// Whether it is the same login. The program is none of it: a client may name another with each
/// request.
fn is_same(known: &Client, client: &Client) -> bool {
    let parts = |client: &Client| (client.spoken, client.peer, client.credential);
    parts(known) == parts(client)
        && known.user == client.user
        && known.subject == client.subject
        && known.issuer == client.issuer
        && known.organisation == client.organisation
}

/// Logins by connection. One connection of HTTP may show several credentials.
#[derive(Default)]
pub(super) struct Logins(HashMap<SocketAddr, Vec<Login>>);

impl Logins {
    /// The login of a client, if it is known.
    pub(super) fn find(&mut self, client: &Client, now_s: u64) -> Option<LoginId> {
        let login = self.of(client)?;
        login.used_s = now_s;
        Some(login.id)
    }

    fn of(&mut self, client: &Client) -> Option<&mut Login> {
        let logins = self.0.get_mut(&client.peer)?;
        logins.iter_mut().find(|login| is_same(&login.client, client))
    }

    /// Keeps a new login. Returns one of the same connection that is taken for ended.
    pub(super) fn add(&mut self, client: &Client, id: LoginId, now_s: u64) -> Option<LoginId> {
        let logins = self.0.entry(client.peer).or_default();
        let unused = logins.iter().position(|login| login.open == 0);
        let ended = unused.filter(|_| logins.len() >= OF_CONNECTION_MAX);
        let ended = ended.map(|index| logins.remove(index).id);
        logins.push(Login {
            client: client.clone(),
            id,
            open: 0,
            has_left: false,
            used_s: now_s,
            label: None,
        });
        ended
    }

    /// A file was opened, whose flow has this label. Returns the label if receivers do not know it.
    pub(super) fn opened(&mut self, client: &Client, label: Option<FlowLabel>) -> Option<FlowLabel> {
        let login = self.of(client)?;
        login.open += 1;
        let is_new = label.is_some() && label != login.label;
        if is_new {
            login.label = label;
        }
        label.filter(|_| is_new)
    }

    /// A file was closed. Returns whether the login ended with it, because its connection had.
    pub(super) fn closed(&mut self, client: &Client) -> bool {
        let Some(login) = self.of(client) else { return false };
        login.open = login.open.saturating_sub(1);
        let has_ended = login.has_left && login.open == 0;
        if has_ended {
            self.remove_ended(client.peer);
        }
        has_ended
    }

    /// A connection ended: its logins without open files, which end with it.
    pub(super) fn left(&mut self, peer: SocketAddr) -> Vec<LoginId> {
        let Some(logins) = self.0.get_mut(&peer) else {
            return Vec::new();
        };
        for login in &mut *logins {
            login.has_left = true;
        }
        let ended = logins
            .iter()
            .filter(|login| login.open == 0)
            .map(|login| login.id)
            .collect();
        self.remove_ended(peer);
        ended
    }

    fn remove_ended(&mut self, peer: SocketAddr) {
        if let Some(logins) = self.0.get_mut(&peer) {
            logins.retain(|login| !login.has_left || login.open > 0);
            if logins.is_empty() {
                self.0.remove(&peer);
            }
        }
    }

    /// Forgets logins that have not been used for long.
    pub(super) fn forget_idle(&mut self, now_s: u64) -> Vec<LoginId> {
        let mut forgotten = Vec::new();
        self.0.retain(|_, logins| {
            logins.retain(|login| {
                let is_idle = login.open == 0 && now_s.saturating_sub(login.used_s) > IDLE_S;
                if is_idle {
                    forgotten.push(login.id);
                }
                !is_idle
            });
            !logins.is_empty()
        });
        forgotten
    }

    pub(super) fn with_open_files(&self) -> Vec<(LoginId, Client, Option<FlowLabel>)> {
        let logins = self.0.values().flatten().filter(|login| login.open > 0);
        logins
            .map(|login| (login.id, login.client.clone(), login.label))
            .collect()
    }
}
