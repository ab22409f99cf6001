//! Signed URLs at a scripted store that fails in the ways of real ones: the signature expires, the
//! object changes or the body ends in the middle, the store is overloaded, and redirects.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use conformance::{Lab, Reply, Scripted, Seen, Slot, bytes, last_line, shared};
use testkit::{Crossload, Result, available, require, secrets};

/// Longer than what the kernel takes at once, so that a broken body is one.
const SIZE: usize = 24 << 20;
/// The query of every URL here. It lasts until 2100, so that only the store's words tell its end.
const QUERY: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AK%2F20261127%2Fus-east-1%2Fs3%2Faws4_request\
                     &X-Amz-Date=20991231T000000Z&X-Amz-Expires=3600&X-Amz-SignedHeaders=host\
                     &X-Amz-Signature=5f5f00c0ffee5f5f00c0ffee5f5f00c0ffee5f5f00c0ffee5f5f00c0ffee5f5f";

struct Site {
    lab: Lab,
    server: Crossload,
}

static SITE: Slot<Site> = Slot::new(Weak::new());

fn site(test: &str) -> Option<Arc<Site>> {
    secrets::note("a signature", QUERY);
    let made: Result<Arc<Site>> = shared(&SITE, || {
        require("curl")?;
        let lab = Lab::new("presigned-faults")?;
        let server = lab.crossload(lab.options("server"))?;
        Ok(Site { lab, server })
    });
    available(test, made)
}

impl Site {
    /// Status and last line of a pull of this URL with the signature to `/data/NAME`.
    fn pull(&self, url: &str, name: &str) -> String {
        let target = self.server.url(&format!("/data/{name}"));
        let headers = ["Copy-Flags: NoHead", "X-Number-Of-Streams: 1"];
        let answer = self.lab.copy(&target, &format!("Source: {url}?{QUERY}"), &headers);
        format!("{} {}", answer.status, last_line(&answer))
    }

    fn stored(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.server.data().join(name)).ok()
    }
}

/// First byte and the byte behind the last one of the requested range; all of it without one.
fn range(seen: &Seen) -> (usize, usize) {
    let Some(text) = seen.header("Range") else {
        return (0, SIZE);
    };
    let text = text.strip_prefix("bytes=").expect("a range");
    let (first, last) = text.split_once('-').expect("two ends");
    (
        first.parse().expect("a number"),
        last.parse::<usize>().expect("a number") + 1,
    )
}

/// A head for the requested range of an object with this tag, and as much of its body.
fn part(seen: &Seen, tag: &str, content: &[u8], sent: usize) -> Vec<u8> {
    let (start, end) = range(seen);
    let status = if seen.header("Range").is_some() {
        "206 Partial Content"
    } else {
        "200 OK"
    };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nETag: \"{tag}\"\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{}/{SIZE}\r\n\r\n",
        end - start,
        end - 1
    )
    .into_bytes();
    answer.extend_from_slice(&content[start..end.min(start + sent)]);
    answer
}

/// A refusal in S3's words, which quotes the signature as real ones do.
fn refusal(seen: &Seen, status: &str, code: &str, message: &str) -> Reply {
    let signature = QUERY.rsplit('=').next().unwrap_or_default();
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message>\
         <SignatureProvided>{signature}</SignatureProvided></Error>"
    );
    Reply::whole(seen, status, &["Content-Type: application/xml"], body.as_bytes())
}

/// Whether it is the request for the size.
fn is_first_byte(seen: &Seen) -> bool {
    seen.header("Range") == Some("bytes=0-0")
}

/// A store that sends the first half of the object and ends; what it does then is `after`, by the
/// number of the request that comes.
fn breaking(content: &Arc<Vec<u8>>, after: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Scripted {
    let (content, gets) = (Arc::clone(content), AtomicUsize::new(0));
    Scripted::start(move |seen| {
        assert_eq!(seen.method, "GET", "a signed URL allows nothing else");
        assert!(seen.header("Authorization").is_none());
        if is_first_byte(seen) {
            return Reply::Say(part(seen, "one", &content, 1));
        }
        match gets.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::SayAndClose(part(seen, "one", &content, SIZE / 2)),
            number => after(seen, number),
        }
    })
}

#[test]
fn a_short_body_is_resumed_with_the_same_signature() {
    let test = "a_short_body_is_resumed_with_the_same_signature";
    let Some(site) = site(test) else { return };
    let content = Arc::new(bytes(SIZE, 3));
    let rest = Arc::clone(&content);
    let store = breaking(&content, move |seen, _| Reply::Say(part(seen, "one", &rest, SIZE)));
    let said = site.pull(&store.url("/bucket/short"), "short");
    assert!(said.contains("success"), "{said}");
    assert!(site.stored("short").as_ref() == Some(&*content));
    let ranges: Vec<usize> = store.seen().iter().map(|seen| range(seen).0).collect();
    assert!(ranges.iter().any(|start| *start > 0), "it was not resumed: {ranges:?}");
    assert!(store.seen().iter().all(|seen| seen.path.ends_with(QUERY)));
}

#[test]
fn a_signature_that_expires_in_the_middle_ends_the_copy() {
    let test = "a_signature_that_expires_in_the_middle_ends_the_copy";
    let Some(site) = site(test) else { return };
    let content = Arc::new(bytes(SIZE, 4));
    for (status, code, message) in [
        ("403 Forbidden", "AccessDenied", "Request has expired"),
        ("400 Bad Request", "ExpiredToken", "The provided token has expired."),
    ] {
        let store = breaking(&content, move |seen, _| refusal(seen, status, code, message));
        let name = format!("expired-{code}");
        let said = site.pull(&store.url(&format!("/bucket/{name}")), &name);
        assert!(
            said.contains("client") && said.contains("The signed URL has expired"),
            "{said}"
        );
        assert!(site.stored(&name).is_none(), "nothing has the name");
        // The first byte, the half, and the refusal: no further attempt.
        assert_eq!(store.seen().len(), 3, "{:?}", store.seen());
    }
}

#[test]
fn an_object_that_changes_in_the_middle_is_not_mixed() {
    let test = "an_object_that_changes_in_the_middle_is_not_mixed";
    let Some(site) = site(test) else { return };
    let (content, other) = (Arc::new(bytes(SIZE, 5)), Arc::new(bytes(SIZE, 6)));
    let now = Arc::clone(&other);
    // As real stores do, it knows no If-Range: it sends the part of the new object.
    let store = breaking(&content, move |seen, _| Reply::Say(part(seen, "two", &now, SIZE)));
    let said = site.pull(&store.url("/bucket/changed"), "changed");
    let stored = site.stored("changed");
    assert!(stored.is_none() || stored.as_ref() == Some(&*other), "{said}");
}

#[test]
fn an_overloaded_store_is_asked_again() {
    let test = "an_overloaded_store_is_asked_again";
    let Some(site) = site(test) else { return };
    let content = Arc::new(bytes(SIZE, 7));
    let rest = Arc::clone(&content);
    let store = breaking(&content, move |seen, number| match number {
        1 => refusal(seen, "503 Slow Down", "SlowDown", "Please reduce your request rate."),
        _ => Reply::Say(part(seen, "one", &rest, SIZE)),
    });
    let said = site.pull(&store.url("/bucket/slow"), "slow");
    assert!(said.contains("success"), "{said}");
    assert!(site.stored("slow").as_ref() == Some(&*content));
}

#[test]
fn refusals_of_s3_are_told_in_words_and_without_the_signature() {
    let test = "refusals_of_s3_are_told_in_words_and_without_the_signature";
    let Some(site) = site(test) else { return };
    for (status, code, words) in [
        ("404 Not Found", "NoSuchKey", "No such file or directory at the peer"),
        (
            "403 Forbidden",
            "SignatureDoesNotMatch",
            "Permission denied by the peer",
        ),
        ("403 Forbidden", "RequestTimeTooSkewed", "clock"),
    ] {
        let store = Scripted::start(move |seen| refusal(seen, status, code, "Words of the store."));
        let said = site.pull(&store.url("/bucket/refused"), "refused");
        assert!(
            said.contains(words) && said.contains("Words of the store"),
            "{code}: {said}"
        );
        secrets::demand_none("the answer", &said);
    }
    let full = Scripted::start(|seen| refusal(seen, "403 Forbidden", "QuotaExceeded", "Full."));
    std::fs::write(site.server.data().join("up"), b"content").expect("a file");
    let url = format!("Destination: {}?{QUERY}", full.url("/bucket/up"));
    let answer = site.lab.copy(&site.server.url("/data/up"), &url, &[]);
    assert!(
        last_line(&answer).contains("No space left on device"),
        "{}",
        answer.text()
    );
    let methods: Vec<String> = full.seen().into_iter().map(|seen| seen.method).collect();
    assert_eq!(methods, ["PUT"]);
    secrets::demand_none("the log", &site.server.log().stderr());
}

#[test]
fn the_signature_follows_no_redirect_to_another_server() {
    let test = "the_signature_follows_no_redirect_to_another_server";
    let Some(site) = site(test) else { return };
    let other = Scripted::start(|seen| Reply::whole(seen, "200 OK", &[], b"stolen"));
    let target = format!("Location: {}?{QUERY}", other.url("/bucket/key"));
    let store = Scripted::start(move |seen| Reply::whole(seen, "307 Temporary Redirect", &[&target], b""));
    let said = site.pull(&store.url("/bucket/key"), "redirected");
    assert!(
        said.contains("with the signature of the URL to another server"),
        "{said}"
    );
    assert!(other.seen().is_empty() && site.stored("redirected").is_none());
}
