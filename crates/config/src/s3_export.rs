//! Exports whose files are objects of an S3 storage.

use types::Location;

use crate::keys::Export;

impl Export {
    /// The directory of `s3` as a URL of the S3 protocol, if the export has one that can be.
    pub fn s3_url(&self) -> Option<String> {
        let url = self.s3.as_ref()?;
        let rest = url.strip_prefix("http")?;
        Some(format!("s3{rest}"))
    }

    /// Mistakes in its S3 storage.
    pub(crate) fn s3_faults(&self) -> Vec<String> {
        let keys = [
            ("s3_access_key_id", self.s3_access_key_id.is_some()),
            ("s3_secret_key_file", self.s3_secret_key_file.is_some()),
        ];
        let others = [
            ("s3_region", self.s3_region.is_some()),
            ("s3_addressing", self.s3_addressing.is_some()),
        ];
        let mut faults = Vec::new();
        let mut demand = |is_good: bool, words: &str| {
            if !is_good {
                faults.push(words.to_owned());
            }
        };
        let Some(url) = &self.s3 else {
            for (key, _) in keys.into_iter().chain(others).filter(|(_, is_given)| *is_given) {
                let words = format!("{key}: belongs to s3, which is missing; set s3, or remove it");
                demand(false, &words);
            }
            return faults;
        };
        for (key, _) in keys.into_iter().filter(|(_, is_given)| !is_given) {
            let words = format!("{key}: s3 needs it, the storage takes no request without keys; set it");
            demand(false, &words);
        }
        let is_way = self
            .s3_addressing
            .as_deref()
            .is_none_or(|way| matches!(way, "path" | "host"));
        demand(is_way, "s3_addressing: neither path nor host; write one of them");
        let is_region = self.s3_region.as_deref().is_none_or(is_region);
        demand(
            is_region,
            "s3_region: not the name of a region; write letters, digits, - and _, as in \"eu-west-1\"",
        );
        demand(
            self.quota_bytes.0 == 0,
            "quota_bytes: the storage of s3 has its own; remove it",
        );
        if let Err(words) = check_url(url, self.s3_addressing.as_deref()) {
            demand(false, &format!("s3: {words}"));
        }
        faults
    }
}

fn is_region(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !text.is_empty() && text.bytes().all(is_fit)
}

/// Whether the first label of a host can be a bucket: those of an address cannot.
fn has_bucket(host: &str) -> bool {
    let is_name = |label: &str| !label.is_empty() && label.bytes().any(|byte| !byte.is_ascii_digit());
    host.split_once('.')
        .is_some_and(|(_, rest)| rest.split('.').all(is_name))
}

/// Checks the URL of a bucket or of a prefix in it.
fn check_url(url: &str, addressing: Option<&str>) -> Result<(), String> {
    let place = Location::parse(url).map_err(|error| error.detail().unwrap_or("it is invalid").to_owned())?;
    if !place.is_http() || !url.starts_with("http") {
        return Err(
            "not a URL of http or https; write one such as \"https://s3.example.org/bucket/prefix\"".to_owned(),
        );
    }
    if place.query().is_some() {
        return Err("it has a query; the keys belong in s3_access_key_id and s3_secret_key_file".to_owned());
    }
    let in_host = match addressing {
        Some(way) => way == "host",
        // Amazon's hosts begin with the bucket, or with the service.
        None => [".s3.", ".s3-"].iter().any(|service| place.host().contains(service)),
    };
    if in_host && !has_bucket(place.host()) {
        return Err("its host does not begin with a bucket; write one such as \"https://bucket.s3.example.org\", or s3_addressing = \"path\"".to_owned());
    }
    if !in_host && place.path().trim_matches('/').is_empty() {
        return Err("it names no bucket; write one such as \"https://s3.example.org/bucket/prefix\"".to_owned());
    }
    let has_dots = |name: &str| matches!(name, "." | "..");
    if place.path().contains("//") || place.path().split('/').any(has_dots) {
        return Err("its path has an empty name, \".\" or \"..\"; remove that".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Configuration;

    fn faults(lines: &str) -> String {
        let text = format!("[[export]]\n{lines}\n");
        let read = Configuration::parse(&text, Path::new("/etc"), "c.toml");
        read.err().map(|faults| faults.to_string()).unwrap_or_default()
    }

    const KEYS: &str = "s3_access_key_id = \"k\"\ns3_secret_key_file = \"f\"\n";

    #[test]
    fn an_export_of_a_bucket_has_its_keys() {
        for good in [
            "s3 = \"https://a/bucket/prefix\"",
            "s3 = \"https://bucket.a\"\ns3_addressing = \"host\"",
            "s3 = \"https://bucket.s3.eu-west-1.amazonaws.com\"",
            "s3 = \"http://a:9000/bucket\"\ns3_region = \"r\"\ns3_addressing = \"path\"",
        ] {
            assert_eq!(faults(&format!("{KEYS}{good}")), "", "{good}");
        }
        for (bad, words) in [
            ("s3 = \"https://a/b\"", "s3_secret_key_file: s3 needs it"),
            (
                "directory = \"d\"\ns3_region = \"r\"",
                "s3_region: belongs to s3, which is missing",
            ),
            (
                "directory = \"d\"\ns3 = \"https://a/b\"",
                "give one of directory, remote, remote_hosts and s3",
            ),
        ] {
            assert!(faults(bad).contains(words), "{bad}: {}", faults(bad));
        }
        for (bad, words) in [
            ("s3 = \"s3://a/b\"", "s3: not a URL of http"),
            ("s3 = \"root://a//b\"", "s3: not a URL of http"),
            ("s3 = \"https://a/b?X-Amz-Signature=secret\"", "s3: it has a query"),
            ("s3 = \"https://a\"", "s3: it names no bucket"),
            (
                "s3 = \"http://a:9000/\"\ns3_addressing = \"path\"",
                "s3: it names no bucket",
            ),
            ("s3 = \"https://a/b//c\"", "its path has an empty name"),
            (
                "s3 = \"https://a/b\"\ns3_addressing = \"virtual\"",
                "s3_addressing: neither path nor host",
            ),
            (
                "s3 = \"http://localhost:9000/b\"\ns3_addressing = \"host\"",
                "s3: its host does not begin with a bucket",
            ),
            (
                "s3 = \"https://192.0.2.1/b\"\ns3_addressing = \"host\"",
                "s3: its host does not begin with a bucket",
            ),
            (
                "s3 = \"https://a/b\"\ns3_region = \"eu west\"",
                "s3_region: not the name",
            ),
            ("s3 = \"https://a/b\"\ns3_region = \"\"", "s3_region: not the name"),
            ("s3 = \"https://a/b\"\nquota_bytes = 5", "quota_bytes: the storage"),
            (
                "s3 = \"https://a/b\"\nremote_token_file = \"t\"",
                "remote_token_file: belongs to remote",
            ),
        ] {
            let told = faults(&format!("{KEYS}{bad}"));
            assert!(told.contains(words) && !told.contains("secret\""), "{bad}: {told}");
        }
    }
}
