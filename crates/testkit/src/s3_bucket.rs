//! A bucket of a real S3 server: its addresses, the key pair that may use it, and URLs that are
//! signed with it.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rusty_s3::actions::{CreateBucket, GetObject, HeadObject, PutObject, S3Action as _};
use rusty_s3::{Bucket, Credentials, UrlStyle};
use url::Url;

use crate::{Error, Result, secrets};

/// For the requests of the launchers themselves.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the URLs of those requests hold.
const REQUEST_LIFETIME: Duration = Duration::from_secs(600);
/// The key pair of every server: each listens on loopback and lives as long as its test.
const ACCESS_KEY: &str = "CROSSLOADTESTKEY";
const SECRET_KEY: &str = "a-secret-key-of-the-tests-only";

/// For which request a URL is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum S3Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// PUT.
    Put,
}

/// A bucket in path style, on a server of loopback.
#[derive(Clone)]
pub struct S3Bucket {
    clear_port: u16,
    tls_port: u16,
    name: &'static str,
}

impl fmt::Debug for S3Bucket {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at {}", self.name, self.host(false))
    }
}

impl S3Bucket {
    pub(crate) fn new(clear_port: u16, tls_port: u16) -> Self {
        secrets::note("the secret key of an S3 server", SECRET_KEY);
        Self {
            clear_port,
            tls_port,
            name: "bucket",
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// The region that requests are signed for.
    #[must_use]
    pub fn region(&self) -> &'static str {
        "us-east-1"
    }

    /// The id of the key.
    #[must_use]
    pub fn access_key(&self) -> &'static str {
        ACCESS_KEY
    }

    /// The key itself.
    #[must_use]
    pub fn secret_key(&self) -> &'static str {
        SECRET_KEY
    }

    /// The port of the server, in clear text.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.clear_port
    }

    /// Name and port of the server, over TLS or in clear text.
    #[must_use]
    pub fn host(&self, is_tls: bool) -> String {
        format!("localhost:{}", if is_tls { self.tls_port } else { self.clear_port })
    }

    /// The URL of `key` without a signature.
    #[must_use]
    pub fn url(&self, is_tls: bool, key: &str) -> String {
        let scheme = if is_tls { "https" } else { "http" };
        format!("{scheme}://{}/{}/{key}", self.host(is_tls), self.name)
    }

    /// The URL of `key`, signed for `method` at `signed_at` and good for `lifetime`. What must stay
    /// secret in it is noted (see [`secrets`]).
    ///
    /// # Panics
    /// When the clock is before 1970.
    #[must_use]
    pub fn presigned(
        &self,
        is_tls: bool,
        method: S3Method,
        key: &str,
        signed_at: SystemTime,
        lifetime: Duration,
    ) -> String {
        let credentials = self.credentials();
        let credentials = Some(&credentials);
        let bucket = self.bucket(is_tls);
        let time = Timestamp::try_from(signed_at).expect("a time of this century");
        let url = match method {
            S3Method::Get => GetObject::new(&bucket, credentials, key).sign_with_time(lifetime, &time),
            S3Method::Head => HeadObject::new(&bucket, credentials, key).sign_with_time(lifetime, &time),
            S3Method::Put => PutObject::new(&bucket, credentials, key).sign_with_time(lifetime, &time),
        };
        let signature = url.query_pairs().find(|(name, _)| name == "X-Amz-Signature");
        secrets::note("a signature", &signature.expect("it is signed").1);
        url.into()
    }

    /// Creates the bucket.
    pub(crate) fn create(&self) -> Result<()> {
        let bucket = self.bucket(false);
        let url = CreateBucket::new(&bucket, &self.credentials()).sign(REQUEST_LIFETIME);
        self.request("PUT", &url, &[]).map(drop)
    }

    /// Stores an object.
    ///
    /// # Errors
    /// [`Error::Failed`] when the server refuses it.
    pub fn store(&self, key: &str, content: &[u8]) -> Result<()> {
        self.request("PUT", &self.signed_now(S3Method::Put, key)?, content)
            .map(drop)
    }

    /// Reads an object.
    ///
    /// # Errors
    /// [`Error::Failed`] when the server refuses it.
    pub fn read(&self, key: &str) -> Result<Vec<u8>> {
        self.request("GET", &self.signed_now(S3Method::Get, key)?, &[])
    }

    /// The document with the tags of an object.
    ///
    /// # Errors
    /// [`Error::Failed`] when the server refuses it.
    pub fn tags(&self, key: &str) -> Result<String> {
        self.document(key, "tagging")
    }

    /// The document with the uploads in parts that have not ended.
    ///
    /// # Errors
    /// [`Error::Failed`] when the server refuses it.
    pub fn unfinished(&self) -> Result<String> {
        self.document("", "uploads")
    }

    fn document(&self, key: &str, query: &str) -> Result<String> {
        let now = Timestamp::try_from(SystemTime::now()).map_err(|error| Error::during("signing", error))?;
        let url = rusty_s3::signing::sign(
            &now,
            rusty_s3::Method::Get,
            self.bucket(false).object_url(key),
            ACCESS_KEY,
            SECRET_KEY,
            None,
            self.region(),
            REQUEST_LIFETIME.as_secs(),
            [(query, "")].into_iter(),
            std::iter::empty(),
        );
        let body = self.request("GET", &url, &[])?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    fn signed_now(&self, method: S3Method, key: &str) -> Result<Url> {
        let url = self.presigned(false, method, key, SystemTime::now(), REQUEST_LIFETIME);
        Url::parse(&url).map_err(|error| Error::during("signing", error))
    }

    fn bucket(&self, is_tls: bool) -> Bucket {
        let scheme = if is_tls { "https" } else { "http" };
        let endpoint = format!("{scheme}://{}", self.host(is_tls));
        let endpoint = Url::parse(&endpoint).expect("a host and a port");
        Bucket::new(endpoint, UrlStyle::Path, self.name, self.region()).expect("a name of letters")
    }

    fn credentials(&self) -> Credentials {
        Credentials::new(ACCESS_KEY, SECRET_KEY)
    }

    /// Sends one request in clear text and returns the body of its answer.
    fn request(&self, method: &str, url: &Url, content: &[u8]) -> Result<Vec<u8>> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.clear_port));
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.host(false),
            content.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(content)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap_or(answer.len());
        if answer.starts_with(b"HTTP/1.1 20") {
            return Ok(answer.split_off((end + 4).min(answer.len())));
        }
        let words = String::from_utf8_lossy(&answer).into_owned();
        Err(Error::Failed(format!("{method} {}: {words}", url.path())))
    }
}
