//! The cache of an export: killed, damaged, evicted from outside, and refused to those without
//! rights.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use conformance::{Lab, alone, background, bytes, run, until};
use testkit::{Crossload, Scratch};

const LIMIT: Duration = Duration::from_secs(60);
const FILES: u64 = 6;
const FILE_BYTES: usize = (5 << 20) + 77;

/// A server with `/cached` and `/private` on the same directory, behind the same cache.
struct Site {
    lab: Lab,
    server: Crossload,
    slow: PathBuf,
    cache: PathBuf,
    _scratch: Scratch,
}

impl Site {
    fn start(test: &str) -> Option<Self> {
        let scratch = Scratch::new("cache").expect("a directory");
        let (slow, cache) = (scratch.join("slow"), scratch.join("cache"));
        fs::create_dir(&slow).expect("made");
        for number in 0..FILES {
            let file = slow.join(format!("f{number}"));
            fs::write(&file, bytes(FILE_BYTES, number)).expect("written");
            let file = fs::File::options().write(true).open(file).expect("opened");
            let long_ago = SystemTime::now() - Duration::from_secs(1000);
            file.set_modified(long_ago).expect("dated");
        }
        let export = |path: &str, anonymous: &str| {
            format!(
                "[[export]]\npath = \"{path}\"\ndirectory = {slow:?}\nanonymous = \"{anonymous}\"\nread_only = true\n\
                 cache_directory = {cache:?}\ncache_size_bytes = \"1GiB\"\n"
            )
        };
        let more = export("/cached", "read") + &export("/private", "none");
        let (lab, server) = alone(test, |options| options.more = more)?;
        Some(Self {
            lab,
            server,
            slow,
            cache,
            _scratch: scratch,
        })
    }

    fn url(&self, number: u64) -> String {
        self.server.clear_url(&format!("/cached/f{number}"))
    }

    #[track_caller]
    fn read(&self, number: u64) {
        let body = self.lab.curl(&[&self.url(number)]).expect(200).body;
        assert!(body == bytes(FILE_BYTES, number), "other bytes of f{number}");
    }

    fn cache_command(&self, verb: &str, more: &[&str]) -> Command {
        let words = ["cache", verb].map(PathBuf::from).into_iter();
        let words = words.chain([self.cache.clone()]).chain(more.iter().map(PathBuf::from));
        self.lab.client(words).expect("the program")
    }

    fn metric(&self, name: &str) -> u64 {
        let page = self.server.admin_url("/metrics").expect("an admin door");
        let text = self.lab.curl(&[&page]).expect(200).text();
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("crossload_cache_{name}{{")));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.unwrap_or_else(|| panic!("{name} in {text}"))
    }
}

/// The files in the cache.
fn cached_files(cache: &Path) -> Vec<PathBuf> {
    let shelves = fs::read_dir(cache.join("files")).into_iter().flatten().flatten();
    let files = shelves
        .filter_map(|shelf| fs::read_dir(shelf.path()).ok())
        .flatten()
        .flatten();
    files.map(|file| file.path()).collect()
}

#[test]
fn a_cache_survives_kills_and_damage_and_keeps_rights() {
    let Some(mut site) = Site::start("a_cache_survives_kills_and_damage_and_keeps_rights") else {
        return;
    };
    for round in 0..3 {
        let mut command = site.lab.command("curl").expect("curl");
        command.args(["-sS", "--parallel", "--max-time", "60"]);
        for number in 0..FILES {
            command.args(["-o", "/dev/null", &site.url(number)]);
        }
        let mut clients = background(&mut command, site.lab.scratch()).expect("curl");
        // Kills it at another point each time.
        until("fetching", LIMIT, || cached_files(&site.cache).len() > round);
        site.server.process().kill_hard();
        clients.kill_hard();
        site.server.start_again().expect("started again");
        let verified = run(&site.cache_command("verify", &[])).succeeded().text();
        assert!(verified.contains(", 0 damaged"), "{verified}");
    }
    (0..FILES).for_each(|number| site.read(number));
    until("stored", LIMIT, || {
        site.metric("used_bytes") > FILES * FILE_BYTES as u64
    });
    let before = site.metric("fetched_bytes_total");
    (0..FILES).for_each(|number| site.read(number));
    assert_eq!(site.metric("fetched_bytes_total"), before, "all of it is cached");

    follows_directives(&site);

    // What is cached is refused like anything else.
    let private = site.server.clear_url("/private/f0");
    site.lab.curl(&[&private]).expect(401);

    damage_and_evict(&site, before);
    prefetches(&site);
}

/// `cache prefetch`: as the client that asks, and only what is wanted.
fn prefetches(site: &Site) {
    let names: Vec<_> = (0..FILES).map(|number| format!("/f{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    run(&site.cache_command("evict", &names)).succeeded();
    let before = site.metric("fetched_bytes_total");
    let prefetch = |words: &[&str]| {
        run(&site
            .lab
            .client(["cache", "prefetch"].iter().chain(words))
            .expect("built"))
    };
    let some = site.server.clear_url("/cached/");
    let told = prefetch(&["-r", "--include", "f[12]", "--parallel", "2", &some])
        .succeeded()
        .text();
    assert_eq!(told.matches("fetched ").count(), 2, "{told}");
    // The file that was fetched is not read again, by whatever client.
    assert_eq!(site.metric("fetched_bytes_total"), before + 2 * FILE_BYTES as u64);
    let told = prefetch(&[&site.url(1), "--json"]).succeeded().text();
    assert!(told.contains("\"cached\""), "{told}");
    (1..3).for_each(|number| site.read(number));
    assert_eq!(site.metric("fetched_bytes_total"), before + 2 * FILE_BYTES as u64);
    prefetch(&[&some]).failed_with(21);
    prefetch(&["-r", &site.server.clear_url("/private/")]).failed_with(13);
    prefetch(&[&site.server.clear_url("/cached/none")]).failed_with(2);
    site.lab
        .upload(&site.server.clear_url("/data/f"), b"not cached", &[])
        .expect(201);
    let refused = prefetch(&[&site.server.clear_url("/data/f")]).failed_with(38);
    assert!(refused.said().contains("no cache"), "{}", refused.said());
}

/// `Age`, and what a client may demand of the cache (RFC 9111).
fn follows_directives(site: &Site) {
    let url = site.url(0);
    let only_cached = ["-H", "Cache-Control: only-if-cached", url.as_str()];
    for more in [&[][..], &["-I"][..], &["-r", "10-20"][..], &["-r", "1-2,5000000-"][..]] {
        let answer = site.lab.curl(&[more, &only_cached].concat());
        let age = answer.header("age").and_then(|age| age.parse::<u64>().ok());
        assert!(answer.status < 300 && age.is_some(), "{more:?}: {answer:?}");
    }
    // The state that the client demands is the present one, for those after it too.
    let slow = site.slow.join("f0");
    fs::write(&slow, bytes(FILE_BYTES, 50)).expect("written");
    let file = fs::File::options().write(true).open(slow).expect("opened");
    file.set_modified(SystemTime::now() - Duration::from_secs(500))
        .expect("dated");
    site.read(0);
    let fresh = site
        .lab
        .curl(&["-H", "Cache-Control: no-cache", "-I", &url])
        .expect(200);
    assert_eq!(fresh.header("age"), None, "nothing of it is cached");
    for more in [&[][..], &["-I"][..], &["-r", "10-20"][..]] {
        let answer = site.lab.curl(&[more, &only_cached].concat()).expect(504);
        assert!(
            more.contains(&"-I") || answer.text().contains("not_cached"),
            "{answer:?}"
        );
    }
    assert!(site.lab.curl(&[&url]).expect(200).body == bytes(FILE_BYTES, 50));
    until("cached", LIMIT, || site.lab.curl(&only_cached).status == 200);
    fs::write(site.slow.join("f0"), bytes(FILE_BYTES, 0)).expect("written");
    let file = fs::File::options()
        .write(true)
        .open(site.slow.join("f0"))
        .expect("opened");
    file.set_modified(SystemTime::now() - Duration::from_secs(400))
        .expect("dated");
    site.lab.curl(&["-H", "Cache-Control: max-age=0", &url]).expect(200);
    site.read(0);
    until("cached", LIMIT, || site.lab.curl(&only_cached).status == 200);
}

fn damage_and_evict(site: &Site, fetched_bytes: u64) {
    for file in cached_files(&site.cache) {
        let file = fs::File::options().read(true).write(true).open(file).expect("opened");
        let at = file.metadata().expect("facts").len() - 10;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[byte[0] ^ 4], at).expect("written");
    }
    let found = run(&site.cache_command("verify", &[])).failed_with(1).text();
    assert!(found.contains(&format!("{FILES} damaged")), "{found}");
    (0..FILES).for_each(|number| site.read(number));
    assert_eq!(site.metric("bad_blocks_total"), FILES);
    assert!(site.metric("fetched_bytes_total") > fetched_bytes);

    until("whole again", LIMIT, || {
        run(&site.cache_command("verify", &[])).code == Some(0)
    });
    let shown = run(&site.cache_command("stat", &["/f1"])).succeeded().text();
    assert!(
        shown.starts_with(&format!("{FILE_BYTES} of {FILE_BYTES} bytes")),
        "{shown}"
    );
    let url_path = run(&site.cache_command("stat", &["/cached/f1"])).failed_with(2);
    assert!(url_path.stderr.contains("try /f1"), "{}", url_path.said());
    let evicted = run(&site.cache_command("evict", &["/f1"])).succeeded().text();
    assert!(evicted.starts_with(&format!("evicted {FILE_BYTES} bytes")), "{evicted}");
    run(&site.cache_command("stat", &["/f1"])).failed_with(2);
    let fetched_bytes = site.metric("fetched_bytes_total");
    site.read(1);
    assert_eq!(site.metric("fetched_bytes_total"), fetched_bytes + FILE_BYTES as u64);
    until("stored again", LIMIT, || {
        run(&site.cache_command("ls", &[]))
            .succeeded()
            .text()
            .contains(": /f1\n")
    });
}
