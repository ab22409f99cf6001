//! The room of all nodes together, and the largest room of one: a file must fit on a node.

use std::time::Duration;

use endpoint::SharedSpace;
use futures_util::future::join_all;
use storage::Space;
use tokio::time::timeout;
use types::LogicalPath;

use crate::limits::{ANSWER_TIME_MS, ROOM_BYTES_MAX};
use crate::node::{Node, NodeId};
use crate::redirector::Redirector;

/// The room of one node.
struct Room {
    total_bytes: u64,
    free_bytes: u64,
}

/// The room below a path. Nodes that tell no status are asked in their own protocol, if that is
/// XRootD's; others do not count.
pub(crate) async fn of_all(redirector: &Redirector, path: &LogicalPath) -> SharedSpace {
    let (mut told, mut silent, mut all) = (Vec::new(), Vec::new(), 0);
    redirector.director.with_nodes(|nodes, now_ms| {
        for (id, node) in nodes.iter().filter(|(_, node)| is_below(node, path)) {
            all += 1;
            match node.status(now_ms).filter(|_| node.is_present()) {
                Some(status) => told.push(Room {
                    total_bytes: status.total_bytes,
                    free_bytes: if node.takes_writes() { status.free_bytes } else { 0 },
                }),
                None if node.is_present() => silent.push(id),
                None => {}
            }
        }
    });
    let asked = join_all(silent.into_iter().map(|id| ask(redirector, id, path))).await;
    let mut room = sum(told.into_iter().chain(asked.into_iter().flatten()));
    room.unheard = u64::saturating_sub(all, room.heard);
    room
}

/// Whether files below the path may be on the node.
fn is_below(node: &Node, path: &LogicalPath) -> bool {
    let exports = &node.config.exports;
    exports
        .iter()
        .any(|export| path.is_within(export) || export.is_within(path))
}

async fn ask(redirector: &Redirector, id: NodeId, path: &LogicalPath) -> Option<Room> {
    let server = redirector.nodes.get(id).filter(|server| server.location.is_xrootd())?;
    let resource = server.resource(path);
    let space = redirector.nodes.client().space(&resource);
    let space = timeout(Duration::from_millis(ANSWER_TIME_MS), space).await.ok()?.ok()?;
    Some(Room {
        total_bytes: space.total_bytes,
        free_bytes: space.free_bytes,
    })
}

fn sum(rooms: impl Iterator<Item = Room>) -> SharedSpace {
    let mut all = SharedSpace {
        space: Space {
            total_bytes: 0,
            free_bytes: 0,
            used_bytes: 0,
            quota_bytes: None,
            device: None,
        },
        largest_free_bytes: 0,
        nodes: 0,
        heard: 0,
        unheard: 0,
    };
    for room in rooms {
        let space = &mut all.space;
        let free_bytes = room.free_bytes.min(ROOM_BYTES_MAX);
        space.total_bytes = sum_of(space.total_bytes, room.total_bytes);
        space.free_bytes = sum_of(space.free_bytes, free_bytes);
        space.used_bytes = sum_of(space.used_bytes, room.total_bytes.saturating_sub(room.free_bytes));
        all.largest_free_bytes = all.largest_free_bytes.max(free_bytes);
        all.nodes += u64::from(free_bytes > 0);
        all.heard += 1;
    }
    all
}

/// A node may tell anything.
fn sum_of(bytes: u64, more: u64) -> u64 {
    bytes.saturating_add(more).min(ROOM_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_must_fit_on_one_node() {
        let room = |total_bytes, free_bytes| Room {
            total_bytes,
            free_bytes,
        };
        let all = sum([room(100, 30), room(50, 20), room(10, 0)].into_iter());
        let space = (all.space.total_bytes, all.space.free_bytes, all.space.used_bytes);
        assert_eq!(space, (160, 50, 110));
        assert_eq!((all.largest_free_bytes, all.nodes, all.heard), (30, 2, 3));
        // Sizes are numbers of 63 bits for clients, whatever a node tells.
        let huge = || room(u64::MAX, u64::MAX);
        for all in [
            sum([huge()].into_iter()),
            sum([huge(), room(u64::MAX, 5), huge()].into_iter()),
        ] {
            let space = [all.space.total_bytes, all.space.free_bytes, all.largest_free_bytes];
            assert_eq!(space, [ROOM_BYTES_MAX; 3]);
            assert!(all.space.used_bytes <= ROOM_BYTES_MAX);
        }
    }
}
