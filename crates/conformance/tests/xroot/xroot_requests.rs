//! Requests of the XRootD protocol that no proper client makes: unknown ones, ones that are cut
//! short or lie about their length, reads past the end, pages with wrong checksums. Every one has a
//! clear answer or a closed connection, nothing is left behind, and the server serves the next
//! client.

use std::sync::{Arc, Weak};
use std::time::Duration;

use conformance::{
    GREETING, RootSocket, Site, Slot, alone, assert_root_alive, bytes, crc32c, opcode, open_option, parameters, parts,
    request_bytes, shared, status, until, visible,
};
use testkit::{Result, available};

/// How soon a server must have cleaned up.
const SOON: Duration = Duration::from_secs(15);
/// Make a file, replace what there is, and make the directories that lead to it.
const UPLOAD: u16 = open_option::DELETE | open_option::UPDATE | open_option::MAKE_PATH;

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site() -> Result<Arc<Site>> {
    shared(&SITE, || Site::with_xrootd("xroot-faults", "xrdcp"))
}

/// A request, what is wrong with it, and the number of its answer.
type Refusal = (&'static str, u16, [u8; 16], Vec<u8>, u32);

/// Requests whose answer is one number, on a session with `/data/alive` open for reading under the
/// handle that is given to the second part.
fn refusals(handle: [u8; 4]) -> Vec<Refusal> {
    let none = parameters(&[]);
    let other: [u8; 4] = [handle[0] ^ 0x55, 7, 7, 7];
    let at = |handle: [u8; 4], offset: i64, length: i32| {
        parameters(&[&handle, &offset.to_be_bytes(), &length.to_be_bytes()])
    };
    let piece = |length: i32, offset: i64| [&handle[..], &length.to_be_bytes(), &offset.to_be_bytes()].concat();
    vec![
        ("an unknown request", 3999, none, b"/data/alive".to_vec(), 3006),
        ("an unknown request without payload", 3999, none, vec![], 3001),
        ("no path", opcode::REMOVE, none, vec![], 3001),
        (
            "a path that is not absolute",
            opcode::STAT,
            none,
            b"data/alive".to_vec(),
            3010,
        ),
        (
            "a path that climbs",
            opcode::STAT,
            none,
            b"/data/../../etc/passwd".to_vec(),
            3010,
        ),
        (
            "an unknown question",
            opcode::QUERY,
            parameters(&[&99_u16.to_be_bytes()]),
            b"x".to_vec(),
            3000,
        ),
        ("a handle of nobody, read", opcode::READ, at(other, 0, 10), vec![], 3004),
        (
            "a handle of nobody, closed",
            opcode::CLOSE,
            parameters(&[&other]),
            vec![],
            3004,
        ),
        (
            "a handle of nobody, synchronised",
            opcode::SYNC,
            parameters(&[&other]),
            vec![],
            3004,
        ),
        (
            "a handle of nobody, written",
            opcode::WRITE,
            at(other, 0, 0),
            b"data".to_vec(),
            3004,
        ),
        ("a negative length", opcode::READ, at(handle, 0, -5), vec![], 3000),
        ("no length of pages", opcode::READ_PAGES, at(handle, 0, 0), vec![], 3000),
        (
            "a write to what is read",
            opcode::WRITE,
            at(handle, 0, 0),
            b"data".to_vec(),
            3004,
        ),
        (
            "pieces that are cut short",
            opcode::READ_VECTOR,
            none,
            piece(1, 0)[..15].to_vec(),
            3000,
        ),
        (
            "a piece of negative length",
            opcode::READ_VECTOR,
            none,
            piece(-1, 0),
            3000,
        ),
        (
            "too many pieces",
            opcode::READ_VECTOR,
            none,
            piece(1, 0).repeat(1025),
            3002,
        ),
        ("a session of nobody", opcode::BIND, [0xEE; 16], b"x".to_vec(), 3006),
        ("a second login", opcode::LOGIN, none, b"xrd.cc=us".to_vec(), 3006),
    ]
}

#[test]
fn wrong_requests_have_the_customary_numbers() {
    let Some(site) = available("wrong_requests_have_the_customary_numbers", site()) else {
        return;
    };
    site.compare(|_, server| {
        server.put("alive", b"content");
        let mut client = RootSocket::session(server.root_port());
        let handle = client.open("/data/alive", open_option::READ);
        for (what, opcode, parameters, payload, expected) in refusals(handle) {
            let answer = client.ask(9, opcode, &parameters, &payload);
            assert_eq!(
                (answer.stream, answer.error()),
                (9, expected),
                "{what}: {}",
                answer.words()
            );
            answer.expect_error(expected);
        }
        // None of them has disturbed the session.
        assert_eq!(client.read(handle, 0, 100).expect_ok(), b"content");
        assert_root_alive(server.root_port());
    });
}

#[test]
fn reads_past_the_end_bring_what_there_is() {
    let Some(site) = available("reads_past_the_end_bring_what_there_is", site()) else {
        return;
    };
    site.compare(|_, server| {
        server.put("alive", b"content");
        let mut client = RootSocket::session(server.root_port());
        let handle = client.open("/data/alive", open_option::READ);
        for (offset, length, expected) in [
            (0, i32::MAX, &b"content"[..]),
            (3, 100, b"tent"),
            (7, 1, b""),
            (1 << 40, 1 << 20, b""),
            (0, 0, b""),
        ] {
            assert_eq!(
                client.read(handle, offset, length).expect_ok(),
                expected,
                "{offset} {length}"
            );
        }
        let pages = parameters(&[&handle, &3_i64.to_be_bytes(), &100_i32.to_be_bytes()]);
        let answer = client.ask(1, opcode::READ_PAGES, &pages, &[]);
        assert_eq!(answer.status, status::PAGES, "{}", answer.words());
        assert_eq!(answer.number(24), crc32c(b"tent"));
        assert_eq!(&answer.body[28..], b"tent");
        // A piece must be whole. Number 3005 is that of XRootD 5, 3027 that of 6.
        let piece = [&handle[..], &10_i32.to_be_bytes(), &3_i64.to_be_bytes()].concat();
        let answer = client.ask(1, opcode::READ_VECTOR, &[0; 16], &piece);
        assert!([3005, 3027].contains(&answer.error()), "{}", answer.words());
        assert_eq!(client.read(handle, 0, 100).expect_ok(), b"content");
    });
}

#[test]
fn what_comes_before_the_login_ends_the_connection() {
    let Some(site) = available("what_comes_before_the_login_ends_the_connection", site()) else {
        return;
    };
    site.compare(|_, server| {
        server.put("alive", b"content");
        let mut early = RootSocket::greeted(server.root_port());
        early.send(3, opcode::STAT, &[0; 16], b"/data/alive");
        let answers = early.until_closed();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers[0].expect_error(3006);
        // A length below zero leaves no way to find the next request.
        let mut negative = RootSocket::session(server.root_port());
        negative.say(&request_bytes(4, opcode::STAT, &[0; 16], -1, b""));
        let answers = negative.until_closed();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers[0].expect_error(3000);
        assert_root_alive(server.root_port());
    });
}

#[test]
fn lengths_that_lie_end_the_connection() {
    let test = "lengths_that_lie_end_the_connection";
    let Some((_lab, server)) = alone(test, |_| {}) else {
        return;
    };
    let port = server.port();
    let huge = request_bytes(1, opcode::STAT, &[0; 16], i32::MAX, b"/data/alive");
    let many_attributes = [&b"/data/alive\0"[..], &[0, 0, b'a', 0, 0x7f, 0xff, 0xff, 0xff]].concat();
    let beyond = request_bytes(
        1,
        opcode::MOVE,
        &parameters(&[&[0; 14], &9999_u16.to_be_bytes()]),
        4,
        b"/a b",
    );
    let set = parameters(&[&[0; 4], &[3, 1]]);
    let length = i32::try_from(many_attributes.len()).expect("short");
    for (what, request) in [
        ("a path of 2 GiB", huge),
        (
            "a value of 2 GiB",
            request_bytes(1, opcode::ATTRIBUTES, &set, length, &many_attributes),
        ),
        ("a name that ends behind the request", beyond),
    ] {
        let mut client = RootSocket::session(port);
        client.say(&request);
        let answer = client.frame().unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!(answer.status, status::ERROR, "{what}: {}", answer.words());
        drop(client);
        assert_root_alive(port);
    }
    // A list of pieces to write that is no list: how much data follows cannot be known.
    let mut client = RootSocket::session(port);
    let handle = client.open("/data/vector", UPLOAD);
    client.send(1, opcode::WRITE_VECTOR, &[0; 16], &[handle[0]; 15]);
    assert_eq!(client.until_closed().len(), 1);
    // Pages that are cut short.
    let mut client = RootSocket::session(port);
    let handle = client.open("/data/pages", UPLOAD);
    client.send(1, opcode::WRITE_PAGES, &parameters(&[&handle]), &[1, 2, 3]);
    let answers = client.until_closed();
    assert!(
        answers.first().is_some_and(|answer| answer.error() == 3000),
        "{answers:?}"
    );
    assert_root_alive(port);
    until("nothing is left", SOON, || parts(server.data()).is_empty());
    assert_eq!(visible(server.data()), ["alive"]);
}

#[test]
fn requests_cut_short_leave_nothing() {
    let test = "requests_cut_short_leave_nothing";
    let Some((_lab, server)) = alone(test, |_| {}) else {
        return;
    };
    let port = server.port();
    let stat = request_bytes(1, opcode::STAT, &[0; 16], 11, b"/data/alive");
    let whole = [
        &GREETING[..],
        &request_bytes(0, opcode::PROTOCOL, &parameters(&[&[0, 0, 5, 0x11]]), 0, b""),
    ]
    .concat();
    for cut in [1, 3, 4, 19, 20, 21, 43] {
        let mut client = RootSocket::connect(port);
        client.say(&whole[..cut]);
        drop(client);
    }
    for cut in [1, 23, 24, 30] {
        let mut client = RootSocket::session(port);
        client.say(&stat[..cut]);
        drop(client);
    }
    let mut client = RootSocket::session(port);
    let handle = client.open("/data/cut", UPLOAD);
    let write = parameters(&[&handle]);
    client.say(&request_bytes(1, opcode::WRITE, &write, 1_000_000, &[7; 1000]));
    until("a part is there", SOON, || !parts(server.data()).is_empty());
    drop(client);
    until("the part is gone", SOON, || parts(server.data()).is_empty());
    // What begins like nothing that is spoken here.
    let mut client = RootSocket::connect(port);
    client.say(&[[0; 4], [1; 4], [2; 4], [3; 4], [4; 4]].concat());
    assert!(client.until_closed().is_empty());
    assert_root_alive(port);
    assert_eq!(visible(server.data()), ["alive"]);
}

#[test]
fn a_stream_number_used_twice_has_two_answers() {
    let Some(site) = available("a_stream_number_used_twice_has_two_answers", site()) else {
        return;
    };
    site.compare(|_, server| {
        server.put("alive", b"content");
        let mut client = RootSocket::session(server.root_port());
        let one = request_bytes(5, opcode::STAT, &[0; 16], 11, b"/data/alive");
        let two = request_bytes(5, opcode::STAT, &[0; 16], 10, b"/data/none");
        client.say(&[one.clone(), two, one].concat());
        let mut answers: Vec<_> = (0..3).map(|_| client.frame().expect("an answer")).collect();
        assert!(answers.iter().all(|answer| answer.stream == 5), "{answers:?}");
        answers.sort_by_key(|answer| answer.status);
        assert_eq!(answers[0].body, answers[1].body);
        answers[2].expect_error(3011);
    });
}

#[test]
fn pages_with_wrong_checksums_are_told_and_can_be_mended() {
    let Some(site) = available("pages_with_wrong_checksums_are_told_and_can_be_mended", site()) else {
        return;
    };
    site.compare(|_, server| {
        server.make_directory("pages");
        let content = bytes(12_000, 255);
        let unit = |data: &[u8], wrong: u32| [&(crc32c(data) ^ wrong).to_be_bytes()[..], data].concat();
        let pages = |wrong: u32| {
            let units = [
                unit(&content[..4096], 0),
                unit(&content[4096..8192], wrong),
                unit(&content[8192..], 0),
            ];
            units.concat()
        };
        for mended in [true, false] {
            let name = format!("pages/{mended}");
            let mut client = RootSocket::session(server.root_port());
            let handle = client.open(&format!("/data/{name}"), UPLOAD);
            let told = client.ask(1, opcode::WRITE_PAGES, &parameters(&[&handle]), &pages(1));
            assert_eq!(told.status, status::PAGES, "{}", told.words());
            // The list of wrong pages: its own checksum, the lengths of the first and the last,
            // their offsets.
            assert_eq!(told.body.len(), 24 + 16, "{}", told.words());
            assert_eq!(told.body[32..40], 4096_i64.to_be_bytes());
            if mended {
                let again = parameters(&[&handle, &4096_i64.to_be_bytes(), &[0, 1]]);
                let told = client.ask(1, opcode::WRITE_PAGES, &again, &unit(&content[4096..8192], 0));
                assert_eq!((told.status, told.body.len()), (status::PAGES, 24), "{}", told.words());
                let _ = client.close(handle).expect_ok();
                assert!(server.stored(&name).as_ref() == Some(&content));
            } else {
                client.close(handle).expect_error(3019);
                client.close(handle).expect_error(3004);
                // XRootD keeps the file with what was written; ours takes no file that may be
                // wrong.
                assert_eq!(server.stored(&name).is_some(), !server.is_ours());
            }
        }
    });
}
