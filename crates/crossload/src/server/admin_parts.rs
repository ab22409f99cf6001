//! Several parts of the server with figures and checks of their own, as the admin door has one.

use std::sync::Arc;

use door_admin::{Check, Part, PartFuture};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::Registry;

/// The label of metrics about the nodes of a redirector.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct NodeLabels {
    /// The URL under which the node is configured.
    pub(crate) node: String,
}

/// The metrics of one part as OpenMetrics, without the mark of the end: other parts follow.
pub(crate) fn encoded(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing into a text cannot fail.
    let _ = encode_registry(&mut text, registry);
    text.trim_end_matches("# EOF\n").to_owned()
}

/// Parts, in the order in which they are shown.
pub(crate) struct AdminParts(pub(crate) Vec<Arc<dyn Part>>);

impl Part for AdminParts {
    fn metrics(&self) -> PartFuture<'_, String> {
        Box::pin(async {
            let mut text = String::new();
            for part in &self.0 {
                text.push_str(&part.metrics().await);
            }
            text
        })
    }

    fn checks(&self) -> PartFuture<'_, Vec<Check>> {
        Box::pin(async {
            let mut checks = Vec::new();
            for part in &self.0 {
                checks.extend(part.checks().await);
            }
            checks
        })
    }
}
