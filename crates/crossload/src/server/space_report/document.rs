//! The report as a document: WLCG's storage resource report, schema 4.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A part of the storage with room of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Its name in the report.
    pub(super) name: String,
    /// Its URL path.
    pub(super) path: String,
    /// The virtual organisations that use it.
    pub(super) vos: Vec<String>,
    /// What its files take.
    pub(super) used_bytes: u64,
    /// What new files can take.
    pub(super) free_bytes: u64,
    /// Whether clients can write.
    pub(super) is_writable: bool,
    /// What its room is a part of.
    pub(super) part_of: PartOf,
    /// What readers should know of it.
    pub(super) message: Option<String>,
}

/// What the room of a share is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartOf {
    /// Nothing else in the report.
    Nothing,
    /// A file system that it may fill.
    FileSystem(u64),
    /// A file system that it may fill up to a quota.
    QuotaOn {
        device: u64,
        /// What is free in all of it; `None`: unknown.
        free_bytes: Option<u64>,
    },
    /// Another share.
    Share,
}

/// A way to reach the storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) url: String,
    /// `https` or `xroot`.
    pub(super) interface: &'static str,
}

/// What the report says.
#[derive(Clone, Debug)]
pub(super) struct Report<'a> {
    pub(super) name: &'a str,
    pub(super) quality: &'a str,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) shares: Vec<Share>,
    pub(super) is_draining: bool,
    pub(super) now_s: i64,
}

impl Share {
    /// What clients find in RFC 4331's properties, together: space that is kept from them does not
    /// count.
    fn total_bytes(&self) -> u64 {
        self.used_bytes.saturating_add(self.free_bytes)
    }

    fn to_json(&self, report: &Report<'_>) -> Value {
        let state = match (report.is_draining, self.is_writable) {
            (true, _) => "draining",
            (false, true) => "open",
            (false, false) => "closed",
        };
        let mut share = json!({
            "name": self.name, "timestamp": report.now_s, "accesslatency": "online", "retentionpolicy": "replica",
            "totalsize": bytes(self.total_bytes()), "usedsize": bytes(self.used_bytes), "path": [self.path],
            "assignedendpoints": ["all"], "vos": self.vos, "servingstate": state,
        });
        if let Some(message) = &self.message {
            share["message"] = message.as_str().into();
        }
        share
    }
}

impl Report<'_> {
    /// The document.
    pub(super) fn text(&self) -> String {
        let endpoints: Vec<Value> = self.endpoints.iter().map(Endpoint::to_json).collect();
        let shares: Vec<Value> = self.shares.iter().map(|share| share.to_json(self)).collect();
        let (total, used) = capacity(&self.shares);
        let online = json!({"totalsize": bytes(total), "usedsize": bytes(used), "reservedsize": 0});
        let service = json!({
            "name": self.name, "id": self.name, "servicetype": "multidisk", "implementation": "crossload",
            "implementationversion": env!("CARGO_PKG_VERSION"), "qualitylevel": self.quality,
            "latestupdate": self.now_s, "capabilities": ["data.access", "data.transfer"],
            "storagecapacity": {"online": online}, "storageendpoints": endpoints, "storageshares": shares,
            "datastores": [],
        });
        json!({"storageservice": service}).to_string()
    }
}

impl Endpoint {
    fn to_json(&self) -> Value {
        let version = match self.interface {
            "xroot" => "5.2",
            _ => "1.1",
        };
        json!({
            "name": self.interface, "endpointurl": self.url, "interfacetype": self.interface,
            "interfaceversion": version, "assignedshares": ["all"],
        })
    }
}

/// Sizes in the report are numbers of 63 bits.
fn bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Total and used bytes of several shares.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    total_bytes: u64,
    used_bytes: u64,
    /// What is free for all of them together.
    free_bytes: Option<u64>,
}

impl Sum {
    fn add(&mut self, share: &Share) {
        self.total_bytes = self.total_bytes.saturating_add(share.total_bytes());
        self.used_bytes = self.used_bytes.saturating_add(share.used_bytes);
    }

    /// The total; quotas may promise more than their file system has.
    fn possible_bytes(&self) -> u64 {
        let free_bytes = self.free_bytes.unwrap_or(u64::MAX);
        self.total_bytes.min(self.used_bytes.saturating_add(free_bytes))
    }
}

/// Total and used bytes of everything: a file system that several shares use counts once. A share
/// without quota has the figures of all of it, with the files of quotas.
fn capacity(shares: &[Share]) -> (u64, u64) {
    let mut wholes: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut quotas: BTreeMap<u64, Sum> = BTreeMap::new();
    let mut sum = Sum::default();
    for share in shares {
        match share.part_of {
            PartOf::Share => {}
            PartOf::Nothing => sum.add(share),
            PartOf::QuotaOn { device, free_bytes } => {
                let quotas = quotas.entry(device).or_default();
                quotas.free_bytes = quotas.free_bytes.max(free_bytes);
                quotas.add(share);
            }
            PartOf::FileSystem(device) => {
                let whole = wholes.entry(device).or_default();
                *whole = (*whole).max((share.total_bytes(), share.used_bytes));
            }
        }
    }
    let quotas = quotas.into_iter().filter(|(device, _)| !wholes.contains_key(device));
    let quotas = quotas.map(|(_, quotas)| (quotas.possible_bytes(), quotas.used_bytes));
    let own = wholes.values().copied().chain(quotas);
    own.fold((sum.total_bytes, sum.used_bytes), |all, one| {
        (all.0.saturating_add(one.0), all.1.saturating_add(one.1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(name: &str, used_bytes: u64, free_bytes: u64, part_of: PartOf) -> Share {
        Share {
            name: name.to_owned(),
            path: format!("/{name}"),
            vos: vec!["/atlas".to_owned()],
            used_bytes,
            free_bytes,
            is_writable: true,
            part_of,
            message: None,
        }
    }

    fn quota_on(device: u64, free_bytes: u64) -> PartOf {
        let free_bytes = Some(free_bytes);
        PartOf::QuotaOn { device, free_bytes }
    }

    #[test]
    fn a_file_system_counts_once_and_parts_of_shares_do_not() {
        let shares = [
            share("a", 10, 90, PartOf::FileSystem(1)),
            share("b", 10, 85, PartOf::FileSystem(1)),
            share("q", 3, 7, quota_on(1, 90)),
            share("atlas", 2, 8, PartOf::Share),
            share("c", 1, 4, quota_on(2, 50)),
            share("d", 2, 3, quota_on(2, 50)),
            share("far", 100, 900, PartOf::Nothing),
        ];
        assert_eq!(capacity(&shares), (100 + 10 + 1000, 10 + 3 + 100));
        // Quotas larger than what is left: they share 40 free bytes.
        let quotas = [
            share("a", 10, 40, quota_on(1, 40)),
            share("b", 5, 40, quota_on(1, 40)),
            share("c", 0, 7, quota_on(1, 40)),
        ];
        assert_eq!(capacity(&quotas), (10 + 5 + 40, 15));
        // The whole file system has their files, and may have fewer bytes than they promise.
        let with_whole = [quotas.to_vec(), vec![share("w", 50, 40, PartOf::FileSystem(1))]].concat();
        assert_eq!(capacity(&with_whole), (90, 50));
        let huge = [share("x", u64::MAX, u64::MAX, PartOf::Nothing)];
        assert_eq!(capacity(&huge), (u64::MAX, u64::MAX));
        assert_eq!(bytes(u64::MAX), i64::MAX);
    }

    #[test]
    fn the_document_has_what_the_schema_demands() {
        let report = Report {
            name: "se.example.org",
            quality: "testing",
            endpoints: vec![Endpoint {
                url: "https://se.example.org:443/".to_owned(),
                interface: "https",
            }],
            shares: vec![Share {
                message: Some("half of it".to_owned()),
                ..share("data", 10, 90, PartOf::FileSystem(1))
            }],
            is_draining: true,
            now_s: 1_795_287_686,
        };
        let document: Value = serde_json::from_str(&report.text()).unwrap();
        let service = &document["storageservice"];
        let online = &service["storagecapacity"]["online"];
        assert_eq!(
            (online["totalsize"].as_u64(), online["usedsize"].as_u64()),
            (Some(100), Some(10))
        );
        let share = &service["storageshares"][0];
        assert_eq!(
            (share["totalsize"].as_u64(), share["servingstate"].as_str()),
            (Some(100), Some("draining"))
        );
        assert_eq!(share["path"], json!(["/data"]));
        assert_eq!(share["message"], "half of it");
        assert_eq!(service["qualitylevel"], "testing");
    }
}
