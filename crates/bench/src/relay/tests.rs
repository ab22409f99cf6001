//! The line is as long as it is said to be, and not narrower than that makes it. What it must not
//! undercut is exact; what it may take longer is generous, because tests run on busy machines.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::*;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A server that hands each connection to `serve`.
async fn server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> (SocketAddr, JoinHandle<()>)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind(ANY).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream));
        }
    });
    (address, serving)
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let (mut from, mut to) = stream.split();
    tokio::io::copy(&mut from, &mut to).await?;
    to.shutdown().await
}

/// Sends as many bytes as the first eight say.
async fn source(mut stream: TcpStream) -> io::Result<()> {
    let mut left = stream.read_u64().await?;
    let block = vec![7; 1 << 20];
    while left > 0 {
        let step = left.min(block.len() as u64);
        stream.write_all(&block[..step as usize]).await?;
        left -= step;
    }
    Ok(())
}

async fn fetch(from: SocketAddr, bytes: u64) -> Duration {
    let mut stream = TcpStream::connect(from).await.unwrap();
    let began = Instant::now();
    stream.write_u64(bytes).await.unwrap();
    let mut came = 0;
    let mut room = vec![0; 1 << 20];
    loop {
        match stream.read(&mut room).await.unwrap() {
            0 => break,
            count => came += count as u64,
        }
    }
    assert_eq!(came, bytes);
    began.elapsed()
}

#[tokio::test]
async fn a_question_takes_a_round_trip_and_the_first_one_two() {
    let (to, _server) = server(echo).await;
    let rtt = Duration::from_millis(40);
    let relay = Relay::start(ANY, to, rtt).unwrap();
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut best = Duration::MAX;
    for question in 0..5u8 {
        let began = Instant::now();
        stream.write_u8(question).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), question);
        let took = began.elapsed();
        let least = if question == 0 { 2 * rtt } else { rtt };
        assert!(took >= least, "{took:?} is too short for question {question}");
        if question > 0 {
            best = best.min(took);
        }
    }
    assert!(best < 2 * rtt, "the line is longer than it should be: {best:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_window_goes_in_each_round_trip() {
    let (to, _server) = server(source).await;
    let (rtt, window) = (Duration::from_millis(100), 1 << 20);
    let relay = Relay::start_with_window(ANY, to, rtt, Some(window)).unwrap();
    let trips = 10;
    let took = fetch(relay.address(), trips * window).await;
    // The last window need not be acknowledged; the question and its way come on top.
    let least = rtt * (trips as u32 - 1);
    assert!(took >= least, "{took:?}: faster than the window allows");
    assert!(took < least * 3, "{took:?}: much slower than the window allows");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_window_the_relay_is_no_bottleneck() {
    let (to, _server) = server(source).await;
    let relay = Relay::start(ANY, to, Duration::from_millis(300)).unwrap();
    // On a line of 4 MiB windows it would take 9.6 seconds.
    let took = fetch(relay.address(), 128 << 20).await;
    assert!(took < Duration::from_millis(6400), "{took:?}");
}

#[tokio::test]
async fn one_direction_may_end_before_the_other() {
    let (to, _server) = server(|mut stream| async move {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await?;
        stream.write_u64(all.len() as u64).await
    })
    .await;
    let relay = Relay::start(ANY, to, Duration::from_millis(10)).unwrap();
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    stream.write_all(&[1; 100_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read_u64().await.unwrap(), 100_000);
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_connection_that_breaks_is_not_one_that_ends() {
    let gone = TcpListener::bind(ANY).await.unwrap().local_addr().unwrap();
    let relay = Relay::start(ANY, gone, Duration::from_millis(2)).unwrap();
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    let error = stream.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

    let (to, _server) = server(echo).await;
    let relay = Relay::start(ANY, to, Duration::from_millis(2)).unwrap();
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    stream.write_u8(1).await.unwrap();
    stream.read_u8().await.unwrap();
    let address = relay.address();
    drop(relay);
    assert!(stream.read_u8().await.is_err());
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_connections_share_the_line_without_lengthening_it() {
    let (to, _server) = server(source).await;
    let relay = Relay::start(ANY, to, Duration::from_millis(200)).unwrap();
    let began = Instant::now();
    let mut fetches = JoinSet::new();
    for _ in 0..300 {
        fetches.spawn(fetch(relay.address(), 100_000));
    }
    fetches.join_all().await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(400), "{took:?}");
    assert!(
        took < Duration::from_secs(5),
        "one after the other they take two minutes: {took:?}"
    );
}
