//! What a run made is removed at the end from all servers at the same time: none waits for another.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::ground::Target;
use bench::{Ground, RunProgress, Stop};
use net::address::AddressPolicy;
use net::tls::{ClientTls, Trust};
use remote::{Access, ClientOptions, Resource};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use types::{Location, Side};

const SERVERS: usize = 3;
const DEADLINE: Duration = Duration::from_secs(30);

/// What all servers heard, as `METHOD PATH`, in order.
type Heard = Arc<Mutex<Vec<String>>>;

/// A server that removes a directory only when all servers are asked to.
async fn server(barrier: Arc<Barrier>, heard: Heard) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, barrier.clone(), heard.clone()));
        }
    });
    address
}

async fn serve(stream: TcpStream, barrier: Arc<Barrier>, heard: Heard) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut first, mut line) = (String::new(), String::new());
        while stream.read_line(&mut line).await? > 2 {
            if first.is_empty() {
                first = line.trim_end_matches(" HTTP/1.1\r\n").to_owned();
            }
            line.clear();
        }
        if first.is_empty() {
            return Ok(());
        }
        if first.starts_with("DELETE") && first.ends_with('/') {
            barrier.wait().await;
        }
        heard.lock().unwrap().push(first);
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
}

fn options() -> ClientOptions {
    let trust = Trust {
        insecure: true,
        ..Trust::default()
    };
    ClientOptions {
        tls: ClientTls::load(&trust).unwrap().0,
        addresses: AddressPolicy::ANY,
        connect: DEADLINE,
        first_byte: DEADLINE,
        stall: DEADLINE,
        user_agent: "test".into(),
    }
}

#[tokio::test]
async fn servers_are_cleaned_up_at_the_same_time_and_it_is_told() {
    let (barrier, heard) = (Arc::new(Barrier::new(SERVERS)), Heard::default());
    let mut targets = Vec::new();
    for number in 0..SERVERS {
        let address = server(barrier.clone(), heard.clone()).await;
        targets.push(Target {
            name: format!("server {number}"),
            place: Resource {
                location: Location::parse(&format!("http://{address}/data")).unwrap(),
                access: Access::default(),
                side: Side::Destination,
            },
            file: None,
            processes: Vec::new(),
        });
    }
    let told: Heard = Heard::default();
    let notes = told.clone();
    let progress = RunProgress::new(move |event, _| notes.lock().unwrap().push(format!("{event:?}")));
    let ground = Ground::new(targets, options(), "mark", progress, Stop::default());
    for target in &ground.targets {
        let directory = ground.directory(target, "copies").await.unwrap();
        let _ = (ground.file(&directory, "a"), ground.file(&directory, "b"));
    }
    // One after the other would wait for ever: each server waits for all.
    let left = tokio::time::timeout(DEADLINE, ground.clean_up()).await;
    assert_eq!(left.expect("all at the same time"), Vec::<String>::new());

    let heard = heard.lock().unwrap();
    let removed = |end: &str| {
        heard
            .iter()
            .filter(|line| line.starts_with("DELETE") && line.ends_with(end))
            .count()
    };
    assert_eq!(
        [removed("/a"), removed("/b"), removed("-copies/")],
        [SERVERS; 3],
        "{heard:?}"
    );
    let first = heard
        .iter()
        .position(|line| line.starts_with("DELETE") && line.ends_with('/'));
    let last = heard
        .iter()
        .rposition(|line| line.ends_with("/a") || line.ends_with("/b"));
    assert!(last < first, "a directory goes behind its files: {heard:?}");
    let told = told.lock().unwrap();
    let removing = told
        .iter()
        .filter(|event| event.contains("removing http://") && event.contains("and 2 files in it"));
    assert_eq!(removing.count(), SERVERS, "{told:?}");
}
