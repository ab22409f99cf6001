//! `crossload smoke`: the grid's smoke test as our own, against ourselves and against Debian's
//! XRootD.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use conformance::{
    COPY_PROBES, Endpoint, HTTP_PROBES, Lab, ROOT_PROBES, Run, background, bytes, is_whole, json_lines, run,
    run_with_input, until, visible,
};
use serde_json::Value;
use testkit::{Access, Direction, Fault, Relay, Result, Xrootd, XrootdAccess, available};

/// Probes, with the files in `arguments`; what the test says of each probe, and the sum at the end.
fn smoke(lab: &Lab, arguments: &[&str]) -> (Run, Vec<Value>, Value) {
    let mut all = vec!["--json", "--size", "300KiB"];
    all.extend(arguments);
    let run = lab.run_client("smoke", &all);
    let mut lines = json_lines(&run);
    let sum = lines.pop().unwrap_or_else(|| panic!("{}", run.said()));
    (run, lines, sum)
}

fn outcomes<'a>(probes: &'a [Value], outcome: &str) -> Vec<&'a Value> {
    probes.iter().filter(|probe| probe["outcome"] == outcome).collect()
}

/// The names of the probes of one protocol and credential that passed.
fn passed(probes: &[Value], protocol: &str, credential: &str) -> Vec<String> {
    let fits = |probe: &&Value| {
        probe["protocol"] == protocol && probe["credential"] == credential && probe["outcome"] == "passed"
    };
    let names = probes.iter().filter(fits);
    names
        .map(|probe| probe["probe"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Two endpoints of the given kinds, open to all, with a file to be pulled at the second.
struct Pair {
    lab: Lab,
    first: Endpoint,
    second: Endpoint,
}

impl Pair {
    fn start(name: &str, of_ours: [bool; 2]) -> Result<Self> {
        let lab = Lab::new(name)?;
        let start = |name: &str, ours: bool| -> Result<Endpoint> {
            Ok(match ours {
                true => Endpoint::Crossload(Box::new(lab.crossload(lab.options(name))?)),
                false => Endpoint::Xrootd(Box::new(lab.xrootd(name, XrootdAccess::OpenWithMacaroons)?)),
            })
        };
        let (first, second) = (start("first", of_ours[0])?, start("second", of_ours[1])?);
        for server in [&first, &second] {
            server.make_directory("probes");
            server.put("public", &bytes(200_000, 5));
        }
        Ok(Self { lab, first, second })
    }

    /// Everything in both protocols.
    fn probe(&self) -> (Run, Vec<Value>, Value) {
        // The name may also have an IPv6 address, where no server answers.
        let here = |url: String| url.replace("localhost", "127.0.0.1");
        smoke(
            &self.lab,
            &[
                &here(self.first.url("probes")),
                &here(self.first.root("probes")),
                "--pull",
                &self.second.url("public"),
                "--pull",
                &self.second.root("public"),
                "--push",
                &self.second.url("probes"),
                "--push",
                &self.second.root("probes"),
            ],
        )
    }

    /// Nothing may be left of a test.
    #[track_caller]
    fn is_clean(&self) {
        for server in [&self.first, &self.second] {
            let left = visible(&server.data().join("probes"));
            assert!(left.is_empty(), "{left:?} is left");
        }
    }
}

#[track_caller]
fn has_all(probes: &[Value], protocol: &str, credential: &str, names: &[&str]) {
    let have = passed(probes, protocol, credential);
    for name in names {
        assert!(
            have.iter().any(|have| have == name),
            "{protocol} {credential} \"{name}\" did not pass\n{probes:#?}"
        );
    }
}

fn all_is_well(name: &str, of_ours: [bool; 2]) {
    let Some(pair) = available(name, Pair::start(name, of_ours)) else {
        return;
    };
    let (run, probes, sum) = pair.probe();
    let failed = outcomes(&probes, "failed");
    assert!(failed.is_empty(), "{failed:#?}\n{}", run.stderr);
    has_all(&probes, "https", "anonymous", &HTTP_PROBES);
    has_all(&probes, "https", "macaroon", &HTTP_PROBES);
    has_all(&probes, "https", "anonymous", &COPY_PROBES);
    has_all(&probes, "https", "macaroon", &COPY_PROBES);
    has_all(&probes, "root", "anonymous", &ROOT_PROBES);
    has_all(&probes, "root", "anonymous", &COPY_PROBES);
    // There is neither a token nor a proxy, and the report says so.
    let skipped = outcomes(&probes, "skipped");
    for kind in ["token", "x509"] {
        assert!(skipped.iter().any(|probe| probe["credential"] == kind), "{skipped:#?}");
    }
    assert_eq!(run.code, Some(2), "{sum}");
    assert_eq!(sum["passed"].as_u64(), Some(outcomes(&probes, "passed").len() as u64));
    pair.is_clean();
}

#[test]
fn ours_passes_with_ours_as_the_third_party() {
    all_is_well("smoke-ours-ours", [true, true]);
}

#[test]
fn ours_passes_with_xrootd_as_the_third_party() {
    all_is_well("smoke-ours-xrootd", [true, false]);
}

#[test]
fn xrootd_passes_with_ours_as_the_third_party() {
    all_is_well("smoke-xrootd-ours", [false, true]);
}

/// Makes a macaroon in the form of XRootD, with the secret of the launcher's XRootD.
const MINT: &str = r#"
import base64, hashlib, hmac, sys, time
secret = base64.b64decode(sys.argv[1])
sign = lambda key, text: hmac.new(key, text, hashlib.sha256).digest()
before = time.strftime("before:%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1800))
caveats = ["name:probe", "activity:READ_METADATA,DOWNLOAD,UPLOAD,DELETE,LIST,MANAGE", "path:/data", before]
packet = lambda key, value: b"%04x%s %s\n" % (len(key) + len(value) + 6, key, value)
signature = sign(sign(b"macaroons-key-generator".ljust(32, b"\0"), secret), b"probe")
text = packet(b"location", sys.argv[2].encode()) + packet(b"identifier", b"probe")
for caveat in caveats:
    text += packet(b"cid", caveat.encode())
    signature = sign(signature, caveat.encode())
print(base64.urlsafe_b64encode(text + packet(b"signature", signature)).decode().rstrip("="))
"#;

/// An XRootD that demands a macaroon, and a macaroon for it in a file.
struct Guarded {
    server: Xrootd,
    secret: String,
    token: PathBuf,
}

impl Guarded {
    fn start(lab: &Lab) -> Result<Self> {
        let rules = lab.file(b"u nobody-at-all /data a\n");
        let more = format!("acc.authdb {}\n", rules.display());
        let server = lab.xrootd_with("guarded", XrootdAccess::ReadOnlyWithMacaroons, &more)?;
        let beside = server
            .data()
            .parent()
            .and_then(|files| files.parent())
            .expect("its directory");
        let secret = fs::read_to_string(beside.join("macaroon-secret"))?;
        let mut python = Command::new("python3");
        python.args(["-c", MINT, secret.trim(), "guarded"]);
        let token = lab.file(run(&python).succeeded().text().trim().as_bytes());
        Ok(Self { server, secret, token })
    }
}

/// Runs the lines that reproduce a failure, as a person would.
fn reproduce(lab: &Lab, failure: &Value, token: &str) -> Run {
    let lines = &failure["reproduce"];
    assert!(!lines.to_string().contains(token), "{lines:#}");
    run(&lab.pasted("-c", lines))
}

#[test]
fn a_server_that_minds_the_case_of_bearer_is_named_as_the_one_at_fault() {
    let test = "a_server_that_minds_the_case_of_bearer_is_named_as_the_one_at_fault";
    let Some(lab) = available(test, Lab::new("smoke-case")) else {
        return;
    };
    let Some(guarded) = available(test, Guarded::start(&lab)) else {
        return;
    };
    let theirs = Endpoint::Xrootd(Box::new(guarded.server));
    theirs.make_directory("probes");
    let token_file = guarded.token.to_str().expect("plain").to_owned();
    let token = fs::read_to_string(&guarded.token).expect("the macaroon");
    let here = theirs.url("probes").replace("localhost", "127.0.0.1");
    let (_, probes, sum) = smoke(
        &lab,
        &[&here, "--token-file", &token_file, "--credential-kinds", "token"],
    );
    let failed = outcomes(&probes, "failed");
    assert_eq!(failed.len(), 1, "{failed:#?}\n{sum}");
    assert_eq!(failed[0]["probe"], "\"bearer\" in lower case");
    let failure = &failed[0]["failure"];
    assert_eq!(
        (&failure["at"], &failure["server_status"]),
        (&"endpoint".into(), &403.into())
    );
    has_all(&probes, "https", "token", &HTTP_PROBES);
    // curl says 22 of a refusal, whatever its status.
    reproduce(&lab, failure, &token).failed_with(22);
    let corrected = failure["reproduce"].to_string().replace("bearer $", "Bearer $");
    assert_ne!(corrected, failure["reproduce"].to_string());

    // The same server as the third party of ours, which shares its secret: ours is not to blame.
    let mut options = lab.options("ours");
    fs::create_dir_all(&options.directory).expect("directory");
    let secret = options.directory.join("macaroon.secret");
    fs::write(&secret, &guarded.secret).expect("the secret");
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its owner's");
    options.exports[0].anonymous = Access::None;
    let Some(ours) = available(test, lab.crossload(options)) else {
        return;
    };
    let ours = Endpoint::Crossload(Box::new(ours));
    ours.make_directory("probes");
    let here = ours.url("probes").replace("localhost", "127.0.0.1");
    let push = theirs.url("probes");
    let (_, probes, sum) = smoke(
        &lab,
        &[
            &here,
            "--token-file",
            &token_file,
            "--credential-kinds",
            "token",
            "--push",
            &push,
        ],
    );
    let failed = outcomes(&probes, "failed");
    let names: Vec<_> = failed
        .iter()
        .map(|probe| probe["probe"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(
        names,
        [
            "pull with \"bearer\" in lower case",
            "push with \"bearer\" in lower case"
        ],
        "{failed:#?}"
    );
    for probe in &failed {
        assert_eq!(probe["failure"]["at"], "third party", "{probe:#?}");
        assert!(
            probe["failure"]["says"]
                .as_str()
                .is_some_and(|says| says.contains("RFC 9110")),
            "{probe:#?}"
        );
    }
    assert_eq!(sum["failed_at_third_party"], 2);
    has_all(&probes, "https", "token", &COPY_PROBES[1..]);
    for server in [&ours, &theirs] {
        assert_eq!(visible(&server.data().join("probes")), Vec::<String>::new());
    }
}

#[test]
fn a_refusal_is_told_with_the_servers_words_and_the_command_that_shows_it_again() {
    let test = "a_refusal_is_told_with_the_servers_words_and_the_command_that_shows_it_again";
    let started = Lab::new("smoke-refused").and_then(|lab| {
        let mut options = lab.options("server");
        options.exports[0].anonymous = Access::Read;
        let server = lab.crossload(options)?;
        Ok((lab, Endpoint::Crossload(Box::new(server))))
    });
    let Some((lab, server)) = available(test, started) else {
        return;
    };
    let here = server.url("").replace("localhost", "127.0.0.1");
    // Anonymous writing was not requested, so its refusal is no fault.
    let (run, probes, _) = smoke(&lab, &[&here]);
    assert_eq!(run.code, Some(2), "{probes:#?}");
    assert_eq!(outcomes(&probes, "failed"), Vec::<&Value>::new());
    // If it is requested, a refusal is a fault.
    let (run, probes, _) = smoke(&lab, &[&here, "--credential-kinds", "anonymous"]);
    assert_eq!(run.code, Some(1), "{probes:#?}");
    let failed = outcomes(&probes, "failed");
    assert_eq!(
        (failed.len(), &failed[0]["probe"]),
        (1, &"upload".into()),
        "{failed:#?}"
    );
    let failure = &failed[0]["failure"];
    assert_eq!(failure["code"], "peer_denied");
    assert!(
        failure["server_words"]
            .as_str()
            .is_some_and(|words| words.contains("Permission denied"))
    );
    reproduce(&lab, failure, "no-token-is-needed").failed_with(22);
    // A person is shown the same.
    let told = lab
        .run_client("smoke", &[&here, "--credential-kinds", "anonymous"])
        .failed_with(1);
    for words in ["FAILED", "the server said 401", "$ curl --fail-with-body"] {
        assert!(told.text().contains(words), "{words} is not in\n{}", told.text());
    }
}

#[test]
fn a_proxy_is_a_credential_of_its_own_and_macaroons_are_asked_for_with_it() {
    let test = "a_proxy_is_a_credential_of_its_own_and_macaroons_are_asked_for_with_it";
    let started = Lab::new("smoke-proxy").and_then(|lab| {
        let jane = lab.authority().issue_user("/O=Crossload test/CN=Jane Doe")?;
        let proxy = jane.proxy()?.write_proxy(&lab.fresh("proxy"))?;
        let start = |name: &str| {
            let mut options = lab.options(name);
            options.exports[0].anonymous = Access::None;
            options.more = format!(
                "[x509]\ntrust_directory = {:?}\n\
                 [[rule]]\nwho = \"dn:/O=Crossload test/CN=Jane Doe\"\nmay = \"all\"\n",
                lab.authority().trust_directory()
            );
            lab.crossload(options)
                .map(|server| Endpoint::Crossload(Box::new(server)))
        };
        let (first, second) = (start("first")?, start("second")?);
        Ok((Pair { lab, first, second }, proxy))
    });
    let Some((pair, proxy)) = available(test, started) else {
        return;
    };
    for server in [&pair.first, &pair.second] {
        server.make_directory("probes");
    }
    let here = pair.first.url("probes").replace("localhost", "127.0.0.1");
    let proxy = proxy.to_str().expect("plain");
    let push = pair.second.url("probes");
    let kinds = ["--proxy", proxy, "--credential-kinds", "x509,macaroon"];
    let (run, probes, sum) = smoke(&pair.lab, &[&[here.as_str()][..], &kinds, &["--push", &push]].concat());
    let failed = outcomes(&probes, "failed");
    assert!(failed.is_empty(), "{failed:#?}\n{}", run.stderr);
    has_all(&probes, "https", "x509", &HTTP_PROBES);
    has_all(&probes, "https", "macaroon", &HTTP_PROBES);
    has_all(&probes, "https", "x509", &COPY_PROBES[1..]);
    has_all(&probes, "https", "macaroon", &COPY_PROBES[1..]);
    // Only the pull from a public source was left out: none was named.
    assert_eq!((run.code, &sum["skipped"]), (Some(2), &1.into()), "{probes:#?}");
    let allowed = [&[here.as_str(), "--push", &push, "--allow-skipped"][..], &kinds].concat();
    assert_eq!(smoke(&pair.lab, &allowed).0.code, Some(0));
    pair.is_clean();
}

/// Curl is given the key in its other file, and our client stands in for XRootD's programs, which
/// have no option for it.
#[test]
fn lines_for_a_key_in_another_file_and_authorities_from_a_file_run_as_printed() {
    let test = "lines_for_a_key_in_another_file_and_authorities_from_a_file_run_as_printed";
    let started = Lab::new("smoke-pasted").and_then(|lab| {
        let jane = lab.authority().issue_user("/O=Crossload test/CN=Jane Doe")?;
        let pair = jane.write_pair(lab.scratch().path(), "jane")?;
        let server = lab.crossload_for("server", "/O=Crossload test/CN=Jane Doe")?;
        Ok((lab, server, pair))
    });
    let Some((lab, server, (certificate, key))) = available(test, started) else {
        return;
    };
    let relay = Relay::start(std::net::SocketAddr::from(([127, 0, 0, 1], server.port()))).expect("a relay");
    relay.set_fault(Fault::CutAfter(Direction::ToTarget, 100_000), usize::MAX);
    let urls = [
        format!("https://127.0.0.1:{}/data", relay.port()),
        format!("roots://127.0.0.1:{}//data", relay.port()),
    ];
    let pair = [&certificate, &key].map(|file| file.to_str().expect("plain"));
    let options = ["--json", "--size", "300KiB", "--credential-kinds", "x509"];
    let mine = ["--cert", pair[0], "--key", pair[1], &urls[0], &urls[1]];
    let arguments = lab.client_arguments("smoke", &[&options[..], &mine].concat());
    let mut client = lab.client(arguments).expect("the client is built");
    let mut lines = json_lines(&run(client.env_remove("X509_CERT_DIR")));
    lines.pop();
    let failed = outcomes(&lines, "failed");
    relay.heal();
    for protocol in ["https", "roots"] {
        let upload = |probe: &&&Value| probe["protocol"] == protocol && probe["probe"] == "upload";
        let upload = failed.iter().find(upload).unwrap_or_else(|| panic!("{lines:#?}"));
        let printed = upload["failure"]["reproduce"].to_string();
        assert!(printed.contains("--cacert ") && printed.contains("--key "), "{printed}");
        assert_eq!(visible(server.data()), Vec::<String>::new());
        let mut shell = lab.pasted("-ec", &upload["failure"]["reproduce"]);
        run(shell.env_remove("X509_CERT_DIR")).succeeded();
        let stored = visible(server.data());
        assert_eq!(stored.len(), 1, "{stored:?}");
        let stored = server.data().join(&stored[0]);
        let sent = fs::read("/bin/bash").expect("the file");
        assert!(is_whole(&stored, &sent), "{printed}");
        fs::remove_file(stored).expect("it goes");
    }
}

#[test]
fn an_interrupted_test_leaves_nothing_behind() {
    let test = "an_interrupted_test_leaves_nothing_behind";
    let Some(pair) = available(test, Pair::start("smoke-interrupted", [true, true])) else {
        return;
    };
    let relay = Relay::start(std::net::SocketAddr::from(([127, 0, 0, 1], pair.first.port()))).expect("a relay");
    relay.set_fault(Fault::Delay(Direction::ToClient, Duration::from_millis(50)), usize::MAX);
    let url = format!("http://127.0.0.1:{}/data/probes", relay.port());
    let files = pair.first.data().join("probes");
    // Where the tests run under nohup, so does the client, which goes on then.
    let status = fs::read_to_string("/proc/self/status").expect("the status");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.expect("a mask").trim(), 16).expect("a mask");
    let signals = match ignored & 1 {
        0 => &["INT", "TERM", "HUP"][..],
        _ => &["INT", "TERM"],
    };
    for signal in signals {
        let mut client = lab_client(&pair.lab, &["--size", "24MB", &url]);
        until("a file is made", Duration::from_secs(60), || {
            !visible(&files).is_empty()
        });
        let interrupt = format!("kill -{signal} {}", client.id());
        assert_eq!(
            run_with_input(Command::new("sh").args(["-c", &interrupt]), &[]).code,
            Some(0)
        );
        client
            .wait_for("over", Duration::from_secs(60), |_| None::<()>)
            .expect_err("it ends");
        let (said, stopped) = (client.stdout(), client.stderr());
        assert!(
            stopped.contains("interrupted; the test files were removed"),
            "{signal}: {said}\n{stopped}"
        );
        assert_eq!(visible(&files), Vec::<String>::new(), "{signal}");
    }
}

fn lab_client(lab: &Lab, arguments: &[&str]) -> testkit::Process {
    let mut command = lab
        .client(lab.client_arguments("smoke", arguments))
        .expect("the client");
    background(&mut command, lab.scratch()).expect("it starts")
}
