//! Many ranges in one request, against peers that answer as they please.

use crate::script::{Server, client};
use types::limits::VECTOR_READ_BYTES_MAX;
use types::{ByteRange, ErrorCode};

const FILE: &str = "abcdefghijklmnopqrstuvwxyz";
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 26\r\nETag: \"v1\"\r\n\r\n";

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end)
}

/// A server that tells the file's size, and answers requests for ranges with this status, headers
/// and body.
async fn server(status: &'static str, headers: &'static str, body: String) -> Server {
    Server::start(move |_, mut peer| {
        let body = body.clone();
        async move {
            loop {
                let asked = peer.head().await;
                match asked.split(' ').next() {
                    Some("HEAD") => peer.say(HEAD).await,
                    Some("GET") => peer.answer(status, headers, &body).await,
                    _ => return,
                }
            }
        }
    })
    .await
}

/// A part of a multipart answer.
fn part(start: usize, end: usize) -> String {
    let last = end - 1;
    format!(
        "\r\n--xx\r\nContent-Type: text/plain\r\nContent-Range: bytes {start}-{last}/26\r\n\r\n{}",
        &FILE[start..end]
    )
}

async fn read(server: &Server, ranges: &[ByteRange]) -> Result<Vec<String>, ErrorCode> {
    let mut opened = client().open_ranges(&server.file("/f")).await.unwrap();
    assert_eq!(opened.facts().size_bytes, Some(26));
    let content = opened.read(ranges).await.map_err(|error| error.code())?;
    Ok(content
        .into_iter()
        .map(|bytes| String::from_utf8(bytes).unwrap())
        .collect())
}

const MULTIPART: &str = "Content-Type: multipart/byteranges; boundary=xx\r\n";

#[tokio::test]
async fn one_request_brings_many_ranges_in_any_layout() {
    let ranges = [range(3, 5), range(0, 1), range(7, 7), range(20, 26)];
    let expected = ["de", "a", "", "uvwxyz"].map(str::to_owned);
    let in_order = format!("{}{}{}\r\n--xx--\r\n", part(3, 5), part(0, 1), part(20, 26));
    let joined = format!("{}{}\r\n--xx--\r\n", part(20, 26), part(0, 6));
    for (status, headers, body) in [
        ("206 P", MULTIPART, in_order),
        ("206 P", MULTIPART, joined),
        ("206 P", "Content-Range: bytes 0-25/26\r\n", FILE.to_owned()),
    ] {
        let server = server(status, headers, body.clone()).await;
        assert_eq!(read(&server, &ranges).await.unwrap(), expected, "{body}");
        let heard = server.heard();
        assert_eq!(heard.len(), 2, "{heard:?}");
        assert!(
            heard[1].contains("Range: bytes=3-4,0-0,20-25\r\n") && heard[1].contains("If-Match: \"v1\"\r\n"),
            "{}",
            heard[1]
        );
    }
}

#[tokio::test]
async fn what_does_not_hold_the_ranges_is_refused() {
    let short = format!("{}\r\n--xx--\r\n", part(3, 5));
    let other = format!("{}{}\r\n--xx--\r\n", part(3, 5), part(8, 9));
    for (status, headers, body, expected) in [
        ("206 P", MULTIPART, short, ErrorCode::PeerSizeDiffers),
        ("206 P", MULTIPART, other, ErrorCode::PeerMisbehaved),
        ("206 P", "", "de".to_owned(), ErrorCode::PeerMisbehaved),
        ("200 OK", "", FILE.to_owned(), ErrorCode::PeerUnsupported),
        ("206 P", "ETag: \"v2\"\r\n", "de".to_owned(), ErrorCode::SourceChanged),
        ("412 P", "", String::new(), ErrorCode::SourceChanged),
        ("404 N", "", String::new(), ErrorCode::PeerNotFound),
        ("204 N", "", String::new(), ErrorCode::PeerMisbehaved),
    ] {
        let server = server(status, headers, body.clone()).await;
        let outcome = read(&server, &[range(3, 5), range(20, 22)]).await;
        assert_eq!(outcome, Err(expected), "{status} {headers} {body}");
    }
}

#[tokio::test]
async fn the_whole_file_does_where_nearly_all_of_it_was_asked_for() {
    let server = server("200 OK", "", FILE.to_owned()).await;
    let content = read(&server, &[range(0, 13), range(10, 26)]).await.unwrap();
    assert_eq!(content, [&FILE[..13], &FILE[10..]]);
}

#[tokio::test]
async fn too_much_together_is_not_asked_for() {
    let server = server("206 P", MULTIPART, String::new()).await;
    let half = VECTOR_READ_BYTES_MAX / 2;
    let ranges = [range(0, half), range(0, half), range(0, 1)];
    assert_eq!(read(&server, &ranges).await, Err(ErrorCode::BadRequest));
    assert_eq!(read(&server, &[range(5, 5)]).await.unwrap(), [""]);
    assert_eq!(server.heard().len(), 2, "only HEAD was asked");
}
