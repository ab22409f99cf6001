//! Many names that are asked about together.

use remote::limits::ROOT_STATS_MAX;
use types::ErrorCode;
use xroot_wire::{ErrorNumber, Opcode, respond};

use crate::script::{Server, client, resource, stat};

/// What a server says of a file whose size is the number in its name.
fn answer_of(path: &str) -> Vec<u8> {
    let mut text = Vec::new();
    let size_bytes = path.trim_start_matches("/f").parse().unwrap();
    stat(size_bytes).write(&mut text);
    text.push(0);
    text
}

#[tokio::test]
async fn questions_are_under_way_together_and_answers_may_come_in_any_order() {
    // It answers only when nothing more comes without an answer, and then backwards.
    let server = Server::welcoming(|_, mut peer| async move {
        let mut left: usize = 200;
        let mut waiting = Vec::new();
        while let Some(heard) = peer.request().await {
            left -= 1;
            waiting.push(heard);
            if waiting.len() == ROOT_STATS_MAX / 2 || left == 0 {
                for heard in waiting.drain(..).rev() {
                    peer.ok(heard.id(), &answer_of(&heard.text())).await;
                }
            }
        }
    })
    .await;
    let files: Vec<_> = (0..200).map(|index| server.file(&format!("/f{index}"))).collect();
    let entries = client().stat_many(&files).await.unwrap();
    let sizes: Vec<u64> = entries.iter().filter_map(|entry| entry.size_bytes).collect();
    assert_eq!(sizes, (0..200).collect::<Vec<u64>>());
    assert_eq!(entries[7].path, "/f7");
    assert!(client().stat_many(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_refusal_names_its_file() {
    let server = Server::welcoming(|_, mut peer| async move {
        while let Some(heard) = peer.request().await {
            match heard.text().as_str() {
                "/f2" => peer.refuse(heard.id(), ErrorNumber::NOT_FOUND, "no such file").await,
                path => peer.ok(heard.id(), &answer_of(path)).await,
            }
        }
    })
    .await;
    let files: Vec<_> = (0..4).map(|index| server.file(&format!("/f{index}"))).collect();
    let error = client().stat_many(&files).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerNotFound);
    assert!(error.public().contains("/f2"), "{error}");
}

#[tokio::test]
async fn what_is_put_off_is_asked_again_by_itself() {
    let server = Server::welcoming(|_, mut peer| async move {
        let mut asked = 0;
        while let Some(heard) = peer.request().await {
            asked += 1;
            match asked {
                2 => peer.put(|out| respond::wait(out, heard.id(), 0, "busy")).await,
                _ => peer.ok(heard.id(), &answer_of(&heard.text())).await,
            }
        }
    })
    .await;
    let files: Vec<_> = (0..3).map(|index| server.file(&format!("/f{index}"))).collect();
    let entries = client().stat_many(&files).await.unwrap();
    assert_eq!(entries[1].size_bytes, Some(1));
    assert_eq!(server.heard_of(Opcode::Stat).len(), 4);
}

#[tokio::test]
async fn names_of_several_servers_and_of_http_are_refused() {
    let here = resource("root://127.0.0.1:1//f");
    let there = resource("root://127.0.0.1:2//f");
    let error = client().stat_many(&[here, there]).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::BadUrl);
    let web = resource("http://127.0.0.1:1/f");
    let error = client().stat_many(&[web]).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PeerUnsupported);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_no_failure() {
    // Each session bears one answer.
    let server = Server::welcoming(|_, mut peer| async move {
        if let Some(heard) = peer.request().await {
            peer.ok(heard.id(), &answer_of(&heard.text())).await;
        }
        // The next question is read, so that it is not known to be lost before it is sent, and
        // never answered.
        let _ = peer.request().await;
    })
    .await;
    let (client, file) = (client(), server.file("/f5"));
    for _ in 0..2 {
        let entries = client.stat_many(std::slice::from_ref(&file)).await.unwrap();
        assert_eq!(entries[0].size_bytes, Some(5));
    }
    assert_eq!(server.heard_of(Opcode::Stat).len(), 3);
}
