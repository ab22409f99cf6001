//! Copies whose destination is XRootD itself, which lets one writer in at a time.

use remote::{CopyOrder, Direction, PutOptions};
use testkit::{
    AddressFamilies, Authority, Result, Scratch, Xrootd, XrootdAccess, XrootdOptions, XrootdVersion, available,
};
use xroot_wire::{ErrorNumber, Opcode};

use crate::copying::opened;
use crate::script::{Server, client, pattern, resource, send};

fn xrootd(version: XrootdVersion, scratch: &Scratch) -> Result<Xrootd> {
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
        more: String::new(),
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
        let Some(to) = available(test, xrootd(version, &scratch)) else {
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
