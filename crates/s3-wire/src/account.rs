//! Who we are at an S3 storage, and how its URLs are written.

use types::Secret;

/// Where the bucket is in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// In the path: `host/bucket/key`. It is also called alternate.
    Path,
    /// The first label of the host: `bucket.host/key`.
    VirtualHost,
}

impl Addressing {
    /// How URLs at a host are written if nothing says otherwise: with the bucket in the path, but
    /// at Amazon in the host, where the host has one label more than that of the service.
    #[must_use]
    pub fn usual(host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        let Some(front) = host
            .strip_suffix(".amazonaws.com")
            .or(host.strip_suffix(".amazonaws.com.cn"))
        else {
            return Self::Path;
        };
        match front.split('.').position(is_service) {
            Some(0) | None => Self::Path,
            Some(_) => Self::VirtualHost,
        }
    }
}

/// Whether a label of Amazon's hosts names the service.
pub(crate) fn is_service(label: &str) -> bool {
    label == "s3" || label.starts_with("s3-")
}

/// The keys of an account, and what else its requests need.
#[derive(Clone, Debug)]
pub struct Account {
    /// The access key's identifier, which is no secret.
    pub key_id: String,
    /// The secret key.
    pub secret: Secret,
    /// The session token of temporary keys.
    pub token: Option<Secret>,
    /// The region; `None`: `us-east-1`, until the server names another one.
    pub region: Option<String>,
    /// Where the bucket is in URLs; `None`: as is usual for the host.
    pub addressing: Option<Addressing>,
}

impl Account {
    /// The region that most servers expect when they have none.
    pub const REGION: &str = "us-east-1";

    /// How URLs at a host are written.
    #[must_use]
    pub fn addressing(&self, host: &str) -> Addressing {
        self.addressing.unwrap_or_else(|| Addressing::usual(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_amazon_has_buckets_in_hosts() {
        for host in [
            "a.s3.amazonaws.com",
            "a.b.s3-eu-west-1.amazonaws.com",
            "A.S3.cn-north-1.amazonaws.com.cn",
        ] {
            assert_eq!(Addressing::usual(host), Addressing::VirtualHost, "{host}");
        }
        for host in [
            "s3.amazonaws.com",
            "s3.eu-west-1.amazonaws.com",
            "127.0.0.1",
            "a.s3.cern.ch",
        ] {
            assert_eq!(Addressing::usual(host), Addressing::Path, "{host}");
        }
    }

    #[test]
    fn keys_are_not_printed() {
        let account = Account {
            key_id: "id".into(),
            secret: Secret::new("hush"),
            token: Some(Secret::new("hush")),
            region: None,
            addressing: None,
        };
        assert!(!format!("{account:?}").contains("hush"));
    }
}
