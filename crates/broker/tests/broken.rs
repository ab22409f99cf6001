//! Brokers that answer with something else than STOMP, or not with what we wait for.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use broker::{Broker, Message, Session};
use net::tls::{ClientTls, Trust};
use types::ErrorCode;

/// A broker that writes these answers, one for each time that something has come, and leaves.
fn answering(answers: Vec<&'static [u8]>) -> Broker {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for answer in answers {
            let mut frame = [0; 4096];
            let _ = stream.read(&mut frame);
            let _ = stream.write_all(answer);
        }
    });
    Broker::parse(&format!("stomp://127.0.0.1:{port}")).unwrap()
}

#[tokio::test]
async fn garbage_opens_no_session() {
    let tls = ClientTls::load(&Trust::default()).unwrap().0;
    let all: [&'static [u8]; 3] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\0",
        b"CONNECTED\nversion:9\n\n\0",
    ];
    for garbage in all {
        let broker = answering(vec![garbage]);
        let error = Session::open(&broker, None, &tls).await.unwrap_err();
        let codes = [ErrorCode::PeerFailed, ErrorCode::PeerClosed];
        assert!(codes.contains(&error.code()), "{garbage:?}: {error}");
    }
}

const MESSAGE: Message<'static> = Message {
    destination: "/topic/t",
    body: "{}",
    is_persistent: true,
    headers: &[],
};

#[tokio::test]
async fn confirmations_of_something_else_confirm_nothing() {
    let tls = ClientTls::load(&Trust::default()).unwrap().0;
    let broker = answering(vec![
        b"CONNECTED\nversion:1.2\n\n\0",
        b"RECEIPT\nreceipt-id:77\n\n\0RECEIPT\nreceipt-id:x\n\n\0",
    ]);
    let mut session = Session::open(&broker, None, &tls).await.unwrap();
    let mut sent = session.send(&[MESSAGE]).await;
    session.confirmed(&mut sent).await.unwrap_err();
    assert!(!sent.is_empty());
}

#[tokio::test]
async fn what_a_broker_confirms_before_it_leaves_is_confirmed() {
    let tls = ClientTls::load(&Trust::default()).unwrap().0;
    let first: &'static [u8] = b"RECEIPT\nreceipt-id:1\n\n\0";
    let (second, refusal) = (b"RECEIPT\nreceipt-id:2\n\n\0", b"ERROR\nmessage:no room\n\n\0");
    for (last, code) in [(&b""[..], ErrorCode::PeerClosed), (&refusal[..], ErrorCode::PeerFailed)] {
        let both: &'static [u8] = [&second[..], last].concat().leak();
        let broker = answering(vec![b"CONNECTED\nversion:1.2\n\n\0", first, both]);
        let mut session = Session::open(&broker, None, &tls).await.unwrap();
        let mut sent = session.send(&[MESSAGE; 4]).await;
        assert_eq!(sent.len(), 1, "carefully");
        assert_eq!(session.confirmed(&mut sent).await.unwrap(), 1);
        let mut sent = session.send(&[MESSAGE; 3]).await;
        assert_eq!(sent.len(), 2, "more at once");
        assert_eq!(session.confirmed(&mut sent).await.unwrap(), 1);
        let error = session.confirmed(&mut sent).await.unwrap_err();
        assert_eq!(sent.len(), 1);
        assert_eq!(error.code(), code, "{error}");
    }
}
