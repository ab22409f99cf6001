//! The VOMS directory: which servers may speak for which VO.

use std::collections::BTreeMap;

use gsi_wire::{certificates_in_pem, lsc};

use super::trust::TrustFault;

/// What is known of the servers of all VOs.
#[derive(Clone, Debug, Default)]
pub struct VomsDirectory(BTreeMap<String, Vo>);

/// What is known of the servers of one VO.
#[derive(Clone, Debug, Default)]
pub(super) struct Vo {
    /// Chains of names in one line, from the server's own upwards.
    chains: Vec<Vec<String>>,
    /// Certificates of servers in DER.
    certificates: Vec<Vec<u8>>,
}

impl VomsDirectory {
    /// Reads the files of the directory, each as the VO (the name of its directory), its own name,
    /// and its bytes: `*.lsc` files with names, and, as it was done in former times, `*.pem` files
    /// with servers' certificates. Other files are passed over. A broken file is a fault and left
    /// out.
    pub fn build(files: impl IntoIterator<Item = (String, String, Vec<u8>)>) -> (Self, Vec<TrustFault>) {
        let mut directory = Self::default();
        let mut faults = Vec::new();
        for (vo, file, bytes) in files {
            if let Err(why) = directory.add(&vo, &file, &bytes) {
                let why = format!("{why}; the file is left out");
                let file = format!("{vo}/{file}");
                faults.push(TrustFault { file, why });
            }
        }
        (directory, faults)
    }

    fn add(&mut self, vo: &str, file: &str, bytes: &[u8]) -> Result<(), String> {
        if file.ends_with(".lsc") {
            let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
            let chains = lsc::parse(text).map_err(|why| why.to_string())?;
            self.0.entry(vo.to_owned()).or_default().chains.extend(chains);
        } else if file.ends_with(".pem") {
            let certificates = certificates_in_pem(bytes).map_err(|why| why.to_string())?;
            self.0
                .entry(vo.to_owned())
                .or_default()
                .certificates
                .extend(certificates);
        }
        Ok(())
    }

    /// The VOs whose servers are known, by name.
    pub fn vos(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn of_vo(&self, vo: &str) -> Option<&Vo> {
        self.0.get(vo)
    }
}

impl Vo {
    pub(super) fn certificates(&self) -> impl Iterator<Item = &[u8]> {
        self.certificates.iter().map(Vec::as_slice)
    }

    /// Whether a server may speak for the VO: its certificate in DER, and the names from its own up
    /// to the authority's, in canonical form. Any file of the VO may name it, whatever host the
    /// file is called after.
    pub(super) fn permits(&self, der: &[u8], names: &[String]) -> bool {
        let is_named = |chain: &Vec<String>| {
            let length = chain.len().min(names.len());
            length >= 2 && chain[..length] == names[..length]
        };
        self.chains.iter().any(is_named) || self.certificates.iter().any(|known| known == der)
    }
}
