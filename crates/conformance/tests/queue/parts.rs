//! What a stop of the queue leaves at XRootD, which keeps the part of an upload whose client is
//! gone for ten minutes.

use std::path::PathBuf;
use std::time::Duration;

use conformance::{Lab, bytes, until};
use serde_json::json;
use testkit::{Crossload, Direction, Fault, Relay, Result, Xrootd, XrootdAccess, available};

use crate::open_site::{OpenSite, open_queue};

const SOON: Duration = Duration::from_secs(60);
/// What a connection through a relay delivers before it stands still: `xrdcp` stores blocks of
/// 8 MiB.
const PART_BYTES: u64 = 24 << 20;

/// A queue between an endpoint and Debian's XRootD, each behind a relay that stalls.
struct Between {
    site: OpenSite,
    from: Relay,
    to: Relay,
    data: PathBuf,
    _xrootd: Xrootd,
}

impl Between {
    fn start(name: &str) -> Result<Self> {
        let lab = Lab::new(name)?;
        let xrootd = lab.xrootd("to", XrootdAccess::Open)?;
        let endpoint = Crossload::start(lab.options("endpoint"))?;
        let relay = |port: u16, direction| -> Result<Relay> {
            let relay = Relay::start(([127, 0, 0, 1], port).into())?;
            relay.set_fault(Fault::StallAfter(direction, PART_BYTES), usize::MAX);
            Ok(relay)
        };
        let queue = open_queue(&lab, "")?;
        Ok(Self {
            from: relay(endpoint.port(), Direction::ToClient)?,
            to: relay(xrootd.root_port(), Direction::ToTarget)?,
            data: xrootd.data().to_owned(),
            site: OpenSite { lab, endpoint, queue },
            _xrootd: xrootd,
        })
    }

    fn size(&self, name: &str) -> Option<u64> {
        let found = std::fs::metadata(self.data.join(name));
        found.ok().map(|found| found.len())
    }
}

#[test]
fn a_queue_that_stops_leaves_no_parts_at_xrootd() {
    let test = "a_queue_that_stops_leaves_no_parts_at_xrootd";
    let Some(mut between) = available(test, Between::start("parts")) else {
        return;
    };
    let content = bytes(48 << 20, 83);
    std::fs::write(between.site.endpoint.data().join("f"), content).expect("source");
    // Through the queue, by XRootD, and by the source's endpoint.
    let names = ["streamed", "fetched", "sent"];
    for name in names {
        let port = between.from.port();
        let from = match name {
            "fetched" => format!("root://localhost:{port}//data/f"),
            "streamed" => format!("http://localhost:{port}/data/f?copy_mode=streamed"),
            _ => format!("http://localhost:{port}/data/f"),
        };
        let to = format!("root://localhost:{}//data/{name}", between.to.port());
        between.site.submit(&[(from, to)], json!({}));
    }
    for name in names {
        until(&format!("a part of {name} is there"), SOON, || {
            between.size(name).is_some_and(|bytes| bytes > 0)
        });
    }
    between.site.queue.process().terminate().expect("it stops");
    for name in ["streamed", "fetched"] {
        let size = between.size(name);
        assert_eq!(size, None, "{name}: {}", between.site.queue.log());
    }
    // The endpoint notices by its next marker.
    until("the part that was sent is gone", SOON, || {
        between.size("sent").is_none()
    });
}
