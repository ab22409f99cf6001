//! Targets for the states of an XRootD session on both sides, and for its credentials.

use types::limits::HEAD_BYTES_MAX;
use xroot_wire::credential::Credential;
use xroot_wire::limits::{REQUEST_HEADER_BYTES, RESPONSE_HEADER_BYTES};
use xroot_wire::request::{Authenticate, UserName};
use xroot_wire::{
    Answer, ConnectionState, Handshake, Opcode, Purpose, Request, RequestHeader, ResponseHeader, SessionId, Step,
    TlsPolicy, TlsUse,
};

/// Pieces of credentials.
pub(crate) const CREDENTIAL_WORDS: &[&str] = &[
    "ztn\0",
    "unix\0",
    "host\0",
    "\0T\0\0",
    "\0\x06a.b.c\0",
    "Bearer%20",
    "root root\0",
    "\0",
    " ",
];

/// An accepted credential is one line of text, and survives being written.
pub(crate) fn credential(data: &[u8]) {
    for name in ["ztn", "unix", "host", "sss"] {
        let Ok(credential) = Credential::parse(&Authenticate::new(name, data)) else {
            continue;
        };
        assert_eq!(credential.protocol(), name);
        let bytes = credential.encode().expect("what was read can be written");
        let again = Credential::parse(&Authenticate::new(name, &bytes)).expect("what was written can be read");
        match (&credential, &again) {
            (Credential::Token(one), Credential::Token(other)) => assert_eq!(one.expose(), other.expose()),
            (one, other) => assert_eq!(format!("{one:?}"), format!("{other:?}")),
        }
    }
}

/// Whatever a client sends, in whatever order: nothing passes before the login, and nothing but
/// what belongs to the authentication before that is done.
pub(crate) fn connection_state(data: &[u8]) {
    let Some((policy, requests)) = data.split_first() else {
        return;
    };
    let bit = |at: u8| policy >> at & 1 == 1;
    let tls = TlsPolicy {
        offered: bit(0),
        login: bit(1),
        session: bit(2),
        data: bit(3),
        third_party: bit(4),
        only_capable: bit(5),
    };
    let mut state = ConnectionState::new(false);
    let mut logged_in = false;
    for head in requests.as_chunks::<REQUEST_HEADER_BYTES>().0 {
        let header = RequestHeader::parse(head);
        let Err(refusal) = state.admit(&header) else {
            let opcode = header.known_opcode();
            let set_up = matches!(opcode, Some(Opcode::Protocol | Opcode::Login | Opcode::Bind));
            assert!(logged_in || set_up, "{opcode:?} before the login");
            match Request::parse(&header, &[]) {
                Ok(Request::Protocol(protocol)) => {
                    let decision = tls.decide(&protocol, state.is_secure());
                    assert!(!decision.upgrade || tls.offered && !state.is_secure());
                    state.on_protocol(&protocol);
                    if decision.upgrade {
                        state.on_tls();
                    }
                }
                Ok(Request::Login(_))
                    if tls
                        .admits_login(state.is_able(), state.expect(), state.is_secure())
                        .is_ok() =>
                {
                    logged_in = true;
                    state.on_login(bit(6), &tls);
                }
                Ok(Request::Bind(_)) => return state.on_bound(),
                _ => {}
            }
            continue;
        };
        assert!(refusal.closes || state.is_ready());
        assert!(!state.is_ready() || logged_in);
    }
}

/// Whatever a server answers, the client sends bounded bytes, ends after boundedly many steps of
/// its own, and is ready only after a login or a bind.
pub(crate) fn handshake(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else {
        return;
    };
    let tls = match choice % 3 {
        0 => TlsUse::Never,
        1 => TlsUse::WhenDemanded,
        _ => TlsUse::Always,
    };
    let purpose = if choice & 0x80 == 0 {
        let (user, cgi) = (UserName::new("user"), "xrd.cc=us".to_owned());
        Purpose::Login {
            process: 1,
            user,
            cgi,
            third_party: choice & 0x40 != 0,
        }
    } else {
        Purpose::Bind {
            session: SessionId([1; 16]),
        }
    };
    let mut handshake = Handshake::new(purpose, tls);
    let mut sent = 0;
    // Each answer takes its header from the input, so that this ends.
    while let Some((head, behind)) = rest.split_first_chunk::<RESPONSE_HEADER_BYTES>() {
        let header = ResponseHeader::parse(head);
        let length = usize::from(head[7]).min(behind.len());
        let (body, behind) = behind.split_at(length);
        rest = behind;
        let Ok(answer) = Answer::parse(&header, body) else {
            return;
        };
        let Ok(mut step) = handshake.handle(answer) else { return };
        loop {
            step = match step {
                Step::Send(bytes) => {
                    assert!(bytes.len() < HEAD_BYTES_MAX);
                    sent += 1;
                    break;
                }
                Step::Read => break,
                Step::StartTls => handshake.on_tls().expect("TLS was asked for"),
                Step::Authenticate(offered) => {
                    let name = &offered.first().expect("there is something to choose").name;
                    handshake
                        .authenticate(name, b"credential")
                        .expect("a choice was asked for")
                }
                Step::Continue(_) => handshake.authenticate_on(b"more").expect("a step was asked for"),
                Step::Ready(session) => {
                    assert!(sent > 0);
                    assert!(!session.secure || tls != TlsUse::Never);
                    assert!(session.secure || tls != TlsUse::Always);
                    return;
                }
            };
        }
    }
}
