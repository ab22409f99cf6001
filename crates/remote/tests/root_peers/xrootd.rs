//! Copies whose destination is XRootD itself, which lets one writer in at a time.

use std::time::Duration;

use remote::{CopyOrder, Direction, PutOptions, Resource};
use testkit::{
    AddressFamilies, Authority, Direction as Towards, Fault, Relay, Result, Scratch, Xrootd, XrootdAccess,
    XrootdOptions, XrootdVersion, available,
};
use tokio::time::sleep;
use types::ErrorCode;
use xroot_wire::{ErrorNumber, Opcode};

use crate::copying::opened;
use crate::script::{Server, client, pattern, resource, send};

fn xrootd(version: XrootdVersion, scratch: &Scratch, more: &str) -> Result<Xrootd> {
    let authority = Authority::new(scratch.path())?;
    let directory = scratch.path().join("own");
    Xrootd::start(&XrootdOptions {
        version,
        name: "writer".to_owned(),
        data: directory.join("files/data"),
        directory,
        certificate: authority.issue_localhost()?,
        trust_directory: authority.trust_directory(),
        access: XrootdAccess::Open,
        families: AddressFamilies::V4,
        more: more.to_owned(),
    })
}

/// A source that allows so many of the opens of a copy, and refuses the next.
async fn refusing_after(opens: usize) -> Server {
    Server::welcoming(move |_, mut peer| async move {
        while let Some(heard) = peer.request().await {
            let text = heard.text();
            let number = match heard.opcode() {
                // The order in which a client and its destination come.
                Opcode::Open if text.contains("tpc.org") => 3,
                Opcode::Open if text.contains("tpc.key") => 2,
                Opcode::Open => 1,
                _ => 0,
            };
            match number {
                0 => peer.ok(heard.id(), &[]).await,
                number if number <= opens => opened(&mut peer, &heard, 5000).await,
                _ => peer.refuse(heard.id(), ErrorNumber::NOT_AUTHORIZED, "no").await,
            }
        }
    })
    .await
}

#[tokio::test]
async fn after_a_failed_copy_the_file_can_be_written_at_once() {
    for version in XrootdVersion::ALL {
        let scratch = Scratch::new("one-writer").unwrap();
        let test = "after_a_failed_copy_the_file_can_be_written_at_once";
        let Some(to) = available(test, xrootd(version, &scratch, "")) else {
            continue;
        };
        // The source refuses to register the key, or to serve the destination.
        for opens in [1, 2] {
            let from = refusing_after(opens).await;
            let client = client();
            let target = resource(&to.root_url(&format!("/data/refused-{opens}")));
            let source = from.file("/data/f");
            let order = CopyOrder::new(source.location.clone(), Direction::Pull, source.access.clone());
            let failed = match client.copy(&target, &order).await {
                Err(error) => error,
                Ok(mut copying) => loop {
                    match copying.next().await {
                        Ok(news) => assert!(news.is_some(), "{version:?}: it cannot succeed"),
                        Err(error) => break error,
                    }
                },
            };
            // The destination may come to the source before the client has registered the key.
            assert!(from.heard_of(Opcode::Open).len() > opens, "{failed}");
            let content = pattern(100_000);
            let options = PutOptions {
                size_bytes: Some(content.len() as u64),
                overwrite: true,
                ..PutOptions::default()
            };
            let mut outlet = client.put(&target, &options).await.unwrap();
            send(&mut outlet, &content).await.unwrap();
            outlet.finish().await.unwrap();
            let stored = std::fs::read(to.data().join(format!("refused-{opens}"))).unwrap();
            assert!(stored == content, "{version:?} {opens}");
        }
    }
}

/// Stores the first half of a new file in a session that breaks off.
fn break_off(file: Resource, options: PutOptions) {
    let broken = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let outlet = runtime.block_on(async {
            let mut outlet = client().put(&file, &options).await.unwrap();
            send(&mut outlet, &pattern(500)).await.unwrap();
            outlet
        });
        // Without it the connection is only closed.
        drop(runtime);
        drop(outlet);
    });
    broken.join().unwrap();
}

#[tokio::test]
async fn a_file_stays_that_is_stored_after_one_that_was_given_up() {
    for version in XrootdVersion::ALL {
        let scratch = Scratch::new("given-up").unwrap();
        let test = "a_file_stays_that_is_stored_after_one_that_was_given_up";
        let Some(to) = available(test, xrootd(version, &scratch, "ofs.persist auto hold 2\n")) else {
            continue;
        };
        let options = PutOptions {
            size_bytes: Some(1000),
            ..PutOptions::default()
        };
        let client = client();
        let relay = Relay::start(([127, 0, 0, 1], to.root_port()).into()).unwrap();
        let stalled = format!("root://localhost:{}//data/stalled", relay.port());
        let files = ["given-up", "broken"].map(|name| to.root_url(&format!("/data/{name}")));
        let files = [&files[0], &files[1], &stalled].map(|url| resource(url));
        // The server does not notice that this writer is gone.
        let mut outlet = client.put(&files[2], &options).await.unwrap();
        relay.set_fault(Fault::StallAfter(Towards::ToTarget, 0), 1);
        send(&mut outlet, &pattern(500)).await.unwrap();
        while relay.struck() == 0 {
            sleep(Duration::from_millis(5)).await;
        }
        drop(outlet);
        let mut outlet = client.put(&files[0], &options).await.unwrap();
        send(&mut outlet, &pattern(500)).await.unwrap();
        drop(outlet);
        break_off(files[1].clone(), options.clone());
        for (index, file) in files.iter().enumerate() {
            let is_gone = async || {
                if index > 0 {
                    let _ = client.delete_version(file, None).await;
                }
                let found = client.head(file, &[]).await;
                found.is_err_and(|error| error.code() == ErrorCode::PeerNotFound)
            };
            while !is_gone().await {
                sleep(Duration::from_millis(50)).await;
            }
            // The server may still close the first one.
            let mut outlet = loop {
                match client.put(file, &options).await {
                    Ok(outlet) => break outlet,
                    Err(error) if error.to_string().contains("already opened") => {}
                    Err(error) => panic!("{error}"),
                }
                sleep(Duration::from_millis(50)).await;
            };
            send(&mut outlet, &pattern(1000)).await.unwrap();
            outlet.finish().await.unwrap();
        }
        // It removed them when the time of the first ones was over.
        sleep(Duration::from_secs(6)).await;
        for file in &files {
            let found = client.head(file, &[]).await.unwrap();
            assert_eq!(found.size_bytes, Some(1000), "{version:?}");
        }
    }
}
