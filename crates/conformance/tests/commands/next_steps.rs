//! What our client says to type next: files of this machine that are at fault, statuses of servers,
//! servers of another protocol, names below files.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use conformance::{Lab, Reply, Scripted, run};
use testkit::{KeyKind, available};

use crate::client::{assert_says, site};

/// Nothing listens there. A command that finds this out had a usable credential.
const NOWHERE: &str = "https://localhost:1/data";

#[test]
fn an_unusable_credential_names_its_file_and_its_option() {
    let test = "an_unusable_credential_names_its_file_and_its_option";
    let Some(lab) = available(test, Lab::new(test)) else {
        return;
    };
    let file = |content: &[u8]| {
        let file = lab.file(content);
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&file, owner_only).expect("permissions");
        file.to_str().expect("plain").to_owned()
    };
    let text = file(b"no certificate\n");
    let (certificate, key) = (&lab.host().certificate, &lab.host().key);
    let [certificate, key] = [certificate, key].map(|path| path.to_str().expect("plain"));
    let other = lab.authority().issue_host("other", &["localhost"], KeyKind::EcdsaP256);
    let other = other.expect("another one");
    let other = other.key.to_str().expect("plain");
    let missing = "/nonexistent/file";
    for (code, options, words) in [
        (
            13,
            &["--proxy", &text][..],
            format!("--proxy names {text}: there is no certificate"),
        ),
        (
            13,
            &["--proxy", missing],
            format!("--proxy names {missing}: No such file"),
        ),
        (
            13,
            &["--cert", certificate, "--key", &text],
            format!("--key names {text}: there is no private key"),
        ),
        (
            13,
            &["--cert", &text, "--key", key],
            format!("--cert names {text}: there is no certificate"),
        ),
        (
            13,
            &["--cert", certificate, "--key", other],
            format!("--cert names {certificate}: the private key is not that"),
        ),
        (
            22,
            &["--cacert", &text],
            format!("--cacert names {text}: there is no certificate in it"),
        ),
        (
            2,
            &["--cacert", missing],
            format!("--cacert names {missing}: there is no such file"),
        ),
        (
            22,
            &["--capath", &text],
            format!("--capath names {text}: it is no directory"),
        ),
        (
            111,
            &["--cert", certificate, "--key", key],
            "Connection refused".to_owned(),
        ),
    ] {
        let failed = run(&lab
            .client([&["ls"], options, &[NOWHERE]].concat())
            .expect("the client is built"));
        assert_says(&failed, code, &words, &["server tls"]);
        assert!(failed.stderr.contains("; next: "), "{}", failed.said());
    }
}

#[test]
fn a_status_of_a_server_has_a_code_and_advice_of_its_own() {
    let test = "a_status_of_a_server_has_a_code_and_advice_of_its_own";
    let Some(lab) = available(test, Lab::new(test)) else {
        return;
    };
    let server = Scripted::start(|seen| {
        let (status, headers): (_, &[&str]) = match seen.path.as_str() {
            "/large" => ("413 Content Too Large", &[]),
            "/locked" => ("423 Locked", &[]),
            "/many" => ("429 Too Many Requests", &["Retry-After: 3600"]),
            "/away" => ("503 Service Unavailable", &["Retry-After: 1800"]),
            "/slow" => ("504 Gateway Timeout", &[]),
            "/below" => ("409 Conflict", &[]),
            _ => ("500 Internal Server Error", &[]),
        };
        let words: &[u8] = match seen.path.as_str() {
            "/below" => b"/f is not a directory",
            _ => b"no",
        };
        Reply::whole(seen, status, headers, words)
    });
    for (path, code, advice) in [
        ("/large", 27, "takes no file of this size"),
        ("/locked", 16, "ask its holder to unlock"),
        ("/many", 11, "in 3600 s, as the server asks, with fewer requests"),
        ("/away", 11, "in 1800 s, as the server asks;"),
        ("/slow", 110, ""),
        ("/below", 20, "part of this path is a file"),
        ("/fault", 5, ""),
    ] {
        let failed = lab.run_client("ls", &[&server.url(path)]);
        assert_says(&failed, code, &format!("error: {code} ("), &[]);
        assert!(failed.stderr.contains(advice), "{path}: {}", failed.said());
    }
}

#[test]
fn what_s3_does_not_have_is_refused_for_the_file_that_was_named() {
    let test = "what_s3_does_not_have_is_refused_for_the_file_that_was_named";
    let Some(lab) = available(test, Lab::new(test)) else {
        return;
    };
    let file = "s3://localhost:1/bucket/key";
    for command in [&["stage"][..], &["evict"], &["archived"], &["chmod", "644"]] {
        let failed = run(&lab.client([command, &[file]].concat()).expect("the client is built"));
        assert_says(&failed, 38, file, &[]);
        let advice = "next: Use the storage's own tool: S3 has no such operation.";
        assert!(failed.stderr.contains(advice), "{}", failed.said());
    }
}

#[test]
fn a_name_below_a_file_is_no_fault_of_the_server() {
    let test = "a_name_below_a_file_is_no_fault_of_the_server";
    let Some(site) = available(test, site()) else { return };
    let lab = &site.lab;
    site.first.put("below/f", b"x");
    site.first.put("below/d/g", b"x");
    let local = lab.file(b"x");
    let local = local.to_str().expect("plain");
    for url in [site.first.davs("below"), site.first.root("below")] {
        let (file, under, deep) = (format!("{url}/f"), format!("{url}/f/x"), format!("{url}/f/x/y"));
        for (command, arguments) in [
            ("mkdir", &[under.as_str()][..]),
            ("mkdir", &["-p", &deep]),
            ("ls", &[&under]),
            ("copy", &[local, &under]),
        ] {
            let failed = lab.run_client(command, arguments);
            assert_says(&failed, 20, "part of this path is a file", &["administrator", "Use -f"]);
        }
        lab.run_client("mkdir", &["-p", &file]).failed_with(17);
        for command in ["cat", "head", "tail"] {
            let failed = lab.run_client(command, &[&format!("{url}/d")]);
            assert_says(&failed, 21, "crossload copy -r copies it", &["Use -r"]);
        }
    }
    let directory = site.first.davs("below/d");
    let failed = lab.run_client("sum", &[&directory]);
    assert_says(&failed, 21, "crossload find --type file", &["Use -r"]);
}

/// Answers the first bytes of each connection, and closes it.
fn answering(words: &'static [u8]) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let answer = move |mut stream: TcpStream| {
        let mut first = [0; 20];
        if stream.read_exact(&mut first).is_ok() {
            let _ = stream.write_all(words);
        }
    };
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
    port
}

#[test]
fn another_protocol_at_a_port_is_named() {
    let test = "another_protocol_at_a_port_is_named";
    let Some(site) = available(test, site()) else { return };
    let lab = &site.lab;
    let port = answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let failed = lab.run_client("ls", &[&format!("root://localhost:{port}//d")]);
    assert_says(&failed, 71, "it answers in HTTP", &["Try again"]);
    assert!(
        failed.stderr.contains(&format!("Write http://localhost:{port}/d")),
        "{}",
        failed.said()
    );
    // A server that waits for a line of a request never answers.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let failed = lab.run_client("ls", &[&format!("root://localhost:{port}//d")]);
    assert_says(&failed, 110, "may speak another protocol, such as HTTP", &[]);
    // S3 over TLS at a port in clear text.
    let clear = Scripted::start(|seen| Reply::whole(seen, "200 OK", &[], b""));
    let url = clear.url("/bucket/f").replace("http://", "s3s://");
    let failed = lab.run_client("ls", &[&url]);
    assert!(failed.stderr.contains("write s3://"), "{}", failed.said());
    // An issuer whose authority is not trusted.
    let issuer = format!("https://localhost:{}", site.first.port());
    let mut login = lab
        .client(["login", "--client-id", "c", &issuer])
        .expect("the client is built");
    let failed = run(login.env("X509_CERT_DIR", "/nonexistent"));
    assert!(failed.stderr.contains("with --cacert"), "{}", failed.said());
}
