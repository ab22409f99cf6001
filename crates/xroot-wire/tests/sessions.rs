//! What may be asked when, how a session is set up, and the credentials that are shown.

use types::{ErrorCode, Secret};
use xroot_wire::credential::{self, Credential};
use xroot_wire::request::{Authenticate, Expect, Protocol, UserName};
use xroot_wire::response::{LoginReply, ProtocolReply, SecurityEntry};
use xroot_wire::{
    Answer, Cgi, CgiBuilder, ConnectionState, ErrorNumber, Handshake, Opcode, ProtocolOptions, Purpose, RequestHeader,
    ServerFlags, SessionId, Stage, Step, StreamId, ThirdParty, TlsPolicy, TlsUse, pack_source_cgi, unpack_source_cgi,
};

fn header(opcode: Opcode) -> RequestHeader {
    RequestHeader {
        stream: StreamId::ZERO,
        opcode: opcode.number(),
        block: [0; 16],
        length: 1,
    }
}

/// The requests that pass, of all.
fn passing(state: &ConnectionState) -> Vec<Opcode> {
    Opcode::ALL
        .iter()
        .copied()
        .filter(|opcode| state.admit(&header(*opcode)).is_ok())
        .collect()
}

#[test]
fn only_what_belongs_to_the_stage_of_a_session_passes() {
    let tls = TlsPolicy::default();
    let mut state = ConnectionState::new(false);
    assert_eq!(passing(&state), [Opcode::Protocol, Opcode::Login, Opcode::Bind]);
    let refusal = state.admit(&header(Opcode::Stat)).expect_err("no login");
    assert_eq!((refusal.number, refusal.closes), (ErrorNumber::INVALID_REQUEST, true));
    assert!(!state.on_login(true, &tls));
    assert_eq!(passing(&state), [Opcode::Authenticate, Opcode::Protocol, Opcode::Ping]);
    assert!(
        state
            .admit(&header(Opcode::Open))
            .expect_err("no authentication")
            .closes
    );
    assert!(!state.on_authenticated(&tls) && state.is_ready());
    let all = passing(&state);
    assert_eq!(all.len(), Opcode::ALL.len() - 2);
    let again = state.admit(&header(Opcode::Login)).expect_err("logged in already");
    assert_eq!((again.number, again.closes), (ErrorNumber::INVALID_REQUEST, false));
    let mut bound = ConnectionState::new(false);
    bound.on_bound();
    assert!(passing(&bound).is_empty() && bound.is_bound());
}

#[test]
fn authentications_may_fail_only_so_often() {
    let mut state = ConnectionState::new(false);
    assert!(!state.on_authentication_failed(), "there is none");
    state.on_login(true, &TlsPolicy::default());
    let tries = (0..100).take_while(|_| state.on_authentication_failed()).count();
    assert_eq!(tries, 7);
}

fn ask(options: u8, expect: Expect) -> Protocol {
    Protocol {
        version: 0x511,
        options: ProtocolOptions::from_bits_retain(options),
        expect,
    }
}

#[test]
fn tls_begins_when_it_is_wanted_or_demanded_for_what_comes_next() {
    let offered = TlsPolicy {
        offered: true,
        ..TlsPolicy::default()
    };
    let login = TlsPolicy { login: true, ..offered };
    let data = TlsPolicy { data: true, ..offered };
    let third_party = TlsPolicy {
        third_party: true,
        ..offered
    };
    let none = TlsPolicy::default();
    for (policy, options, expect, upgrade) in [
        (none, 0x0f, Expect::Login, false),
        (offered, 0x0b, Expect::Login, false),
        (offered, 0x0f, Expect::Login, true),
        (offered, 0x04, Expect::Nothing, true),
        (login, 0x0b, Expect::Login, true),
        (login, 0x09, Expect::Login, false),
        (login, 0x0b, Expect::ThirdParty, true),
        (login, 0x0b, Expect::Bind, false),
        (data, 0x0b, Expect::Bind, true),
        (data, 0x0b, Expect::Login, false),
        (third_party, 0x0b, Expect::ThirdParty, true),
        (third_party, 0x0b, Expect::Login, false),
    ] {
        let decision = policy.decide(&ask(options, expect), false);
        assert_eq!(decision.upgrade, upgrade, "{policy:?} {options:#x} {expect:?}");
        assert_eq!(decision.flags.contains(ServerFlags::GO_TO_TLS), upgrade);
        assert_eq!(decision.flags.contains(ServerFlags::HAS_TLS), policy.offered);
        assert!(!policy.decide(&ask(options, expect), true).upgrade, "never twice");
    }
    let old = Protocol {
        version: 0,
        ..ask(0x0f, Expect::Login)
    };
    assert!(offered.decide(&old, false).flags.is_empty());
}

#[test]
fn a_login_in_clear_text_is_refused_where_tls_is_demanded() {
    let strict = TlsPolicy {
        offered: true,
        login: true,
        third_party: true,
        data: true,
        session: true,
        only_capable: false,
    };
    let number = |result: Result<(), xroot_wire::Refusal>| result.expect_err("a refusal").number;
    assert_eq!(
        number(strict.admits_login(false, Expect::Login, false)),
        ErrorNumber::TLS_REQUIRED
    );
    assert_eq!(number(strict.admits_bind(false, false)), ErrorNumber::TLS_REQUIRED);
    assert!(strict.admits_login(true, Expect::Login, true).is_ok());
    let lenient = TlsPolicy {
        only_capable: true,
        ..strict
    };
    assert!(lenient.admits_login(false, Expect::Login, false).is_ok());
    assert_eq!(
        number(lenient.admits_login(true, Expect::Login, false)),
        ErrorNumber::TLS_REQUIRED
    );
    assert!(strict.upgrades_after_login(true, false) && !strict.upgrades_after_login(true, true));
}

fn purpose() -> Purpose {
    Purpose::Login {
        process: 1,
        user: UserName::new("longusername"),
        cgi: "xrd.cc=us".to_owned(),
        third_party: false,
    }
}

fn protocol_body(flags: ServerFlags) -> Vec<u8> {
    ProtocolReply {
        version: 0x511,
        flags,
        bind_interfaces: None,
        signing: None,
    }
    .encode()
}

fn login_body(protocols: &[&str]) -> Vec<u8> {
    let protocols = protocols.iter().map(|name| SecurityEntry::plain(name)).collect();
    LoginReply {
        session: SessionId([9; 16]),
        protocols,
    }
    .encode()
}

/// A handshake whose `protocol` was answered with these flags.
fn greeted(tls: TlsUse, flags: ServerFlags) -> (Handshake, Result<Step, types::Error>) {
    let mut handshake = Handshake::new(purpose(), tls);
    assert_eq!(handshake.start().len(), 44);
    assert!(matches!(
        handshake.handle(Answer::Ok(&[0, 0, 5, 0x11, 0, 0, 0, 1])),
        Ok(Step::Read)
    ));
    let step = handshake.handle(Answer::Ok(&protocol_body(flags)));
    (handshake, step)
}

#[test]
fn a_session_without_authentication_is_two_rounds() {
    let (mut handshake, step) = greeted(TlsUse::WhenDemanded, ServerFlags::SERVER | ServerFlags::PAGES);
    let Ok(Step::Send(login)) = step else { panic!("a login") };
    assert_eq!(&login[8..16], b"longuser");
    let Ok(Step::Ready(session)) = handshake.handle(Answer::Ok(&login_body(&[]))) else {
        panic!("ready")
    };
    assert_eq!(session.session, SessionId([9; 16]));
    assert!(session.uses_pages() && !session.is_manager());
    assert!(handshake.handle(Answer::Ok(b"")).is_err(), "nothing comes behind it");
}

#[test]
fn the_next_protocol_is_tried_after_a_refusal() {
    let (mut handshake, _) = greeted(TlsUse::WhenDemanded, ServerFlags::SERVER);
    let refused = || Answer::Error {
        number: ErrorNumber::AUTHENTICATION_FAILED,
        message: "no".to_owned(),
    };
    let Ok(Step::Authenticate(offered)) = handshake.handle(Answer::Ok(&login_body(&["gsi", "ztn", "unix"]))) else {
        panic!("a choice")
    };
    assert_eq!(offered.len(), 3);
    assert!(matches!(handshake.authenticate("ztn", b"ztn\0"), Ok(Step::Send(_))));
    let more = handshake.handle(Answer::MoreAuthentication(b"data"));
    assert!(matches!(more, Ok(Step::Continue(data)) if data == b"data"));
    assert!(matches!(handshake.authenticate_on(b"ztn\0"), Ok(Step::Send(_))));
    let Ok(Step::Authenticate(left)) = handshake.handle(refused()) else {
        panic!("a choice")
    };
    assert_eq!(left, [SecurityEntry::plain("unix")]);
    assert!(handshake.give_up().public().contains("unix"));
    assert!(handshake.authenticate("unix", b"unix\0me\0").is_ok());
    let error = handshake.handle(refused()).expect_err("none is left");
    assert_eq!(error.code(), ErrorCode::PeerDenied);
    assert!(handshake.authenticate("unix", b"").is_err(), "out of turn");
}

#[test]
fn tls_comes_before_the_login_or_behind_it_as_the_server_says() {
    let tls = ServerFlags::HAS_TLS | ServerFlags::SERVER;
    let (mut handshake, step) = greeted(
        TlsUse::WhenDemanded,
        tls | ServerFlags::TLS_FOR_LOGIN | ServerFlags::GO_TO_TLS,
    );
    assert!(matches!(step, Ok(Step::StartTls)));
    assert!(matches!(handshake.on_tls(), Ok(Step::Send(_))));
    let (mut handshake, step) = greeted(TlsUse::WhenDemanded, tls | ServerFlags::TLS_FOR_SESSION);
    assert!(matches!(step, Ok(Step::Send(_))));
    assert!(matches!(
        handshake.handle(Answer::Ok(&login_body(&[]))),
        Ok(Step::StartTls)
    ));
    assert!(matches!(handshake.on_tls(), Ok(Step::Ready(session)) if session.secure && !session.uses_pages()));
    let (_, step) = greeted(TlsUse::Always, ServerFlags::SERVER);
    assert_eq!(step.expect_err("not offered").code(), ErrorCode::PeerTlsFailed);
    let (_, step) = greeted(TlsUse::Never, tls | ServerFlags::TLS_FOR_LOGIN);
    assert_eq!(step.expect_err("demanded").code(), ErrorCode::PeerTlsFailed);
}

#[test]
fn a_further_stream_is_bound_by_its_number() {
    let mut handshake = Handshake::new(
        Purpose::Bind {
            session: SessionId([3; 16]),
        },
        TlsUse::WhenDemanded,
    );
    assert_eq!(handshake.start()[20 + 9], 1, "the server is told");
    assert!(handshake.handle(Answer::Ok(&[0; 8])).is_ok());
    let Ok(Step::Send(bind)) = handshake.handle(Answer::Ok(&protocol_body(ServerFlags::SERVER))) else {
        panic!("a bind")
    };
    assert_eq!(bind[4..20], [3; 16]);
    assert!(matches!(handshake.handle(Answer::Ok(&[1])), Ok(Step::Ready(stream)) if stream.path == 1));
}

#[test]
fn answers_that_do_not_belong_to_the_set_up_are_refused() {
    let mut handshake = Handshake::new(purpose(), TlsUse::Never);
    assert!(handshake.handle(Answer::Ok(b"short")).is_err());
    let (mut handshake, _) = greeted(TlsUse::Never, ServerFlags::SERVER);
    let error = handshake.handle(Answer::Partial(b"")).expect_err("a part of a login");
    assert_eq!(error.code(), ErrorCode::PeerMisbehaved);
    assert!(handshake.on_tls().is_err(), "nobody asked for it");
    let (mut handshake, _) = greeted(TlsUse::Never, ServerFlags::SERVER);
    assert!(matches!(
        handshake.handle(Answer::Ok(&login_body(&["gsi"]))),
        Ok(Step::Authenticate(_))
    ));
    handshake.authenticate("gsi", b"gsi\0").expect("a step");
    let endless = (0..100)
        .take_while(|_| handshake.handle(Answer::MoreAuthentication(b"")).is_ok())
        .count();
    assert_eq!(endless, 15);
}

#[test]
fn credentials_are_read_as_clients_send_them() {
    let parse = |name: &str, bytes: &[u8]| Credential::parse(&Authenticate::new(name, bytes));
    let token = |bytes: &[u8]| match parse("ztn", bytes) {
        Ok(Credential::Token(token)) => Some(token.expose().to_owned()),
        _ => None,
    };
    // The length counts, not the two bytes of undefined content behind it.
    assert_eq!(token(b"ztn\0\0T\0\0\0\x06a.b.c\0\x7f\0").as_deref(), Some("a.b.c"));
    assert_eq!(
        token(b"ztn\0\0T\0\0\0\x0fBearer%20a.b.c\0").as_deref(),
        Some("a.b.c"),
        "a scheme in front is dropped"
    );
    assert_eq!(token(b"ztn\0\0T\0\0\0\x0fBearer%20a.b.c").as_deref(), None, "cut off");
    assert_eq!(token(b"ztn\0\0T\0\0\0\x10Bearer%20a.b.cd\0").as_deref(), Some("a.b.cd"));
    for bad in [
        &b"ztn\0\0S\0\0\0\x02a\0"[..],
        b"ztn\0\x01T\0\0\0\x02a\0",
        b"ztn\0\0T\0\0\0\x01\0",
        b"ztn\0\0T\0\0\0\x04a b\0",
        b"ztn",
    ] {
        assert_eq!(token(bad), None, "{bad:?}");
    }
    assert!(parse("unix", b"ztn\0\0T\0\0\0\x02a\0").is_err(), "of another protocol");
    assert!(parse("sss", b"sss\0").is_err());
    assert!(
        matches!(parse("unix", b"unix\0root wheel\0"), Ok(Credential::User { name, group: Some(group) }) if name == "root" && group == "wheel")
    );
    assert!(parse("unix", b"unix\0\0").is_err());
    assert!(matches!(parse("host", b"host\0"), Ok(Credential::Host { name: None })));
    assert!(
        matches!(parse("host", b"host\0a.example.org\0"), Ok(Credential::Host { name: Some(name) }) if name == "a.example.org")
    );
    let refusal = parse("krb5", b"krb5\0").expect_err("not offered");
    assert_eq!(refusal.number, ErrorNumber::AUTHENTICATION_FAILED);
}

#[test]
fn credentials_are_written_as_servers_read_them() {
    let sent = Credential::Token(Secret::new("a.b.c")).encode().expect("short enough");
    assert_eq!(sent, b"ztn\0\0T\0\0\0\x06a.b.c\0");
    assert!(Credential::Token(Secret::new("x".repeat(65535))).encode().is_none());
    let user = Credential::User {
        name: "root".to_owned(),
        group: Some("root".to_owned()),
    };
    assert_eq!(user.encode().as_deref(), Some(&b"unix\0root root\0"[..]));
    assert_eq!(
        Credential::Host { name: None }.encode().as_deref(),
        Some(&b"host\0"[..])
    );
    assert_eq!(credential::ztn_token_bytes_max(&credential::ztn_entry()), Some(65534));
    assert_eq!(credential::login_name("münster-east"), "münster");
}

#[test]
fn cgi_is_read_pair_by_pair() {
    let cgi = Cgi::new("&oss.asize=19&&cks.type=adler32&authz=Bearer%20a=b&flag&tried=a,b&xrd.wantprot=ztn,,gsi");
    assert_eq!(
        (cgi.expected_bytes(), cgi.checksum_algorithm()),
        (Some(19), Some("adler32"))
    );
    assert_eq!(
        cgi.token().map(|token| token.expose().to_owned()).as_deref(),
        Some("a=b")
    );
    assert_eq!(cgi.value("flag"), Some(""));
    assert_eq!(cgi.tried().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(cgi.wanted_protocols().collect::<Vec<_>>(), ["ztn", "gsi"]);
    assert!(!format!("{cgi:?}").contains("a=b"), "values are not shown");
    assert!(cgi.third_party().is_none());
}

#[test]
fn the_keys_of_a_third_party_copy_survive() {
    let text = "oss.asize=19&tpc.dlg=a:1094&tpc.dlgon=0&tpc.key=K&tpc.lfn=/f&tpc.spr=root&tpc.src=a:1094&tpc.stage=copy&tpc.str=1&tpc.tpr=root";
    let copy = Cgi::new(text).third_party().expect("a copy");
    assert_eq!(
        (copy.key, copy.source, copy.stage),
        (Some("K"), Some("a:1094"), Some(Stage::Copy))
    );
    assert_eq!(copy.stream_count().expect("a number"), Some(1));
    assert!(!copy.delegates() && !copy.source_wants_tls());
    let built = CgiBuilder::for_path("/g").expected_bytes(19).third_party(&copy).build();
    assert_eq!(built, format!("/g?{text}"));
    let odd = ThirdParty {
        streams: Some("x"),
        time_to_live: Some("-1"),
        ..ThirdParty::default()
    };
    assert!(odd.stream_count().is_err() && odd.time_to_live_s().is_none());
    let twice = Cgi::new("tpc.key=first&tpc.key=second").third_party().expect("a copy");
    assert_eq!(twice.key, Some("first"));
    assert_eq!(unpack_source_cgi("tpc.stage=placement\ta=b\txrd.x=1\tc=d"), "a=b&c=d");
    assert_eq!(pack_source_cgi("a=b&c=d"), "a=b\tc=d");
}

#[test]
fn what_is_built_cannot_be_broken_by_values() {
    let built = CgiBuilder::for_path("/f?x=1")
        .pair("a", "b&c=d\n")
        .raw("&e=f")
        .tried(&["h1", "h2"], &["enoent"])
        .build();
    assert_eq!(built, "/f?x=1&a=bc=d&e=f&tried=h1,h2&triedrc=enoent");
    assert_eq!(
        CgiBuilder::pairs_only().pair("a", "1").raw("").pair("b", "2").build(),
        "a=1&b=2"
    );
}

#[test]
fn paths_are_normalised_or_refused() {
    use xroot_wire::Argument;
    let path = |bytes: &'static [u8]| Argument::new(bytes).path();
    assert_eq!(path(b"//a///b?x=1?y\0").expect("sound").path.as_str(), "/a/b");
    assert_eq!(path(b"/a?x=1?y").expect("sound").cgi.text(), "x=1?y");
    for bad in [&b"a/b"[..], b"/a/../b", b"/a\0b", b"/a?x\0y", b"/\xff", b"/a\n"] {
        assert_eq!(
            path(bad).expect_err("refused").number,
            ErrorNumber::NOT_AUTHORIZED,
            "{bad:?}"
        );
    }
    assert_eq!(path(b"\0").expect_err("refused").number, ErrorNumber::ARGUMENT_MISSING);
    for (locate, expected) in [(&b"*"[..], "/"), (b"*//a", "/a"), (b"/b", "/b")] {
        assert_eq!(
            Argument::new(locate).locate_path().expect("sound").path.as_str(),
            expected
        );
    }
    let secret = Argument::new(b"/f?authz=abc");
    assert!(!format!("{secret:?}").contains("abc"));
}
