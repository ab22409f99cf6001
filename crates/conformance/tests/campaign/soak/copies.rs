//! Third-party copies in which the server under soak is the active side, or the source: those that
//! succeed, and those that cannot.

use std::time::Duration;

use conformance::{Frame, RootSocket, opcode, open_option, parameters, status, until};
use testkit::Direction;

use super::http::Client;
use super::root::{Session, UPLOAD, anonymous};
use super::site::{LARGE, LARGE_BYTES, Site};
use crate::dice::Dice;

/// How soon a copy must have begun.
const SOON: Duration = Duration::from_secs(30);

/// Orders a copy over HTTP, and returns the status with all that was said.
fn order(site: &Site, dice: &mut Dice, path: &str, header: &str) -> (u16, String) {
    let reply = Client::either(site, dice).ask("COPY", path, &[header], None);
    (reply.status, reply.text())
}

#[track_caller]
fn expect_success((status, text): &(u16, String)) {
    let last = text.lines().last().unwrap_or_default();
    assert!(*status == 202 && last.starts_with("success"), "{status} {text}");
}

#[track_caller]
fn expect_failure((status, text): &(u16, String)) {
    let last = text.lines().last().unwrap_or_default();
    assert!(*status >= 400 || last.starts_with("failure"), "{status} {text}");
}

/// The scheme for a port that speaks both.
fn scheme(dice: &mut Dice) -> &'static str {
    dice.pick(&["http", "https"])
}

pub(crate) fn pull(site: &Site, dice: &mut Dice) {
    let (scheme, port) = (scheme(dice), site.peer.port());
    let source = format!("Source: {scheme}://localhost:{port}/data/{}", site.file(dice).name);
    let path = site.target("open");
    expect_success(&order(site, dice, &path, &source));
}

/// From the other protocol.
pub(crate) fn pull_from_root(site: &Site, dice: &mut Dice) {
    let name = &site.file(dice).name;
    let source = format!("Source: root://localhost:{}//data/{name}", site.peer.port());
    let path = site.target("open");
    expect_success(&order(site, dice, &path, &source));
}

pub(crate) fn push(site: &Site, dice: &mut Dice) {
    let (scheme, port) = (scheme(dice), site.peer.port());
    let name = &site.file(dice).name;
    let destination = format!("Destination: {scheme}://localhost:{port}{}", site.target("data"));
    expect_success(&order(site, dice, &format!("/open/{name}"), &destination));
}

/// Cut off again and again, and taken up each time.
pub(crate) fn pull_cut(site: &Site, dice: &mut Dice) {
    let (scheme, port) = (scheme(dice), site.cutting.port());
    let source = format!("Source: {scheme}://localhost:{port}/data/{}", site.longest().name);
    let path = site.target("open");
    expect_success(&order(site, dice, &path, &source));
}

/// Sources that are dead, refuse, break off, or declare another checksum than their data has.
pub(crate) fn pull_in_vain(site: &Site, dice: &mut Dice) {
    let source = match dice.below(4) {
        0 => format!("http://localhost:{}/data/file", site.dead_port),
        1 => site.liar.url("/refused"),
        2 => site.liar.url("/cut"),
        _ => site.liar.url("/wrong"),
    };
    let path = site.target("open");
    expect_failure(&order(site, dice, &path, &format!("Source: {source}")));
}

pub(crate) fn push_in_vain(site: &Site, dice: &mut Dice) {
    let destination = match dice.below(3) {
        0 => format!("http://localhost:{}/data/file", site.dead_port),
        1 => format!("https://localhost:{}/jane/file", site.peer.port()),
        _ => format!("https://localhost:{}/nowhere/file", site.peer.port()),
    };
    let path = format!("/open/{}", site.longest().name);
    expect_failure(&order(site, dice, &path, &format!("Destination: {destination}")));
}

/// A client that goes away in the middle of a copy, which ends it.
pub(crate) fn left(site: &Site, dice: &mut Dice) {
    let source = format!("Source: http://localhost:{}/data/{LARGE}", site.slow.port());
    let mut client = Client::either(site, dice);
    client.send("COPY", &site.target("open"), &[&source], None);
    client.head().expect(202);
}

/// The path with which a copy of the XRootD protocol is ordered at its destination.
fn root_order(target: &str, source_port: u16, path: &str, size: usize, key: &str) -> String {
    let source = format!("localhost:{source_port}");
    format!(
        "{target}?oss.asize={size}&tpc.dlg={source}&tpc.dlgon=0&tpc.key={key}&tpc.lfn={path}&tpc.spr=root\
         &tpc.src={source}&tpc.stage=copy&tpc.str=1&tpc.tpr=root"
    )
}

/// The answer that was put off.
fn in_the_end(session: &mut Session, answer: Frame) -> Frame {
    match answer.status {
        status::LATER => session.frame().expect("the late answer").late(),
        _ => answer,
    }
}

/// A rendezvous by hand: destination, key at the source, order, and how it ended.
fn rendezvous(destination: &mut Session, order: &str, source: &mut Session, path: &str, key: &str) -> Frame {
    let opened = destination.try_open(order, UPLOAD);
    if opened.status != status::OK {
        return opened;
    }
    let handle: [u8; 4] = opened.body[..4].try_into().expect("a handle");
    let sync = parameters(&[&handle]);
    let prepared = destination.ask(1, opcode::SYNC, &sync, &[]);
    let prepared = in_the_end(destination, prepared);
    if prepared.status != status::OK {
        return prepared;
    }
    let registering = format!("{path}?tpc.dst=localhost&tpc.key={key}&tpc.stage=copy");
    let _ = source.open(&registering, open_option::READ);
    let promise = destination.ask(1, opcode::SYNC, &sync, &[]);
    let end = in_the_end(destination, promise);
    if end.status == status::OK {
        let _ = destination.close(handle).expect_ok();
    }
    end
}

fn peer_session(site: &Site) -> Session {
    let session = RootSocket::session(site.peer.port());
    RootSocket {
        socket: Box::new(session.socket),
    }
}

/// Our server is the destination.
pub(crate) fn root_pull(site: &Site, dice: &mut Dice) {
    let (file, key) = (site.file(dice), format!("key-{}", dice.next()));
    let path = format!("/data/{}", file.name);
    let order = root_order(&site.target("open"), site.peer.port(), &path, file.content.len(), &key);
    let mut destination = anonymous(site.port(), dice);
    let end = rendezvous(&mut destination, &order, &mut peer_session(site), &path, &key);
    let _ = end.expect_ok();
}

/// Our server is the source, and the peer the destination.
pub(crate) fn root_source(site: &Site, dice: &mut Dice) {
    let (file, key) = (site.file(dice), format!("key-{}", dice.next()));
    let path = format!("/open/{}", file.name);
    let order = root_order(&site.target("data"), site.port(), &path, file.content.len(), &key);
    let mut source = anonymous(site.port(), dice);
    let end = rendezvous(&mut peer_session(site), &order, &mut source, &path, &key);
    let _ = end.expect_ok();
}

/// Copies of the XRootD protocol that fail: the source is dead, cut off in the middle, or does not
/// have the file.
pub(crate) fn root_pull_in_vain(site: &Site, dice: &mut Dice) {
    let (key, whole) = (format!("key-{}", dice.next()), site.longest());
    let path = format!("/data/{}", whole.name);
    let (port, wanted) = match dice.below(3) {
        0 => (site.dead_port, path.clone()),
        1 => (site.cutting.port(), path.clone()),
        _ => (site.peer.port(), "/data/none".to_owned()),
    };
    let order = root_order(&site.target("open"), port, &wanted, whole.content.len(), &key);
    let mut destination = anonymous(site.port(), dice);
    let end = rendezvous(&mut destination, &order, &mut peer_session(site), &path, &key);
    assert_eq!(end.status, status::ERROR, "{}", end.words());
}

/// A client that goes away in the middle of a copy of the XRootD protocol.
pub(crate) fn root_left(site: &Site, dice: &mut Dice) {
    let key = format!("key-{}", dice.next());
    let path = format!("/data/{LARGE}");
    let order = root_order(&site.target("open"), site.slow.port(), &path, LARGE_BYTES, &key);
    let mut destination = anonymous(site.port(), dice);
    let mut source = peer_session(site);
    let handle = destination.open(&order, UPLOAD);
    let sync = parameters(&[&handle]);
    let _ = destination.ask(1, opcode::SYNC, &sync, &[]).expect_ok();
    let registering = format!("{path}?tpc.dst=localhost&tpc.key={key}&tpc.stage=copy");
    let _ = source.open(&registering, open_option::READ);
    let promise = destination.ask(1, opcode::SYNC, &sync, &[]);
    assert_eq!(promise.status, status::LATER, "{}", promise.words());
    // Some of it moves first.
    let passed = || site.slow.passed_bytes(Direction::ToClient);
    let before = passed();
    until("some of it has moved", SOON, || passed() > before);
}
