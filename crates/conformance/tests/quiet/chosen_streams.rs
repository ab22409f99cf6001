//! How many streams a third-party copy takes from a near source when its client leaves that to the
//! server, as gfal and with it FTS do.

use std::io::Write as _;
use std::thread;

use conformance::{Lab, base64_of, bytes, is_whole, md5_of, transfers, until};
use serde_json::Value;
use testkit::{Crossload, Export, Result, Scratch, available};

/// Files from this size on get streams without a request.
const SIZE_MIN: usize = 64 << 20;
/// Bytes per second of one stream from which on a second one is tried.
const RATE_MIN: f64 = (256 << 20) as f64;
/// Long enough that there is something left for a second stream when the first has shown what it
/// can do.
const SIZE: usize = 256 << 20;
/// Copies until one of them was fast from its first moment on.
const TRIES: usize = 8;
/// How long a line of the log may stay away.
const SOON: std::time::Duration = std::time::Duration::from_secs(15);

struct Site {
    lab: Lab,
    here: Crossload,
    there: Crossload,
    /// Files lie in memory: a disk is no fast source.
    memory: Scratch,
}

impl Site {
    fn start() -> Result<Self> {
        let (lab, memory) = (Lab::new("chosen-streams")?, Scratch::in_memory("chosen-streams")?);
        let start = |name: &str| {
            let mut options = lab.options(name);
            options.exports = vec![Export::open(&memory.join(name))];
            lab.crossload(options)
        };
        let (here, there) = (start("here")?, start("there")?);
        Ok(Self {
            lab,
            here,
            there,
            memory,
        })
    }

    fn plant(&self, name: &str, content: &[u8]) {
        std::fs::write(self.memory.join("there").join(name), content).expect("written");
    }

    /// Pulls the file from `source`, and gives what the log says of it; what came is `content`.
    fn pull(&self, source: &str, content: &[u8], headers: &[&str]) -> Value {
        let before = transfers(self.here.log()).len();
        let target = self.here.url("/data/copy");
        let answer = self.lab.copy(&target, &format!("Source: {source}"), headers);
        assert!(answer.text().contains("success:"), "{}", answer.text());
        until("a line about the copy", SOON, || {
            transfers(self.here.log()).len() > before
        });
        let line = transfers(self.here.log()).pop().expect("a line");
        assert!(is_whole(&self.memory.join("here/copy"), content), "{line}");
        line
    }
}

fn streams(line: &Value) -> u64 {
    line["streams"].as_u64().expect("a number")
}

#[test]
fn a_fast_source_gets_a_second_stream_for_a_second_processor() {
    let test = "a_fast_source_gets_a_second_stream_for_a_second_processor";
    let Some(site) = available(test, Site::start()) else {
        return;
    };
    let content = bytes(SIZE, 31);
    site.plant("f", &content);
    let source = site.there.url("/data/f");
    let mut copies = Vec::new();
    while copies.len() < TRIES && !copies.iter().any(|line| streams(line) > 1) {
        copies.push(site.pull(&source, &content, &["X-Number-Of-Streams: 0"]));
    }
    let processors = thread::available_parallelism().expect("known").get() as u64;
    assert!(
        copies.iter().all(|line| streams(line) <= processors.max(1)),
        "{copies:#?}"
    );
    // At twice the least rate in all, the first stream was certainly fast enough.
    let was_fast = |line: &Value| {
        let seconds = line["total_us"].as_u64().expect("a number") as f64 / 1e6;
        SIZE as f64 / seconds > 2.0 * RATE_MIN
    };
    let has_second = copies.iter().any(|line| streams(line) > 1);
    if !has_second && (processors < 2 || !copies.iter().any(was_fast)) {
        let reason = "one processor only, or all copies were slower than a second stream is tried for";
        let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
        return;
    }
    assert!(has_second, "{copies:#?}");
}

#[test]
fn one_is_left_where_one_was_asked_for_or_a_second_gains_nothing() {
    let test = "one_is_left_where_one_was_asked_for_or_a_second_gains_nothing";
    let Some(site) = available(test, Site::start()) else {
        return;
    };
    let content = bytes(SIZE / 2, 32);
    let short = &content[..SIZE_MIN - 1];
    site.plant("f", &content);
    site.plant("short", short);
    let secure = site.there.url("/data/f");
    assert_eq!(streams(&site.pull(&secure, &content, &["X-Number-Of-Streams: 1"])), 1);
    // A source that is slow to answer on a busy machine counts as far, and gets a second stream.
    let clear = site.there.clear_url("/data/f");
    let gets_one = || streams(&site.pull(&clear, &content, &[])) == 1;
    assert!((0..TRIES).any(|_| gets_one()), "a near source in clear text");
    let source_of_short = site.there.url("/data/short");
    assert_eq!(streams(&site.pull(&source_of_short, short, &[])), 1);
    // A checksum of the whole cannot be put together from those of parts.
    let expected = format!("Digest: md5={}", base64_of(&md5_of(&content)));
    assert_eq!(streams(&site.pull(&secure, &content, &[&expected])), 1);
}
