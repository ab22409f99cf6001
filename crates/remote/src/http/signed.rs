//! URLs that are signed for one method (presigned URLs of S3, Google and Azure): what is done
//! instead of the requests that they do not allow, and how an expired one is noticed.
//!
//! A signed URL is good for GET or for PUT. Any other request, and any further credential, is
//! refused by its server, and may count as an attack there.

use std::time::{SystemTime, UNIX_EPOCH};

use http_wire::{Method, RequestBuilder};
use types::{
    ByteRange, Checksum, ChecksumAlgorithm, ErrorCode, Phase, Result, Side, Signer, UrlSignature, decode_percent,
};

use super::client::Client;
use super::content::Known;
use super::exchange::{Ask, Body, Hop};
use crate::options::PutOptions;
use crate::resource::{Facts, Resource};

/// Shorter values of a query are no secrets, and may stand in a sentence by chance.
const HIDDEN_BYTES_MIN: usize = 8;

impl Resource {
    /// The signature of a URL that we were given. One that we signed ourselves is for the request
    /// at hand.
    pub(super) fn signature(&self) -> Option<UrlSignature> {
        let is_given = self.access.signed_for.is_none();
        self.location.signature().filter(|_| is_given)
    }

    /// Refuses what cannot be stored with one PUT, before a byte of it is sent.
    ///
    /// # Errors
    /// `length_required` and `body_too_large`, for a signed URL.
    pub(super) fn check_signed_put(&self, size_bytes: Option<u64>) -> Result<()> {
        let Some(signature) = self.signature() else {
            return Ok(());
        };
        let refuse = |code, words: String| Err(self.error(code, Phase::Open).with_detail(words));
        match (size_bytes, signature.put_bytes_max()) {
            (None, _) => {
                let words = "the size is unknown, and a signed URL takes one upload of known size; to store it in \
                             parts, the credentials of the storage are needed";
                refuse(ErrorCode::LengthRequired, words.to_owned())
            }
            (Some(size), Some(most)) if size > most => {
                let gib = most as f64 / f64::from(1 << 30);
                let words = format!(
                    "a signed URL takes {gib:.1} GiB at most; to store {size} bytes in parts, the credentials of the \
                     storage are needed"
                );
                refuse(ErrorCode::BodyTooLarge, words)
            }
            _ => Ok(()),
        }
    }

    /// The MD5 that goes along with an upload, if it is known: the server then refuses a body that
    /// breaks off or was damaged. The signatures of version 2 of Amazon and those of Google may
    /// cover the header.
    pub(super) fn md5_to_send<'o>(&self, options: &'o PutOptions) -> Option<&'o Checksum> {
        let takes_header = match self.signature()?.signer {
            Signer::Aws => self.location.query()?.contains("X-Amz-Algorithm="),
            Signer::Azure => true,
            Signer::Google => false,
        };
        let mut md5 = options.declared.iter().filter(|_| takes_header);
        md5.find(|checksum| checksum.algorithm() == ChecksumAlgorithm::Md5)
    }

    /// Whether a refusal means that the signature has expired: by its words, or by our clock.
    pub(super) fn has_expired(&self, status: u16, words: &str) -> bool {
        let Some(signature) = self.signature().filter(|_| matches!(status, 400 | 401 | 403)) else {
            return false;
        };
        let words = words.to_ascii_lowercase();
        words.contains("expired") || signature.is_expired_at(now_s())
    }

    /// A server's words without the secrets of our URL: some quote it, or tell the signature apart
    /// from it.
    pub(super) fn without_secrets(&self, words: &str) -> String {
        let query = self.location.query().unwrap_or_default();
        let values = query.split('&').filter_map(|pair| Some(pair.split_once('=')?.1));
        let both = values.flat_map(|value| [Some(value.to_owned()), decode_percent(value)]);
        both.flatten()
            .filter(|value| value.len() >= HIDDEN_BYTES_MIN)
            .fold(words.to_owned(), |words, value| words.replace(&value, "…"))
    }
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

impl Client {
    /// The facts of a file whose URL allows GET alone: from the answer to a request for its first
    /// byte.
    ///
    /// # Errors
    /// The server's refusal; `peer_unsupported` for a destination, whose URL allows PUT alone.
    pub(super) async fn facts_by_get(&self, file: &Resource) -> Result<Facts> {
        if file.side == Side::Destination {
            let error = file.error(ErrorCode::PeerUnsupported, Phase::Open);
            return Err(error.with_detail("its URL is signed for the upload, and shows nothing of the file"));
        }
        let headers = |request: RequestBuilder, _: &Hop<'_>| request.accept_file().range(ByteRange::new(0, 1));
        let ask = Ask {
            method: Method::Get,
            headers: &headers,
            body: Body::Nothing,
        };
        let answer = self.ask_until_taken(file, &ask).await?;
        let answer = self.check_content(answer, file, Known::default()).await?;
        // A file without a first byte is empty (RFC 9110 §15.5.17). Servers of S3 say no more.
        let is_empty = answer.head.status == 416;
        let answer = if is_empty { answer } else { answer.success().await? };
        let facts = Facts::of(&answer.head, &answer.file);
        let has_ranges = answer.head.status != 200;
        if has_ranges {
            answer.finish().await;
        }
        Ok(Facts {
            size_bytes: if is_empty { Some(0) } else { facts.size_bytes },
            accepts_ranges: Some(has_ranges),
            ..facts
        })
    }
}

#[cfg(test)]
mod tests {
    use types::Location;

    use super::*;
    use crate::Access;

    const EXPIRED: &str = "https://h/b/k?X-Amz-Signature=0123456789abcdef&X-Amz-Date=20200101T000000Z&X-Amz-Expires=60";
    const LASTING: &str = "https://h/b/k?AWSAccessKeyId=AK&Signature=abc%2Fdefgh%3D&Expires=99999999999";

    fn file(url: &str) -> Resource {
        Resource {
            location: Location::parse(url).unwrap(),
            access: Access::default(),
            side: Side::Source,
        }
    }

    #[test]
    fn an_end_is_told_by_words_or_by_the_clock() {
        let told = |url, status, words| file(url).has_expired(status, words);
        assert!(told(LASTING, 403, "AccessDenied: Request has expired"));
        assert!(told(LASTING, 400, "ExpiredToken: The provided token has expired."));
        assert!(told(EXPIRED, 403, "AccessDenied: Access Denied"));
        assert!(!told(LASTING, 403, "AccessDenied: Access Denied"));
        assert!(!told(EXPIRED, 404, "NoSuchKey"));
        assert!(!told("https://h/f", 403, "the token has expired"));
    }

    #[test]
    fn words_lose_what_the_query_hides() {
        let words = "SignatureDoesNotMatch 0123456789abcdef for AK";
        assert_eq!(file(EXPIRED).without_secrets(words), "SignatureDoesNotMatch … for AK");
        assert_eq!(
            file(LASTING).without_secrets("got abc/defgh= or abc%2Fdefgh%3D"),
            "got … or …"
        );
        assert_eq!(file("https://h/f").without_secrets(words), words);
    }

    #[test]
    fn a_put_has_a_known_size_up_to_a_limit() {
        let put = |url: &str, size| file(url).check_signed_put(size).map_err(|error| error.code());
        assert_eq!(put(LASTING, None), Err(ErrorCode::LengthRequired));
        assert_eq!(put(LASTING, Some(5 << 30)), Ok(()));
        assert_eq!(put(LASTING, Some((5 << 30) + 1)), Err(ErrorCode::BodyTooLarge));
        assert_eq!(put("https://h/k?X-Goog-Signature=a", Some(6 << 30)), Ok(()));
        assert_eq!(put("https://h/k", None), Ok(()));
    }
}
