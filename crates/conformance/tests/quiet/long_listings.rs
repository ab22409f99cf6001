//! The client's memory does not grow with the number of entries that it lists: those of one
//! directory, and those of a thousand.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use conformance::Lab;
use testkit::{Crossload, Entries, available, memory_of};

/// Entries of the shorter listing, and of the longer one, if the environment names no other.
const FEW: u64 = 20_000;
const MANY: u64 = 120_000;
/// How many entries the longer listing has: figures for `docs/performance.md`.
const MANY_VARIABLE: &str = "CONFORMANCE_ENTRIES";
/// More memory than this for the longer one is growth: its names alone take as much.
const NOISE_BYTES: u64 = 16 << 20;
/// Peaks are looked up so often.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// The highest resident size of our client with these arguments.
fn peak_bytes(lab: &Lab, arguments: &[&str]) -> u64 {
    let mut command = lab.client(arguments).expect("the client is built");
    let complaints = lab.fresh("complaints");
    let said = std::fs::File::create(&complaints).expect("a file");
    let mut client = command.stdout(Stdio::null()).stderr(said).spawn().expect("it starts");
    let mut peak = 0;
    let status = loop {
        if let Ok(memory) = memory_of(client.id()) {
            peak = peak.max(memory.peak_bytes);
        }
        if let Some(status) = client.try_wait().expect("it can be waited for") {
            break status;
        }
        sleep(LOOK_PAUSE);
    };
    let said = std::fs::read_to_string(&complaints).unwrap_or_default();
    assert_eq!(status.code(), Some(0), "{arguments:?}: {said}");
    peak
}

#[test]
#[expect(clippy::print_stderr, reason = "the figures, where they are asked for")]
fn memory_does_not_grow_with_what_is_listed() {
    let test = "memory_does_not_grow_with_what_is_listed";
    let site = Crossload::binary().and_then(|_| Lab::new("long-listings"));
    let Some(lab) = available(test, site) else { return };
    let asked = std::env::var(MANY_VARIABLE).ok();
    let many = asked
        .as_ref()
        .map_or(MANY, |text| text.parse().expect("a number of entries"));
    let (few, many) = (
        Entries::start(FEW).expect("a server"),
        Entries::start(many).expect("a server"),
    );
    let target = lab.fresh("target");
    std::fs::create_dir(&target).expect("a directory");
    let target = target.to_str().expect("plain");
    let mut grown = Vec::new();
    // Millions of entries take minutes for each command.
    let trees: &[(&str, bool)] = match asked {
        Some(_) => &[("/flat", true)],
        None => &[("/flat", true), ("/flat", false), ("/deep", true)],
    };
    for (command, options) in [
        ("find", &[][..]),
        ("ls", &["-R"]),
        ("copy", &["-r", "--dry-run"]),
        ("sync", &["--dry-run"]),
        ("rm", &["-r", "--dry-run"]),
    ] {
        for (path, is_root) in trees.iter().copied() {
            let peak = |server: &Entries| {
                let url = if is_root {
                    server.root_url(path)
                } else {
                    server.url(path)
                };
                let places = match command {
                    "copy" | "sync" => vec![url.as_str(), target],
                    _ => vec![url.as_str()],
                };
                peak_bytes(&lab, &[&[command], options, &places].concat())
            };
            let (short, long) = (peak(&few), peak(&many));
            let line = format!(
                "{command} {path} root={is_root}: {} and {} KiB",
                short >> 10,
                long >> 10
            );
            if asked.is_some() {
                eprintln!("{line}");
            }
            if long > short + NOISE_BYTES {
                grown.push(line);
            }
        }
    }
    assert!(grown.is_empty(), "{grown:#?}");
}
