//! The tokens that a redirector shows its nodes: their files are read again, since tokens end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::fixed::{FixedNode, NodeToken};
use config::ClusterNode;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use types::Secret;

use super::log::Log;
use super::secret;
use crate::failure::Failure;

/// Time between two looks at the files.
const LOOK_PERIOD: Duration = Duration::from_secs(10);

/// The token of one node, and its file.
pub(super) struct TokenFile {
    node: String,
    file: PathBuf,
    token: NodeToken,
    /// What was wrong with the file last.
    fault: Option<String>,
}

impl TokenFile {
    /// That of a node, if it has one.
    pub(super) fn of(configured: &ClusterNode, node: &FixedNode) -> Option<Self> {
        Some(Self {
            node: configured.url.clone(),
            file: configured.token_file.clone()?,
            token: node.token.clone(),
            fault: None,
        })
    }

    /// Takes what is in the file now. Returns a fault that is new; the old token stays in use then.
    fn look(&mut self) -> Option<&str> {
        let fault = match read(&self.file) {
            Ok(token) => {
                self.token.renew(token);
                None
            }
            Err(fault) => Some(fault.words),
        };
        let is_new = fault != self.fault;
        self.fault = fault;
        self.fault.as_deref().filter(|_| is_new)
    }
}

/// The token in a file.
///
/// # Errors
/// Others may read the file, it cannot be read, or it is empty.
pub(super) fn read(file: &Path) -> Result<Secret, Failure> {
    let text = secret::load_text("token for a node", file)?;
    match text.trim() {
        "" => Err(Failure::invalid(format!(
            "the token for a node: {} is empty",
            file.display()
        ))),
        token => Ok(Secret::new(token)),
    }
}

/// Looks at the files again and again; does not end.
pub(super) async fn watch(mut tokens: Vec<TokenFile>, log: Log) {
    let mut times = interval(LOOK_PERIOD);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        times.tick().await;
        for token in &mut tokens {
            let node = token.node.clone();
            if let Some(fault) = token.look() {
                log.write("node_token_unreadable", &json!({"node": node, "error": fault}));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_leaves_the_old_token_and_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let write = |text: &str| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("one\n");
        let token = NodeToken::new(Some(read(&file).unwrap()));
        let mut this = TokenFile {
            node: "https://d1:1".to_owned(),
            file: file.clone(),
            token: token.clone(),
            fault: None,
        };
        write("two\n");
        assert_eq!(this.look(), None);
        assert!(!token.renew(Secret::new("two")));
        std::fs::remove_file(&file).unwrap();
        assert!(this.look().is_some());
        assert_eq!(this.look(), None);
        assert!(!token.renew(Secret::new("two")));
        write("\n");
        assert!(this.look().is_some_and(|fault| fault.contains("empty")));
        write("three");
        assert_eq!(this.look(), None);
        assert!(!token.renew(Secret::new("three")));
    }
}
