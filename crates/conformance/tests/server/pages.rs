//! The pages for operators: as programs get them, and as Chromium shows them.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use conformance::{
    JsonLines, Lab, Look, assert_pages_are_good, background, json_lines, last_json, look_at, run, until,
};
use testkit::{Crossload, available, require_queue_python};

/// Limit for what must happen.
const LIMIT: Duration = Duration::from_secs(60);
/// What the source sends at once, and what it keeps for later.
pub(crate) const PART_BYTES: usize = 1 << 20;

const JANE: &str = "/O=Crossload test/CN=Jane Doe";
const JOHN: &str = "/O=Crossload test/CN=John Doe";

/// A server with pages on loopback.
fn server(lab: &Lab, more: &str) -> testkit::Result<Crossload> {
    let mut options = lab.options("pages");
    options.macaroons = true;
    // A copy that is looked at waits until the browser is free.
    let limits = "[limits]\nstall_timeout = \"10m\"\n";
    options.more = format!("[web]\nlisten = \"127.0.0.1:0\"\n{more}\n{limits}");
    lab.crossload(options)
}

#[test]
fn the_endpoint_is_shown_without_secrets() {
    let name = "the_endpoint_is_shown_without_secrets";
    let Some(lab) = available(name, Lab::new("pages-endpoint")) else {
        return;
    };
    let Some(server) = available(name, server(&lab, "")) else {
        return;
    };
    let page = lab
        .curl(&[format!("{}/endpoint", server.log().pages_url("http"))])
        .expect(200);
    let text = page.text();
    let directory = server.configuration();
    let secret = fs::read_to_string(directory.with_file_name("macaroon.secret")).expect("a secret");
    for needed in [
        "<code>secret_file</code>",
        "set, not shown",
        "server certificate",
        "days left",
        "export /data",
    ] {
        assert!(text.contains(needed), "{needed} is missing in {text}");
    }
    assert!(
        !text.contains(secret.trim()) && !text.contains("macaroon.secret"),
        "{text}"
    );
    assert!(
        page.header("content-security-policy")
            .is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    assert_eq!(page.header("strict-transport-security"), None);
    let encrypted = lab
        .curl(&[format!("{}/endpoint", server.log().pages_url("https"))])
        .expect(200);
    let promised = encrypted.header("strict-transport-security").expect("over TLS");
    assert!(promised.starts_with("max-age="), "{promised}");
    let document = lab.page_json(&format!("{}/endpoint", server.log().pages_url("http")));
    assert_eq!(document["exports"][0]["path"], "/data", "{document}");
    assert!(
        document["checks"]
            .as_array()
            .is_some_and(|checks| checks.iter().all(|one| one["ok"] == true))
    );
    assert!(!document.to_string().contains(secret.trim()));
    let asked = |query: &str| {
        let place = format!("{}/endpoint?{query}", server.log().pages_url("http"));
        lab.page_json(&place)["explain"].clone()
    };
    assert_eq!(asked("path=/data/f&op=write")[1]["allowed"], true);
    let elsewhere = asked("path=/elsewhere/f&op=read&subject=/CN=Jane");
    assert_eq!(elsewhere[0]["allowed"], false, "{elsewhere}");
    let hostile = format!(
        "{}/endpoint?path=/data/%3Cscript%3E%E2%80%AE&vo=%3Cb%3E",
        server.log().pages_url("http")
    );
    let hostile = lab.curl(&[&hostile]).expect(200).text();
    assert!(
        hostile.contains("allowed") && !hostile.contains("<script>") && !hostile.contains('\u{202e}'),
        "{hostile}"
    );
    let foreign = [
        "-H",
        "Host: evil.example",
        &format!("{}/endpoint", server.log().pages_url("http")),
    ];
    lab.curl(&foreign).expect(421);
}

#[test]
fn viewers_are_named_by_their_certificates() {
    let name = "viewers_are_named_by_their_certificates";
    let Some(lab) = available(name, Lab::new("pages-viewers")) else {
        return;
    };
    let trust = lab.authority().trust_directory();
    let more = format!("viewers = [\"dn:{JANE}\"]\n[x509]\ntrust_directory = {trust:?}\n");
    let Some(server) = available(name, server(&lab, &more)) else {
        return;
    };
    let page = format!("{}/endpoint", server.log().pages_url("https"));
    let by = |name: &str| {
        let user = lab.authority().issue_user(name).expect("a certificate");
        let pair = user.write_pair(lab.scratch().path(), "user").expect("files");
        let [certificate, key] = [&pair.0, &pair.1].map(|path| path.to_str().expect("plain"));
        lab.curl(&["--cert", certificate, "--key", key, &page])
    };
    let seen = by(JANE).expect(200).text();
    assert!(seen.contains("Signed in as /"), "{seen}");
    let refused = by(JOHN).expect(403).text();
    assert!(
        refused.contains("does not name this client") && !refused.contains("macaroons"),
        "{refused}"
    );
    let anonymous = lab.curl(&[&page]).expect(401).text();
    assert!(!anonymous.contains("macaroons"), "{anonymous}");
}

#[test]
fn pages_can_be_read_by_everyone_in_a_browser() {
    let name = "pages_can_be_read_by_everyone_in_a_browser";
    let Some(lab) = available(name, Lab::new("pages-browser")) else {
        return;
    };
    let Some(server) = available(name, server(&lab, "")) else {
        return;
    };
    let url = server.log().pages_url("http");
    let paths = ["/endpoint", "/endpoint?path=/data/f&op=read", "/none"];
    let Some(seen) = available(name, look_at(&lab, &Look::new(&url, &paths))) else {
        return;
    };
    assert_pages_are_good(&seen, &paths);
    let plain = look_at(&lab, &Look::new(&url, &["/endpoint"]).without_scripts()).expect("Chromium");
    assert!(plain.iter().all(|page| page["status"] == 200), "{plain:?}");
}

/// A history with one run of a mesh, in which names are markup.
fn history(lab: &Lab) -> std::path::PathBuf {
    let mut mesh = serde_json::to_value(testkit::mesh_run(5)).expect("JSON");
    // In the past on any machine.
    mesh["started_ms"] = 1_730_419_200_000_u64.into();
    mesh["ended_ms"] = 1_730_419_260_000_u64.into();
    let text = mesh.to_string().replace("SE-02.example.org", "<b>two</b>\u{202e}");
    let (run_file, file) = (lab.file(text.as_bytes()), lab.fresh("history"));
    let [run_file, shown] = [&run_file, &file].map(|path| path.to_str().expect("plain"));
    let import = lab.client(["history", "import", "--history", shown, run_file]);
    run(&import.expect("the client is built")).succeeded();
    file
}

#[test]
fn kept_runs_are_shown_and_lead_to_their_pages() {
    let name = "kept_runs_are_shown_and_lead_to_their_pages";
    let Some(lab) = available(name, Lab::new("pages-mesh")) else {
        return;
    };
    let file = history(&lab);
    let Some(server) = available(name, server(&lab, &format!("history = {file:?}\n"))) else {
        return;
    };
    let url = server.log().pages_url("http");
    let json = |path: &str| lab.page_json(&format!("{url}{path}"));
    let overview = json("/mesh");
    assert_eq!(overview["runs"].as_array().map(Vec::len), Some(1), "{overview}");
    assert_eq!(overview["run"]["id"], 1, "{overview}");
    assert!(
        !overview["run"]["faults"].as_array().expect("faults").is_empty(),
        "{overview}"
    );
    assert_eq!(json("/mesh/runs/1")["instrument"], "mesh");
    let page = lab.curl(&[&format!("{url}/mesh")]).expect(200).text();
    assert!(page.contains("href=\"/mesh/runs/1#c"), "{page}");
    assert!(!page.contains("<b>two") && page.contains("two&"), "{page}");
    lab.curl(&[&format!("{url}/mesh/runs/9")]).expect(404);
    let paths = ["/mesh", "/mesh/runs/1"];
    if let Some(seen) = available(name, look_at(&lab, &Look::new(&url, &paths))) {
        assert_pages_are_good(&seen, &paths);
        let plain = look_at(&lab, &Look::new(&url, &["/mesh"]).without_scripts()).expect("Chromium");
        assert!(plain.iter().all(|page| page["status"] == 200), "{plain:?}");
    }
    // A file that is no history is said, and the page stays.
    std::fs::write(&file, "no database at all, and of no use to anyone who looks at it").expect("written");
    until("the page says so", LIMIT, || {
        json("/mesh")["fault"]
            .as_str()
            .is_some_and(|fault| fault.contains("cannot be read"))
    });
}

/// A source that sends a part of a file, and the rest when the test lets it. Of `/patient` it sends
/// nothing, then the head, then everything, each when the test lets it.
pub(crate) struct SlowSource {
    pub(crate) port: u16,
    go_on: Sender<()>,
}

impl SlowSource {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (go_on, wait) = channel();
        let wait = Arc::new(Mutex::new(wait));
        // It ends with the test program.
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let wait = wait.clone();
                thread::spawn(move || drop(Self::answer(socket, &wait)));
            }
        });
        Self { port, go_on }
    }

    fn answer(mut socket: TcpStream, wait: &Mutex<Receiver<()>>) -> std::io::Result<()> {
        let mut reader = BufReader::new(socket.try_clone()?);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head)? == 0 {
                    return Ok(());
                }
            }
            let next = || {
                let _ = wait.lock().expect("whole").recv();
            };
            let is_patient = head.starts_with("GET /patient");
            if is_patient {
                next();
            }
            write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 2 * PART_BYTES)?;
            if is_patient {
                next();
            }
            if head.starts_with("GET") {
                socket.write_all(&[b'x'; PART_BYTES])?;
                next();
                socket.write_all(&[b'y'; PART_BYTES])?;
            }
        }
    }
}

#[test]
fn a_copy_does_not_move_before_its_first_byte() {
    let name = "a_copy_does_not_move_before_its_first_byte";
    let Some(lab) = available(name, Lab::new("pages-stages")) else {
        return;
    };
    let Some(server) = available(name, server(&lab, "")) else {
        return;
    };
    let source = SlowSource::start();
    let url = server.log().pages_url("http");
    let stage = || lab.page_json(&format!("{url}/now"))["copies"][0]["stage"].clone();
    let from = format!("Source: http://127.0.0.1:{}/patient", source.port);
    let arguments = [
        "-X",
        "COPY",
        "-H",
        "X-Number-Of-Streams: 1",
        "-H",
        &from,
        &server.url("/data/x"),
    ];
    let mut command = lab.curl_command(&arguments).expect("curl");
    let mut copy = background(&mut command, lab.scratch()).expect("curl");
    for expected in ["requested", "first_byte", "moving"] {
        until(expected, LIMIT, || stage() == expected);
        if expected == "first_byte" {
            let page = lab.curl(&[&format!("{url}/now")]).expect(200).text();
            assert!(page.contains("○ waiting for the first byte"), "{page}");
        }
        source.go_on.send(()).expect("it waits");
    }
    until("ended", LIMIT, || !copy.is_running());
    assert!(copy.stdout().contains("success"), "{}", copy.stdout());
}

#[test]
fn a_running_copy_is_shown_until_it_ends() {
    let name = "a_running_copy_is_shown_until_it_ends";
    let Some(lab) = available(name, Lab::new("pages-now")) else {
        return;
    };
    let Some(server) = available(name, server(&lab, "")) else {
        return;
    };
    let source = SlowSource::start();
    let url = server.log().pages_url("http");
    let running = || lab.page_json(&format!("{url}/now"));
    assert_eq!(running()["totals"]["running"], 0);
    let from = format!("Source: http://127.0.0.1:{}/f", source.port);
    let to = server.url("/data/%3Cb%3Ebold%E2%80%AEx");
    let arguments = ["-X", "COPY", "--max-time", "600", "-H", &from, &to];
    let mut command = lab.curl_command(&arguments).expect("curl");
    let mut copy = background(&mut command, lab.scratch()).expect("curl");
    until("moving", LIMIT, || running()["copies"][0]["bytes"] == PART_BYTES);
    let copies = running();
    assert_eq!(copies["copies"][0]["to"], "/data/<b>bold\u{202e}x", "{copies}");
    assert_eq!(copies["copies"][0]["total_bytes"], 2 * PART_BYTES, "{copies}");
    let page = lab.curl(&[&format!("{url}/now")]).expect(200).text();
    assert!(
        page.contains("&#60;b&#62;bold\\u{202e}x") && !page.contains("<b>bold"),
        "{page}"
    );
    let once = lab.run_client("top", &[&url, "--once"]).succeeded().text();
    assert!(once.contains("1 running, 0 stalled"), "{once}");
    let row = once.lines().last().unwrap_or_default();
    assert!(
        row.starts_with("moving") && row.ends_with("/data/<b>bold\\u{202e}x"),
        "{once}"
    );
    let top = lab.run_client("top", &[&url, "--json"]).succeeded();
    assert_eq!(last_json(&top)["copies"]["totals"]["running"], 1);
    if let Some(python) = available("the schema of top", require_queue_python("python3")) {
        let mut printed = JsonLines::default();
        printed.add("top", &json_lines(&top));
        printed.check(&python).succeeded();
    }
    let look = Look::new(&url, &["/now"]).wait_for("document.getElementById('live').textContent === 'Live'");
    if let Some(seen) = available(name, look_at(&lab, &look)) {
        assert_pages_are_good(&seen, &["/now"]);
    }
    source.go_on.send(()).expect("it waits");
    until("ended", LIMIT, || !copy.is_running());
    assert!(copy.stdout().contains("success"), "{}", copy.stdout());
    until("gone", LIMIT, || running()["totals"]["running"] == 0);
}
