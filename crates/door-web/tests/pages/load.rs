//! What many copies and many open pages cost. The figures are printed; the limits are those of a
//! busy machine and a program without optimisation.
#![allow(clippy::print_stdout, reason = "figures are printed")]

use std::fs;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{ask, begin, copies_of, event, open, pages};

/// Copies that run at the same time.
const COPIES: usize = 10_000;
/// The page's first byte, at the latest: the goal is 20 ms.
const FIRST_BYTE_MAX: Duration = Duration::from_secs(2);
/// Pages that are open at the same time.
const PAGES: usize = 200;
const IDLE_TIME: Duration = Duration::from_secs(3);
/// The share of a processor that open pages take, in percent: the goal is 1.
const IDLE_PERCENT_MAX: u128 = 20;

/// The median of an odd number of times.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::test]
async fn the_page_of_ten_thousand_copies_begins_soon() {
    let pages = pages(true, Vec::new());
    let copies = copies_of(&pages);
    let address = open(pages);
    let progress: Vec<_> = (0..COPIES)
        .map(|number| begin(&copies, &format!("t{number}"), &format!("/data/{number}")))
        .collect();
    let mut times = Vec::new();
    for _ in 0..5 {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let begun = Instant::now();
        let request = b"GET /now HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        socket.write_all(request).await.unwrap();
        assert_eq!(socket.read_u8().await.unwrap(), b'H');
        times.push(begun.elapsed());
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).await.unwrap();
    }
    let (_, body) = ask(address, "GET /now", "localhost", "Accept: application/json\r\n").await;
    let document: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(document["totals"]["running"], COPIES, "{}", document["totals"]);
    drop(progress);
    let taken = median(times);
    println!("first byte of Now with {COPIES} copies: {} µs", taken.as_micros());
    assert!(taken < FIRST_BYTE_MAX, "{taken:?}");
}

/// The processor time of this thread, which runs the door and its clients.
fn thread_time_ns() -> u128 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn open_pages_cost_little_while_nothing_happens() {
    let address = open(pages(true, Vec::new()));
    let mut open = Vec::new();
    for _ in 0..PAGES {
        let mut socket = BufReader::new(TcpStream::connect(address).await.unwrap());
        let request = b"GET /now/events?q=&sort=age HTTP/1.1\r\nHost: localhost\r\n\r\n";
        socket.write_all(request).await.unwrap();
        assert_eq!(event(&mut socket).await[0], "event: table");
        open.push(socket);
    }
    let before = thread_time_ns();
    tokio::time::sleep(IDLE_TIME).await;
    let taken_ns = thread_time_ns() - before;
    let permille = taken_ns * 1000 / IDLE_TIME.as_nanos();
    println!("{PAGES} open pages: {permille} ‰ of a processor");
    assert!(permille < IDLE_PERCENT_MAX * 10, "{permille} ‰");
}
