//! Sessions of the XRootD protocol by hand, with the credentials that need no calculation: a user's
//! name, a host, a token.

use conformance::{
    ABLE_TLS, Frame, HAS_TLS, RootSocket, WANT_TLS, bytes, exchange, opcode, open, open_option, parameters, status,
    tls_session,
};

use super::http::{Wire, leave};
use super::site::{LARGE, Site};
use crate::dice::Dice;

/// A session in clear text or over TLS.
pub(crate) type Session = RootSocket<Box<dyn Wire>>;

/// Make a file, replace what there is, and make the directories that lead to it.
pub(crate) const UPLOAD: u16 = open_option::DELETE | open_option::UPDATE | open_option::MAKE_PATH;
/// Not authorised; no such file.
const NOT_AUTHORIZED: u32 = 3010;
const NOT_FOUND: u32 = 3011;

/// A session that has begun, in clear text.
fn clear(port: u16) -> Session {
    let connection = RootSocket::greeted(port);
    begun(connection.socket)
}

/// The same over TLS.
fn secure(site: &Site) -> Session {
    let mut connection = RootSocket::connect(site.port());
    let flags = connection.greet(ABLE_TLS | WANT_TLS);
    assert_ne!(flags & HAS_TLS, 0, "{flags:x}");
    let connection = RootSocket::over_tls(connection, tls_session(&site.ca_file()));
    begun(connection.socket)
}

fn begun(wire: impl Wire + 'static) -> Session {
    let socket: Box<dyn Wire> = Box::new(wire);
    let mut session = RootSocket { socket };
    let _ = session.login();
    session
}

fn authenticate(session: &mut Session, method: &[u8; 4], credential: &[u8]) -> Frame {
    let step = parameters(&[&[0; 12], method]);
    session.ask(1, opcode::AUTHENTICATE, &step, credential)
}

/// As an anonymous user, by name or by host.
pub(crate) fn anonymous(port: u16, dice: &mut Dice) -> Session {
    named(clear(port), dice)
}

fn named(mut session: Session, dice: &mut Dice) -> Session {
    let (method, credential): (_, &[u8]) = match dice.below(2) {
        0 => (b"unix", b"unix\0tester testers\0"),
        _ => (b"host", b"host\0localhost\0"),
    };
    let _ = authenticate(&mut session, method, credential).expect_ok();
    session
}

fn token_credential(token: &str) -> Vec<u8> {
    let length = u16::try_from(token.len() + 1).expect("a short token");
    [b"ztn\0\0T\0\0", &length.to_be_bytes()[..], token.as_bytes(), &[0]].concat()
}

fn either(site: &Site, dice: &mut Dice) -> Session {
    let session = match dice.below(2) {
        0 => clear(site.port()),
        _ => secure(site),
    };
    named(session, dice)
}

/// Reads a file at once, in a vector and by pages.
fn read_all(session: &mut Session, site: &Site, dice: &mut Dice, export: &str) {
    let file = site.file(dice);
    let handle = session.open(&format!("/{export}/{}", file.name), open_option::READ);
    let length = i32::try_from(file.content.len()).expect("a short file");
    assert!(session.read(handle, 0, length).expect_ok() == file.content);
    let pieces: Vec<u8> = (0..64)
        .flat_map(|piece| {
            let at = (piece * file.content.len() / 64).min(file.content.len() - 1);
            [&handle[..], &1_i32.to_be_bytes(), &(at as i64).to_be_bytes()].concat()
        })
        .collect();
    session.send(1, opcode::READ_VECTOR, &[0; 16], &pieces);
    assert_eq!(session.whole(1).expect_ok().len(), 64 * 17);
    let pages = parameters(&[&handle, &0_i64.to_be_bytes(), &length.min(4096).to_be_bytes()]);
    let answer = session.ask(1, opcode::READ_PAGES, &pages, &[]);
    assert_eq!(answer.status, status::PAGES, "{}", answer.words());
    let _ = session.close(handle).expect_ok();
}

/// Writes a file in pieces.
fn write_all(session: &mut Session, site: &Site, dice: &mut Dice, export: &str) {
    let content = bytes(dice.pick(&[0, 1, 5000, 300_000]), dice.next());
    let handle = session.open(&site.target(export), UPLOAD);
    for (number, piece) in content.chunks(100_000).enumerate() {
        let _ = session.write(handle, (number * 100_000) as i64, piece).expect_ok();
    }
    let _ = session.ask(1, opcode::SYNC, &parameters(&[&handle]), &[]).expect_ok();
    let _ = session.close(handle).expect_ok();
}

pub(crate) fn read(site: &Site, dice: &mut Dice) {
    read_all(&mut either(site, dice), site, dice, "open");
}

pub(crate) fn write(site: &Site, dice: &mut Dice) {
    write_all(&mut either(site, dice), site, dice, "open");
}

pub(crate) fn list(site: &Site, dice: &mut Dice) {
    let mut session = either(site, dice);
    // With a stat of each entry.
    let options = parameters(&[&[0; 15], &[2]]);
    session.send(1, opcode::LIST, &options, b"/open");
    let listing = session.whole(1).expect_ok();
    assert!(String::from_utf8_lossy(&listing).contains(&site.longest().name));
    let _ = session.stat("/open").expect_ok();
    let _ = session.ask(1, opcode::PING, &[0; 16], &[]).expect_ok();
}

/// A directory and a file in it, until both are gone.
pub(crate) fn tree(site: &Site, dice: &mut Dice) {
    let mut session = either(site, dice);
    let path = format!("/open/root-tree-{}", dice.next());
    let mode = parameters(&[&[0; 14], &0o755_u16.to_be_bytes()]);
    let _ = session
        .ask(1, opcode::MAKE_DIRECTORY, &mode, path.as_bytes())
        .expect_ok();
    let handle = session.open(&format!("{path}/file"), UPLOAD);
    let _ = session.write(handle, 0, b"content").expect_ok();
    let _ = session.close(handle).expect_ok();
    let _ = session
        .ask(1, opcode::REMOVE, &[0; 16], format!("{path}/file").as_bytes())
        .expect_ok();
    let remove_directory = 3015;
    let _ = session.ask(1, remove_directory, &[0; 16], path.as_bytes()).expect_ok();
}

pub(crate) fn with_token(site: &Site, dice: &mut Dice) {
    let token = match dice.below(4) {
        0 => &site.macaroons[dice.below(site.macaroons.len())],
        _ => &site.tokens[dice.below(site.tokens.len())],
    };
    let mut session = secure(site);
    let _ = authenticate(&mut session, b"ztn\0", &token_credential(token)).expect_ok();
    read_all(&mut session, site, dice, "data");
}

/// Logins that fail: a bad token, gsi that is none, an unknown method; some try the next one.
pub(crate) fn bad_login(site: &Site, dice: &mut Dice) {
    let mut session = secure(site);
    let token = &site.bad_tokens[dice.below(site.bad_tokens.len())];
    let refused = match dice.below(3) {
        0 => authenticate(&mut session, b"ztn\0", &token_credential(token)),
        1 => authenticate(&mut session, b"gsi\0", b"gsi\0garbage"),
        _ => authenticate(&mut session, b"krb5", b"krb5\0"),
    };
    assert_eq!(refused.status, status::ERROR, "{}", refused.words());
    if dice.below(2) == 0 {
        list_after(named(session, dice));
    }
}

fn list_after(mut session: Session) {
    let _ = session.stat("/open").expect_ok();
}

pub(crate) fn refused(site: &Site, dice: &mut Dice) {
    let mut session = either(site, dice);
    let path = format!("/data/{}", site.longest().name);
    session.try_open(&path, open_option::READ).expect_error(NOT_AUTHORIZED);
    session.try_open("/data/new", UPLOAD).expect_error(NOT_AUTHORIZED);
    session
        .try_open("/open/none", open_option::READ)
        .expect_error(NOT_FOUND);
    session.stat("/open/none").expect_error(NOT_FOUND);
}

/// A client that goes away with a file half written, or with answers on their way.
pub(crate) fn left(site: &Site, dice: &mut Dice) {
    let connection = RootSocket::greeted(site.port());
    leave(&connection.socket, dice);
    let mut session = named(begun(connection.socket), dice);
    if dice.below(2) == 0 {
        let handle = session.open(&site.target("open"), UPLOAD);
        let _ = session.write(handle, 0, &[7; 100_000]).expect_ok();
        let half = parameters(&[&handle, &100_000_i64.to_be_bytes()]);
        let whole = conformance::request_bytes(1, opcode::WRITE, &half, 1_000_000, &[7; 50_000]);
        session.say(&whole);
    } else {
        let handle = session.open(&format!("/open/{LARGE}"), open_option::READ);
        let read = parameters(&[&handle, &0_i64.to_be_bytes(), &2_000_000_i32.to_be_bytes()]);
        for stream in 1..4 {
            session.send(stream, opcode::READ, &read, &[]);
        }
        let _ = session.frame().expect("a beginning");
    }
}

/// What is no session, and one that ends before its login.
pub(crate) fn garbage(site: &Site, dice: &mut Dice) {
    match dice.below(3) {
        0 => drop(open(site.port())),
        1 => drop(RootSocket::greeted(site.port())),
        _ => {
            let mut words = conformance::GREETING.to_vec();
            words.extend([0xEE; 24]);
            assert!(exchange(site.port(), &words).closed);
        }
    }
}
