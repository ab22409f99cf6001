//! Reading: whole answers, parts, pages, vectors.

use xroot_wire::limits::{PART_BYTES, READV_ITEM_BYTES_MAX};
use xroot_wire::pages::units;
use xroot_wire::request::{PageRead, Read, ReadVector, Request, Stat, StatTarget, VectorItem};
use xroot_wire::response::{OpenReply, StatText, parse_vector_answer};
use xroot_wire::{ErrorNumber, OpenOptions, StatFlags};

use crate::harness::{Server, open};

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

#[tokio::test]
async fn an_open_tells_what_the_file_is() {
    let server = Server::open();
    server.put("/f", b"0123456789");
    let mut raw = server.client().await;
    let options = OpenOptions::READ | OpenOptions::RETURN_STAT | OpenOptions::ASYNCHRONOUS;
    let reply = OpenReply::parse(&raw.ask(&open("/data//f?tried=x", options)).await.ok()).unwrap();
    let stat = reply.stat.unwrap();
    assert_eq!(
        (stat.size_bytes, stat.flags),
        (10, StatFlags::READABLE | StatFlags::WRITABLE)
    );
    let by_handle = Request::Stat(Stat {
        options: 0,
        wants: 0,
        target: StatTarget::Handle(reply.handle),
    });
    let text = raw.ask(&by_handle).await.text();
    assert_eq!(StatText::parse(text.as_bytes()).unwrap(), stat);
}

#[tokio::test]
async fn a_file_that_a_redirected_client_misses_is_reported() {
    let mut missing = None;
    let server = Server::start(|settings| {
        let exports = settings.site.exports.current();
        missing = Some(exports.name_changes().subscribe_missing());
    });
    let mut missing = missing.unwrap();
    let mut raw = server.client().await;
    for name in ["/data/f", "/data/g?crossload.redirect=a1"] {
        let refused = raw.ask(&open(name, OpenOptions::READ)).await;
        assert_eq!(refused.error(), ErrorNumber::NOT_FOUND);
    }
    assert_eq!(missing.try_recv().unwrap().as_str(), "/data/g");
    assert!(missing.try_recv().is_err());
}

#[tokio::test]
async fn a_long_read_comes_in_parts_that_are_the_whole() {
    let server = Server::open();
    let content = pattern(40_000_003);
    server.put("/f", &content);
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f", OpenOptions::READ).await;
    let read = Read {
        handle,
        offset: 3,
        length: 64 << 20,
        path: Some(0),
    };
    raw.say(1, &Request::Read(read)).await;
    let (mut got, mut parts) = (Vec::new(), 0);
    loop {
        let answer = raw.answer().await;
        got.extend_from_slice(&answer.body);
        parts += 1;
        if answer.status == 0 {
            break;
        }
        assert_eq!(answer.status, 4000);
    }
    assert!(parts > 1 && got == content[3..]);
}

#[tokio::test]
async fn pages_have_their_checksums_wherever_they_begin() {
    let server = Server::open();
    let content = pattern(1_000_000);
    server.put("/f", &content);
    let mut raw = server.client().await;
    let handle = raw.opened("/data/f", OpenOptions::READ).await;
    for (offset, length) in [
        (0, 1_000_000),
        (4000, 200),
        (2048, 2048),
        (999_990, 500),
        (4095, 600_000),
    ] {
        let read = PageRead {
            handle,
            offset,
            length,
            path: None,
            flags: None,
        };
        raw.say(1, &Request::PageRead(read)).await;
        let mut at = offset;
        loop {
            let answer = raw.answer().await;
            assert_eq!(answer.status, 4007);
            let begins = u64::from_be_bytes(answer.body[16..24].try_into().unwrap());
            assert_eq!(begins, at);
            for unit in units(at, &answer.body[24..]) {
                assert!(unit.is_sound());
                let start = unit.offset as usize;
                assert_eq!(unit.data, &content[start..start + unit.data.len()]);
                at = unit.offset + unit.data.len() as u64;
            }
            if answer.body[7] == 0 {
                break;
            }
        }
        assert_eq!(at, (offset + u64::from(length)).min(1_000_000));
    }
    let behind = PageRead {
        handle,
        offset: 2_000_000,
        length: 10,
        path: None,
        flags: None,
    };
    let answer = raw.ask(&Request::PageRead(behind)).await;
    assert_eq!((answer.status, answer.body.len()), (4007, 24), "nothing behind the end");
}

#[tokio::test]
async fn a_vector_is_answered_in_order_and_divided_between_ranges() {
    let server = Server::open();
    let content = pattern(5_000_000);
    server.put("/f", &content);
    server.put("/g", b"other");
    let mut raw = server.client().await;
    let file = raw.opened("/data/f", OpenOptions::READ).await;
    let other = raw.opened("/data/g", OpenOptions::READ).await;
    let mut wanted = vec![(file, 4_000_000, 1000), (other, 1, 3), (file, 0, 0), (file, 7, 1)];
    wanted.push((file, 100, READV_ITEM_BYTES_MAX as u32));
    wanted.extend((0..900).map(|index| (file, index * 5000, 4096)));
    let list: Vec<u8> = wanted
        .iter()
        .flat_map(|(handle, offset, length)| {
            VectorItem {
                handle: *handle,
                length: *length,
                offset: *offset,
            }
            .encode()
        })
        .collect();
    raw.say(1, &Request::ReadVector(ReadVector::new(0, &list).unwrap()))
        .await;
    let mut got = Vec::new();
    loop {
        let answer = raw.answer().await;
        assert!(answer.body.len() <= PART_BYTES);
        for (item, data) in parse_vector_answer(&answer.body).unwrap() {
            got.push((item.handle, item.offset, data.to_vec()));
        }
        if answer.status == 0 {
            break;
        }
        assert_eq!(answer.status, 4000);
    }
    assert_eq!(got.len(), wanted.len());
    for ((handle, offset, length), (answered, at, data)) in wanted.into_iter().zip(got) {
        let source = if handle == file { &content[..] } else { b"other" };
        let start = offset as usize;
        assert_eq!((handle, offset), (answered, at));
        assert_eq!(data, &source[start..start + length as usize]);
    }
}
