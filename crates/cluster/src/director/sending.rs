//! To which node a client is sent.

use endpoint::ClientId;
use siphasher::sip::SipHasher13;
use types::LogicalPath;

use super::state::State;
use super::{Client, Director, Located};
use crate::choice::{self, Readers};
use crate::expected::Coming;
use crate::explanation::{Basis, Directed, Reason, Undirected};
use crate::limits::UNKNOWN_SIZE_BYTES;
use crate::locations::Known;
use crate::near::Nearness;
use crate::placement::{self, NewFile, Placed, RoomFor};

impl Director {
    /// Sends a reader to a node that has the file.
    ///
    /// # Errors
    /// Those of [`Director::locate`], and [`Undirected::NoHolder`].
    pub async fn read(&self, path: &LogicalPath, client: Client<'_>) -> Result<Directed, Undirected> {
        let located = self.locate(path, client.refresh).await?;
        match self.choose(path, &located, client) {
            Some(directed) => Ok(directed),
            // What is known may be old, or not all: ask, once.
            None if !client.refresh && matches!(located.basis, Basis::Known { .. }) => {
                let located = self.locate(path, true).await?;
                let chosen = self.choose(path, &located, client);
                chosen.ok_or(Undirected::NoHolder {
                    holders: located.holders,
                })
            }
            None => Err(Undirected::NoHolder {
                holders: located.holders,
            }),
        }
    }

    fn choose(&self, path: &LogicalPath, located: &Located, client: Client<'_>) -> Option<Directed> {
        let (state, now_ms) = (&mut *self.state(), self.now_ms());
        let readers = Readers {
            holders: &located.holders,
            sticky: located.sticky,
            near: client.near,
            tried: client.tried,
        };
        let choice = choice::reader(&state.nodes, readers, now_ms, &mut state.random)?;
        if !client.only_asks {
            state.nodes.sent(choice.node, now_ms);
            state.locations.stick(path, choice.node, now_ms);
        }
        Some(Directed {
            node: choice.node,
            reason: Reason::Reader(choice.why),
            nearness: choice.nearness,
            holders: located.holders.clone(),
            basis: located.basis.clone(),
        })
    }

    /// Sends a writer to the node that has the file, or a new file to a node with room, which is
    /// kept until the file comes, [`Director::given_up`], or for a named time.
    ///
    /// # Errors
    /// All of [`Undirected`] but `NotFound`.
    pub async fn write(
        &self,
        path: &LogicalPath,
        size_bytes: Option<u64>,
        client: Client<'_>,
    ) -> Result<Directed, Undirected> {
        let basis = match self.locate_all(path, client.refresh).await {
            Ok(located) => return self.overwrite(&located, client),
            Err(Undirected::NotFound(basis)) => basis,
            Err(other) => return Err(other),
        };
        let silent = match client.is_new {
            true => self.away(path),
            false => self.away_with(path),
        };
        if !silent.is_empty() {
            return Err(Undirected::Unsure { silent });
        }
        self.check_above(path).await?;
        let (state, now_ms) = (&mut *self.state(), self.now_ms());
        // It may have come since the nodes were asked.
        if state.claims.contains(path) {
            return Err(Undirected::Claimed);
        }
        if let Known::Held { holders, .. } = state.locations.find(path, &state.nodes, now_ms) {
            return state.overwrite(&holders, basis, client, now_ms);
        }
        if let Some(why) = state.in_the_way(path, now_ms) {
            return Err(why);
        }
        if let Some(node) = state.is_stored_by_another(path, client, now_ms) {
            return Err(Undirected::NoHolder { holders: vec![node] });
        }
        let expected = state.expected_at(path, size_bytes, client, now_ms);
        if let Ok(Some(node)) = expected {
            state.note_sent(node, client, now_ms);
            if !client.only_asks {
                state.expected.join(path);
            }
            return Ok(Directed {
                node,
                reason: Reason::Expected,
                nearness: Nearness::Far,
                holders: Vec::new(),
                basis,
            });
        }
        let is_first = state.coming(path, now_ms).is_none();
        if is_first && state.is_waited_for(path, now_ms) {
            return Err(Undirected::Claimed);
        }
        let placed = self.choose_place(path, size_bytes, client, state)?;
        expected?;
        Ok(self.place(path, size_bytes, client, placed, basis, state))
    }

    /// A node for a new file.
    fn choose_place(
        &self,
        path: &LogicalPath,
        size_bytes: Option<u64>,
        client: Client<'_>,
        state: &mut State,
    ) -> Result<Placed, Undirected> {
        let now_ms = self.now_ms();
        state.reservations.expire(now_ms);
        let file = NewFile {
            path,
            size_bytes,
            tried: client.tried,
            near: client.near,
        };
        let mut random = draws_for(path);
        Ok(placement::writer(
            &state.nodes,
            &state.reservations,
            file,
            now_ms,
            &mut random,
        )?)
    }

    /// Sends a client to the node for a new file, and keeps room for it there.
    fn place(
        &self,
        path: &LogicalPath,
        size_bytes: Option<u64>,
        client: Client<'_>,
        placed: Placed,
        basis: Basis,
        state: &mut State,
    ) -> Directed {
        let now_ms = self.now_ms();
        state.note_sent(placed.node, client, now_ms);
        let nearness = client.near.of(placed.node, &state.nodes);
        if !client.only_asks {
            let reserved = size_bytes.unwrap_or(UNKNOWN_SIZE_BYTES);
            let room = RoomFor {
                node: placed.node,
                bytes: reserved,
                room_bytes: placed.room_bytes,
                client: client.address.map(ClientId::at),
            };
            let reservation = state.reservations.reserve(room, now_ms);
            state.expected.note(
                path,
                Coming {
                    node: placed.node,
                    reservation: Some(reservation),
                    client: client.address,
                    since_ms: now_ms,
                    clients: 1,
                },
            );
            self.locator.placed(path, placed.node);
        }
        Directed {
            node: placed.node,
            reason: Reason::Placed {
                fill: placed.fill,
                busy: placed.busy,
                candidates: placed.candidates,
            },
            nearness,
            holders: Vec::new(),
            basis,
        }
    }

    /// Sends a client that changes a file to a node that has it.
    ///
    /// # Errors
    /// Those of [`Director::read`].
    pub async fn update(&self, path: &LogicalPath, client: Client<'_>) -> Result<Directed, Undirected> {
        let located = self.locate_all(path, client.refresh).await?;
        self.overwrite(&located, client)
    }

    fn overwrite(&self, located: &Located, client: Client<'_>) -> Result<Directed, Undirected> {
        let now_ms = self.now_ms();
        let basis = located.basis.clone();
        self.state().overwrite(&located.holders, basis, client, now_ms)
    }
}

/// The draws for a new file: the same in all redirectors, so that two clients that store one name
/// at the same time through two of them are sent to one node, which lets one win.
fn draws_for(path: &LogicalPath) -> fastrand::Rng {
    fastrand::Rng::with_seed(SipHasher13::new().hash(path.as_str().as_bytes()))
}
