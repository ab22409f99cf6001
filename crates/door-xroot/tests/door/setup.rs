//! Sessions: protocol, TLS, login, authentication, and their end.

use credentials::{Macaroon, MacaroonKey};
use door_xroot::AuthenticationMethod;
use endpoint::{Exports, SharedExports};
use identity::{Authenticator, ClearText, Sources};
use net::frames::Frames;
use net::tls::{ClientTls, Trust};
use net::{Role, Stream, Waits};
use policy::AnonymousAccess;
use storage::Memory;
use types::Secret;
use xroot_wire::request::{Authenticate, EndSession, Expect, Request, Stat};
use xroot_wire::response::{LoginReply, ProtocolReply};
use xroot_wire::{Credential, ErrorNumber, OpenOptions, ProtocolOptions, ServerFlags, SessionId, StreamId};

use crate::harness::{Raw, SECRET, Server, certificate, export, login, open, soon};

async fn flags(server: &Server, options: ProtocolOptions, expect: Expect) -> ServerFlags {
    let mut raw = server.connect().await;
    let answer = raw.greet(options, expect).await;
    ProtocolReply::parse(&answer.ok()).unwrap().flags
}

#[tokio::test]
async fn tls_is_offered_and_demanded_as_it_is_set() {
    let plain = Server::open();
    let wants = ProtocolOptions::CAN_TLS | ProtocolOptions::WANTS_TLS;
    let without = flags(&plain, wants, Expect::Login).await;
    assert_eq!(without.bits(), 0x0030_0001, "no certificate, no TLS");
    let optional = Server::start(|settings| settings.site.tls = Some(certificate()));
    let able = flags(&optional, ProtocolOptions::CAN_TLS, Expect::Login).await;
    assert!(able.contains(ServerFlags::HAS_TLS) && !able.contains(ServerFlags::GO_TO_TLS));
    assert!(
        flags(&optional, wants, Expect::Login)
            .await
            .contains(ServerFlags::GO_TO_TLS)
    );
    let demanded = Server::start(|settings| {
        settings.site.tls = Some(certificate());
        settings.tls_policy.login = true;
    });
    let able = flags(&demanded, ProtocolOptions::CAN_TLS, Expect::Login).await;
    assert!(able.contains(ServerFlags::GO_TO_TLS | ServerFlags::TLS_FOR_LOGIN));
    assert!(
        !flags(&demanded, ProtocolOptions::CAN_TLS, Expect::Bind)
            .await
            .contains(ServerFlags::GO_TO_TLS)
    );
}

#[tokio::test]
async fn a_login_in_clear_text_is_refused_where_tls_is_demanded() {
    for session in [false, true] {
        let server = Server::start(|settings| {
            settings.site.tls = Some(certificate());
            settings.tls_policy.login = !session;
            settings.tls_policy.session = session;
        });
        let mut raw = server.connect().await;
        raw.greet(ProtocolOptions::empty(), Expect::Login).await;
        assert_eq!(raw.ask(&login(true)).await.error(), ErrorNumber::TLS_REQUIRED);
    }
}

/// A client that has switched to TLS before its login.
async fn encrypted(server: &Server) -> Frames {
    let mut raw = server.connect().await;
    let options = ProtocolOptions::CAN_TLS | ProtocolOptions::WANTS_TLS;
    raw.greet(options, Expect::Login).await.ok();
    let (trust, _) = ClientTls::load(&Trust {
        insecure: true,
        ..Trust::default()
    })
    .unwrap();
    let frames = Frames::new(Stream::clear(
        raw.tcp,
        Role::Peer(types::Side::Source),
        Waits::default(),
    ));
    soon(frames.upgrade_client(&trust, "localhost")).await.unwrap()
}

async fn ask(frames: &mut Frames, request: &Request<'_>) -> (u16, Vec<u8>) {
    let mut bytes = Vec::new();
    request.encode(StreamId::new(3), &mut bytes);
    frames.stream.queue(&bytes);
    soon(frames.stream.flush()).await.unwrap();
    let head = soon(frames.head::<8>(std::time::Duration::from_secs(9)))
        .await
        .unwrap()
        .unwrap();
    let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let body = soon(frames.small(length, length)).await.unwrap();
    (u16::from_be_bytes([head[2], head[3]]), body)
}

#[tokio::test]
async fn a_token_opens_what_is_closed_to_others_over_tls_only() {
    let server = Server::start(|settings| {
        let closed = export("/data", AnonymousAccess::None, Memory::new(1 << 20));
        settings.site.exports = SharedExports::new(Exports::new(vec![closed]));
        settings.site.tls = Some(certificate());
        settings.authentication = vec![AuthenticationMethod::Token, AuthenticationMethod::Unix];
    });
    let macaroon = Macaroon::mint(
        &MacaroonKey::new(SECRET),
        "here",
        "id-1",
        ["activity:LIST", "path:/data"],
    )
    .unwrap();
    let token = Credential::Token(Secret::new(macaroon.to_text().expose()))
        .encode()
        .unwrap();
    let wrong = Credential::Token(Secret::new("AAAA")).encode().unwrap();
    let stat = Request::Stat(Stat::path(b"/data"));

    let mut frames = encrypted(&server).await;
    let (_, body) = ask(&mut frames, &login(true)).await;
    let offered: Vec<String> = LoginReply::parse(&body)
        .unwrap()
        .protocols
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(offered, ["ztn", "unix"]);
    let (status, body) = ask(&mut frames, &Request::Authenticate(Authenticate::new("ztn", &wrong))).await;
    assert_eq!(
        (status, &body[..4]),
        (4003, &3030u32.to_be_bytes()[..]),
        "the next way can be tried"
    );
    let (status, _) = ask(&mut frames, &Request::Authenticate(Authenticate::new("ztn", &token))).await;
    assert_eq!(status, 0);
    assert_eq!(ask(&mut frames, &stat).await.0, 0);
    let record = server.log.all().pop().unwrap();
    assert_eq!(
        (&*record.method, record.credential, record.token_id.as_deref()),
        ("stat", "macaroon", Some("id-1"))
    );

    let mut clear = server.connect().await;
    clear.greet(ProtocolOptions::empty(), Expect::Login).await;
    let reply = LoginReply::parse(&clear.ask(&login(true)).await.ok()).unwrap();
    assert_eq!(reply.protocols.len(), 1, "a token is not asked for in clear text");
    let step = Request::Authenticate(Authenticate::new("ztn", &token));
    assert_eq!(clear.ask(&step).await.error(), ErrorNumber::AUTHENTICATION_FAILED);
    let user = Request::Authenticate(Authenticate::new("unix", b"unix\0jdoe users\0"));
    clear.ask(&user).await.ok();
    assert_eq!(
        clear.ask(&stat).await.error(),
        ErrorNumber::NOT_AUTHORIZED,
        "a name gives no rights"
    );
    let named = format!("/data?authz=Bearer%20{}", macaroon.to_text().expose());
    clear.ask(&Request::Stat(Stat::path(named.as_bytes()))).await.ok();
    assert!(server.log.all().iter().all(|record| !record.path.contains("authz")));
}

#[tokio::test]
async fn no_token_is_taken_in_clear_text_where_that_is_not_wanted() {
    let server = Server::start(|settings| {
        settings.site.tls = Some(certificate());
        settings.site.authenticator = Authenticator::new(Sources {
            macaroon_keys: vec![MacaroonKey::new(SECRET)],
            clear_text: ClearText::Never,
            ..Sources::default()
        });
    });
    server.put("/f", b"content");
    let key = MacaroonKey::new(SECRET);
    let macaroon = Macaroon::mint(&key, "here", "id-1", ["activity:LIST,DOWNLOAD,UPLOAD"]).unwrap();
    let query = format!("authz=Bearer%20{}", macaroon.to_text().expose());
    let path = format!("/data/f?{query}");
    let stat = Request::Stat(Stat::path(path.as_bytes()));

    let mut clear = server.client().await;
    assert_eq!(clear.ask(&stat).await.error(), ErrorNumber::TLS_REQUIRED);
    let read = open(&path, OpenOptions::READ);
    assert_eq!(clear.ask(&read).await.error(), ErrorNumber::TLS_REQUIRED);
    let target = format!("/data/new?oss.asize=1&tpc.src=localhost:1&tpc.key=k&tpc.stage=copy&tpc.scgi={query}");
    let copy = open(&target, OpenOptions::NEW);
    assert_eq!(clear.ask(&copy).await.error(), ErrorNumber::TLS_REQUIRED);
    clear.ask(&Request::Stat(Stat::path(b"/data/f"))).await.ok();

    let mut frames = encrypted(&server).await;
    assert_eq!(ask(&mut frames, &login(true)).await.0, 0);
    assert_eq!(ask(&mut frames, &stat).await.0, 0);
}

#[tokio::test]
async fn nothing_is_done_before_the_authentication_and_few_are_tried() {
    let server = Server::start(|settings| settings.authentication = vec![AuthenticationMethod::Unix]);
    let mut raw = server.connect().await;
    raw.greet(ProtocolOptions::empty(), Expect::Login).await;
    raw.ask(&login(true)).await.ok();
    let stat = Request::Stat(Stat::path(b"/data"));
    assert_eq!(raw.ask(&stat).await.error(), ErrorNumber::INVALID_REQUEST);
    assert!(raw.is_closed().await);
    let mut guesser = server.connect().await;
    guesser.greet(ProtocolOptions::empty(), Expect::Login).await;
    guesser.ask(&login(true)).await.ok();
    let host = Request::Authenticate(Authenticate::new("host", b"host\0"));
    for _ in 0..xroot_wire::limits::AUTHENTICATION_FAILURES_MAX {
        assert_eq!(guesser.ask(&host).await.error(), ErrorNumber::AUTHENTICATION_FAILED);
    }
    assert!(guesser.is_closed().await);
}

#[tokio::test]
async fn sessions_end_without_a_word_and_unknown_ones_have_ended() {
    let server = Server::open();
    let mut raw = server.client().await;
    let end = |session| Request::EndSession(EndSession { session });
    raw.ask(&end(SessionId([9; 16]))).await.ok();
    let own = raw.session;
    raw.say(1, &end(own)).await;
    assert!(raw.is_closed().await);
}

#[tokio::test]
async fn ids_of_sessions_do_not_repeat() {
    let server = Server::open();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..20 {
        let Raw { session, .. } = server.client().await;
        assert!(seen.insert(session.0));
    }
}

#[tokio::test]
async fn a_closing_door_lets_open_files_be_finished() {
    let server = Server::open();
    let mut idle = server.client().await;
    let mut busy = server.client().await;
    let handle = busy.opened("/data/f", xroot_wire::OpenOptions::NEW).await;
    let door = server.door.clone();
    let closing = tokio::spawn(async move { door.shut_down(std::time::Duration::from_secs(30)).await });
    assert!(idle.is_closed().await);
    let close = Request::Close(xroot_wire::request::Close { handle });
    busy.ask(&close).await.ok();
    assert!(busy.is_closed().await);
    soon(closing).await.unwrap();
    assert_eq!(server.content("/f").as_deref(), Some(&b""[..]));
}

#[tokio::test]
async fn files_that_the_end_of_the_door_cuts_off_have_their_line() {
    let server = Server::open();
    server.put("/f", b"content");
    let (mut reader, mut writer) = (server.client().await, server.client().await);
    reader.opened("/data/f", OpenOptions::READ).await;
    writer.opened("/data/g", OpenOptions::NEW).await;
    server.door.shut_down(std::time::Duration::from_millis(200)).await;
    let all = server.log.all();
    for path in ["/data/f", "/data/g"] {
        let closed = all
            .iter()
            .find(|record| record.method == "close" && record.path == path);
        let error = closed.and_then(|record| record.error.as_ref()).expect("it was cut off");
        assert_eq!((error.code, error.side), ("cancelled", "server"), "{path}");
    }
    assert_eq!(server.content("/g"), None);
}
