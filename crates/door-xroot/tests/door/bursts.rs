//! Requests that arrive together.

use door_xroot::limits::{XROOT_BURST_REQUESTS_MAX, XROOT_QUEUED_TIME_MAX};
use policy::AnonymousAccess;
use storage::{Effect, Fault, Faulty, Memory, Operation, Storage as _};
use types::LogicalPath;
use xroot_wire::request::Request;
use xroot_wire::{OpenOptions, StreamId};

use crate::harness::{Server, export, open};

/// The answer to the first of many slow requests arrives while the others are served. What the
/// client does then still decides whether the last of them are served: if the answers were kept
/// together, all requests of a client that has left would be.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_took_long_does_not_wait_for_those_behind_it() {
    let memory = Memory::new(1 << 20);
    let slow = Fault {
        operation: Operation::Open,
        nth: 0,
        effect: Effect::Delay(4 * XROOT_QUEUED_TIME_MAX),
    };
    let exported = export("/data", AnonymousAccess::Read, Faulty::new(memory.clone(), vec![slow]));
    let mut server = Server::start(|settings| {
        settings.site.exports = endpoint::SharedExports::new(endpoint::Exports::new(vec![exported]));
    });
    server.store = memory.clone();
    server.put("/f", b"content");
    let mut raw = server.client().await;
    let count = u16::try_from(XROOT_BURST_REQUESTS_MAX).unwrap();
    let mut together = Vec::new();
    for stream in 1..=count {
        let request: Request<'_> = open("/data/f", OpenOptions::READ);
        request.encode(StreamId::new(stream), &mut together);
    }
    raw.send(&together).await;
    let first = raw.answer().await;
    memory.remove(&LogicalPath::parse("/f").unwrap()).unwrap();
    let mut last = raw.answer().await;
    while last.stream != StreamId::new(count) {
        last = raw.answer().await;
    }
    assert_ne!(
        first.status, last.status,
        "the last file was opened before the first answer came"
    );
}
