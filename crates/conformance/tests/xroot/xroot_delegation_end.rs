//! A delegated proxy that ends in the middle of a copy. Both servers are ours, the source behind a
//! relay, and their clock is put forward while it holds the data back.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use conformance::{Endpoint, Lab, Run, bytes, parts, transfers, until};
use serde_json::Value;
use testkit::{Clock, Crossload, Direction, Fault, Relay, Result, available, require};

use crate::xroot_delegation::{Member, delegating_options, server};

/// How soon a server must have begun, and must have cleaned up.
const SOON: Duration = Duration::from_secs(30);
/// Longer than the delegated proxy lives.
const HOURS: u32 = 13;
const SIZE: usize = 16 << 20;

struct Site {
    // The first is dropped first: a stopping server waits for what it is sending.
    relay: Relay,
    // Runs as long as the site.
    _source: Endpoint,
    destination: Endpoint,
    clock: Clock,
    proxy: String,
    content: Vec<u8>,
    lab: Lab,
}

fn site() -> Result<Site> {
    require("xrdcp")?;
    let lab = Lab::new("delegation-end")?;
    let member = Member::new(&lab)?;
    let clock = Clock::new(&lab.fresh("clock"))?;
    let start = |name| -> Result<Endpoint> {
        let mut options = delegating_options(&lab, name, &member.vomsdir);
        options.binary = Some(clock.wrap(&Crossload::binary()?)?);
        Ok(Endpoint::Crossload(Box::new(lab.crossload(options)?)))
    };
    let (source, destination) = (start("source")?, start("destination")?);
    let content = bytes(SIZE, 272);
    source.put("file", &content);
    Ok(Site {
        relay: Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, source.port())))?,
        proxy: member.producer(&lab)?,
        _source: source,
        destination,
        clock,
        content,
        lab,
    })
}

impl Site {
    fn from(&self) -> String {
        format!("root://localhost:{}//data/file", self.relay.port())
    }

    fn xrdcp(&self, name: &str) -> Run {
        let order = ["--tpc", "delegate", "only", &self.from(), &self.destination.root(name)];
        self.lab.xrdcp_with(&[("X509_USER_PROXY", &self.proxy)], &order)
    }

    /// Cuts the connection that is held, and no further one.
    fn cut(&self) {
        self.relay.set_fault(Fault::CutAfter(Direction::ToClient, 1), 1);
    }

    /// Gives an order, and lets the proxy end when half of the data has arrived.
    fn order(&self, order: impl Fn(&Self) -> Run + Sync, then: impl FnOnce()) -> Run {
        let half = (SIZE / 2) as u64;
        self.relay
            .set_fault(Fault::StallAfter(Direction::ToClient, half), usize::MAX);
        thread::scope(|scope| {
            let running = scope.spawn(|| order(self));
            until("half of it has arrived", SOON, || {
                let begun = |part: &PathBuf| part.metadata().is_ok_and(|facts| facts.len() > 0);
                running.is_finished() || parts(self.destination.data()).iter().any(begun)
            });
            self.clock.advance(HOURS).expect("put forward");
            then();
            running.join().expect("it has ended")
        })
    }

    /// The codes with which copies of our destination have failed.
    fn failures(&self) -> Vec<Value> {
        let mut lines = transfers(server(&self.destination).log());
        lines.iter_mut().map(|line| line["error"]["code"].take()).collect()
    }

    /// Demands that one copy has begun and has failed, and has left nothing.
    #[track_caller]
    fn assert_failed(&self, done: &Run, name: &str) {
        let words = "the delegated credential expired during the copy";
        assert!(done.code != Some(0) && done.said().contains(words), "{}", done.said());
        assert_eq!(self.destination.stored(name), None);
        until("nothing is left", SOON, || parts(self.destination.data()).is_empty());
        // The line of the copy is written after its client has been told.
        until("the copy is in the log", SOON, || !self.failures().is_empty());
        assert_eq!(self.failures(), ["delegation_expired"]);
    }
}

#[test]
fn a_copy_goes_on_when_its_proxy_ends() {
    let test = "a_copy_goes_on_when_its_proxy_ends";
    let Some(site) = available(test, site()) else { return };
    let done = site.order(|site| site.xrdcp("whole"), || site.relay.heal());
    done.succeeded();
    assert!(site.destination.stored("whole").as_ref() == Some(&site.content));
}

#[test]
fn a_copy_that_is_cut_after_its_proxy_ended_says_so() {
    let test = "a_copy_that_is_cut_after_its_proxy_ended_says_so";
    let Some(site) = available(test, site()) else { return };
    let done = site.order(|site| site.xrdcp("cut"), || site.cut());
    site.assert_failed(&done, "cut");
}

/// Our client may use a key where nothing can be delegated, but not where a server has refused.
#[test]
fn our_client_tries_no_key_after_the_proxy_ended() {
    let test = "our_client_tries_no_key_after_the_proxy_ended";
    let Some(site) = available(test, site()) else { return };
    let (from, to) = (site.from(), site.destination.root("ours"));
    let arguments = ["--proxy", &site.proxy, "--delegate", &from, &to];
    let done = site.order(|site| site.lab.run_client("copy", &arguments), || site.cut());
    site.assert_failed(&done, "ours");
}
