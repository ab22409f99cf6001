//! Several parts of a server as one, for the admin door.

use std::sync::Arc;

use door_admin::{Check, Part, PartFuture};

/// Says what each part says, in their order.
pub(super) struct Parts(pub(super) Vec<Arc<dyn Part>>);

impl Part for Parts {
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
