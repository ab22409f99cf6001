//! Captured sessions of the cluster protocol, and what a manager may send.
//!
//! `cms_vectors/server_join.hex` is a data server's `cmsd` with its manager (XRootD 5.5.3),
//! `director.hex` a manager's `xrootd` with its own `cmsd`. The format is that of `tests/vectors`.

use xroot_wire::cms::{
    Code, Decoded, Duty, ExportedPath, Frame, Header, Load, Login, LoginFault, LoginMode, Message, Presence, Reply,
    Session, Space, StatusFlags, decode, path_lines,
};
use xroot_wire::limits::{CMS_ALTERNATES_MAX, CMS_LOGIN_BYTES_MAX, CMS_PATH_BYTES_MAX};

/// The frames of a capture, each with whether the client of the connection sent it.
fn frames(text: &str) -> Vec<(bool, Vec<u8>)> {
    let mut frames: Vec<(bool, Vec<u8>)> = Vec::new();
    for line in text.lines() {
        if let Some(digits) = line.strip_prefix("  ") {
            frames.last_mut().expect("a frame begins first").1.extend(hex(digits));
        } else if let Some(side) = line.strip_prefix("1 ") {
            frames.push((side.starts_with('>'), Vec::new()));
        }
    }
    frames
}

fn hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16);
    pairs.map(|pair| byte(pair).expect("hexadecimal digits")).collect()
}

fn frame(bytes: &[u8]) -> Frame<'_> {
    match decode(bytes) {
        Decoded::Frame(frame, used) => {
            assert_eq!(used, bytes.len());
            frame
        }
        Decoded::Partial(missing) => panic!("{missing} bytes are missing"),
    }
}

fn encoded(message: Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(message.encode(&mut out), "{message:?} cannot be sent");
    out
}

fn manager_says(code: u8, modifier: u8, data: &[u8]) -> Vec<u8> {
    let header = Header {
        stream: 7,
        code,
        modifier,
        data_bytes: u16::try_from(data.len()).expect("short data"),
    };
    [&header.encode()[..], data].concat()
}

#[test]
fn a_captured_server_is_understood_and_written_again() {
    let capture = frames(include_str!("cms_vectors/server_join.hex"));
    let (is_server, login) = &capture[0];
    assert!(is_server);
    let Some(Reply::Login(login_read)) = Reply::parse(&frame(login)) else {
        panic!("the session begins with a login");
    };
    assert_eq!((login_read.version, login_read.data_port), (3, 26_094));
    let mode = LoginMode::SERVER | LoginMode::FOLLOWS_REDIRECTS | LoginMode::NO_STAGING;
    assert!(login_read.mode.contains(mode));
    assert_eq!(
        (login_read.total_mib, login_read.free_mib, login_read.used_percent),
        (258_019, 75_491, 71)
    );
    assert_eq!(login_read.system_id, b"s-s@vm 6213localhost");
    assert_eq!(
        (login_read.paths, login_read.environment),
        (&b"w /"[..], &b"myHN=vm"[..])
    );
    let mut again = Vec::new();
    login_read.encode(&mut again).expect("it fits");
    assert_eq!(again, *login);

    let mut sent = 0;
    for (_, bytes) in capture[1..].iter().filter(|(is_server, _)| *is_server) {
        let message = Message::parse(&frame(bytes)).expect("readable");
        assert_eq!(encoded(message), *bytes, "{message:?}");
        sent += 1;
    }
    assert_eq!(sent, 42);
}

/// A server with the captured one's files answers the manager byte for byte as it did. What it
/// sent unasked is passed over.
#[test]
fn a_session_answers_as_the_captured_server_did() {
    let capture = frames(include_str!("cms_vectors/server_join.hex"));
    let mut session = Session::LoggingIn;
    let mut answers = Vec::new();
    for (at, (is_server, bytes)) in capture.iter().enumerate() {
        if *is_server {
            continue;
        }
        let next = capture.get(at + 1).filter(|(is_server, _)| *is_server);
        let next = next.and_then(|(_, bytes)| Message::parse(&frame(bytes)));
        let duty = session.take(&frame(bytes)).expect("a manager may send it");
        match (duty, next) {
            (Duty::Begin(manager), _) => assert_eq!(manager.system_id, b"m-m@vm 5213localhost"),
            (Duty::Answer(message), _) => answers.push(encoded(message)),
            (Duty::ReportLoad, Some(load @ Message::Load(_))) => answers.push(encoded(load)),
            (Duty::Look { stream, path }, Some(Message::Have { stream: mark, .. })) if stream == mark => {
                let presence = Presence::Online;
                answers.push(encoded(Message::Have { stream, presence, path }));
            }
            (Duty::Look { path, .. }, _) => assert!(path.starts_with(b"/")),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(session, Session::Open);
    let solicited = |bytes: &&Vec<u8>| {
        let header = frame(bytes).header;
        header.stream != 0 && header.code == Code::Have.number()
            || [Code::Pong.number(), Code::Load.number()].contains(&header.code)
    };
    let theirs = capture
        .iter()
        .filter(|(is_server, _)| *is_server)
        .map(|(_, bytes)| bytes);
    let theirs: Vec<Vec<u8>> = theirs.filter(solicited).cloned().collect();
    assert_eq!(answers, theirs);
}

#[test]
fn a_redirector_is_framed_and_its_login_read() {
    let capture = frames(include_str!("cms_vectors/director.hex"));
    for (_, bytes) in &capture {
        let frame = frame(bytes);
        assert_eq!(&frame.header.encode()[..], &bytes[..8]);
    }
    let Some(Reply::Login(login)) = Reply::parse(&frame(&capture[0].1)) else {
        panic!("a login");
    };
    assert_eq!(login.mode, LoginMode::DIRECTOR | LoginMode::FOLLOWS_REDIRECTS);
    // Its question is no business of a data server.
    let select = Message::parse(&frame(&capture[2].1));
    assert_eq!(select, Some(Message::Other(Code::Select.number())));
}

#[test]
fn a_login_may_be_answered_with_a_refusal_or_another_manager() {
    let refused = manager_says(1, 0, b"\0\0\0\x02host is blacklisted.\0");
    let mut session = Session::LoggingIn;
    let Ok(Duty::Refused(refusal)) = session.take(&frame(&refused)) else {
        panic!("a refusal");
    };
    assert!(refusal.is_lasting);
    assert_eq!(refusal.text, b"host is blacklisted.");
    assert_eq!(session, Session::Ended);
    assert!(session.take(&frame(&refused)).is_err());

    let others = manager_says(24, 1, b"\0\x1ehost.example:1213 [::1]:7  h \0");
    let Ok(Duty::GoTo(others)) = Session::LoggingIn.take(&frame(&others)) else {
        panic!("another manager");
    };
    assert!(others.is_permanent);
    let hosts: Vec<&[u8]> = others.hosts().collect();
    assert_eq!(hosts, [&b"host.example:1213"[..], b"[::1]:7", b"h"]);

    let authenticate = manager_says(27, 0, b"&P=sss");
    let duty = Session::LoggingIn.take(&frame(&authenticate));
    assert_eq!(duty, Ok(Duty::AuthenticationRequired));
    assert!(Session::LoggingIn.take(&frame(&manager_says(17, 0, b""))).is_err());
}

#[test]
fn a_manager_names_a_bounded_number_of_others() {
    let hosts = "h:1 ".repeat(CMS_ALTERNATES_MAX + 9);
    let length = u16::try_from(hosts.len() + 1).expect("short");
    let data = [&length.to_be_bytes()[..], hosts.as_bytes(), b"\0"].concat();
    let message = manager_says(24, 0, &data);
    let Some(Message::Try(others)) = Message::parse(&frame(&message)) else {
        panic!("other managers");
    };
    assert_eq!(others.hosts().count(), CMS_ALTERNATES_MAX);
}

#[test]
fn each_message_of_a_manager_has_its_duty() {
    let says = |code, modifier, data: &[u8]| manager_says(code, modifier, data);
    let space = Message::Available(Space {
        free_mib: 5,
        used_percent: 30,
    });
    let duties: [(Vec<u8>, Result<Duty<'_>, ()>); 14] = [
        (says(17, 0, b""), Ok(Duty::Answer(Message::Pong))),
        (says(26, 0, b""), Ok(Duty::ReportLoad)),
        (says(19, 0, b""), Ok(Duty::ReportSpace)),
        (says(25, 0, b""), Ok(Duty::ReportStatus)),
        (says(11, 0, b""), Ok(Duty::Answer(Message::Statistics { stream: 7 }))),
        (says(20, 0x20, b"/a\0"), Ok(Duty::Look { stream: 7, path: b"/a" })),
        (says(20, 0x01, b"\0\x03/a\0"), Ok(Duty::Look { stream: 7, path: b"/a" })),
        (says(20, 0x22, b"/a\0"), Ok(Duty::Ignore)),
        (says(20, 0x20, b"\0"), Err(())),
        (says(20, 0, b"\0\x09/a\0"), Err(())),
        (encoded(space), Ok(Duty::Ignore)),
        // A code of a later version is passed over, whatever its data is.
        (says(28, 0xff, b"anything"), Ok(Duty::Ignore)),
        (says(200, 0, b""), Ok(Duty::Ignore)),
        (says(13, 0, b""), Ok(Duty::Leave)),
    ];
    let mut session = Session::Open;
    for (bytes, duty) in &duties {
        assert_eq!(session.take(&frame(bytes)).map_err(|_| ()), *duty);
    }
    assert_eq!(session, Session::Ended);
    let remove = manager_says(8, 0, b"\0\x04c@h\0\0\x03/a\0");
    let Ok(Duty::Refuse(change)) = Session::Open.take(&frame(&remove)) else {
        panic!("a change that is passed on");
    };
    assert_eq!((change.code, change.client), (Code::Remove, &b"c@h"[..]));
}

#[test]
fn a_stream_is_cut_into_frames() {
    let stream = [manager_says(17, 0, b""), manager_says(20, 0x20, b"/a\0")].concat();
    for end in 0..8 {
        assert_eq!(decode(&stream[..end]), Decoded::Partial(8 - end));
    }
    let Decoded::Frame(first, 8) = decode(&stream) else {
        panic!("a frame of eight bytes");
    };
    assert_eq!(first.data, b"");
    assert_eq!(decode(&stream[8..17]), Decoded::Partial(2));
    assert!(matches!(decode(&stream[8..]), Decoded::Frame(_, 11)));
}

#[test]
fn reports_keep_to_their_ranges() {
    let load = Load {
        processors: 250,
        disk: 4,
        free_mib: u32::MAX,
        ..Load::default()
    };
    let bytes = encoded(Message::Load(load));
    assert_eq!(bytes[8..], *b"\0\x06\x64\0\0\0\0\x04\xa0\xff\xff\xff\xff");
    let resume = Message::Status {
        flags: StatusFlags::RESUME | StatusFlags::NO_STAGING,
        port: 26_094,
    };
    assert_eq!(encoded(resume), b"\0\0\x65\xee\x16\x06\0\0");
    for path in [&b""[..], b"/a\0b", &vec![b'/'; CMS_PATH_BYTES_MAX + 1]] {
        let mut out = Vec::new();
        assert!(!Message::Gone(path).encode(&mut out));
        assert!(out.is_empty());
    }
    assert!(!Message::Ping.encode(&mut Vec::new()), "only a manager asks");
}

#[test]
fn exports_are_lines_and_never_the_whole_tree_by_mistake() {
    let export = |path, is_writable| ExportedPath { path, is_writable };
    let lines = path_lines(&[export(b"/data", true), export(b"/open", false)]);
    assert_eq!(lines, Ok(b"w /data\nr /open".to_vec()));
    assert_eq!(path_lines(&[]), Err(LoginFault::NothingExported));
    for path in [&b"/with space"[..], b"/line\n", b"relative", b""] {
        assert_eq!(path_lines(&[export(path, true)]), Err(LoginFault::UnfitPath));
    }
    let long = vec![b'/'; CMS_LOGIN_BYTES_MAX];
    assert_eq!(path_lines(&[export(&long, true)]), Err(LoginFault::TooLong));
    let login = Login {
        paths: &long,
        ..Login::of_server(LoginMode::NO_STAGING.with_share(50))
    };
    assert_eq!(login.encode(&mut Vec::new()), Err(LoginFault::TooLong));
    assert_eq!(login.mode.bits(), 0x3200_0248);
}
