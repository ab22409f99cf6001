//! Listings without the names that the client may not stat.

use policy::Operation;
use types::{LogicalPath, Result};

use crate::export_path::ExportPath;
use crate::exports::Exports;
use crate::requester::{Requester, request};
use crate::store::Pages;
use crate::visible::VisibleNames;

impl Exports {
    /// Lists a directory to a client that may list it, without the names that it may not stat.
    ///
    /// # Errors
    /// As [`Store::list`](crate::Store::list).
    pub async fn list_to(
        &self,
        requester: Requester<'_>,
        export_path: &ExportPath,
        path: &LogicalPath,
    ) -> Result<Pages> {
        let pages = export_path.store.list(&export_path.path).await?;
        Ok(pages.showing(self.visible_to(requester, path)))
    }

    fn visible_to(&self, requester: Requester<'_>, path: &LogicalPath) -> Option<VisibleNames> {
        let credential = requester.credential.as_ref().ok()?;
        let asked = request(requester, Operation::Stat, path, None);
        VisibleNames::of(self.shared_policy(), credential, &asked)
    }
}
