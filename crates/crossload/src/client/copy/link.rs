//! The copy of a symbolic link, which is not followed.

use storage::Overwrite;
use storage::local::{Unfit, copy_link};
use types::{ErrorCode, Phase, Side};

use super::Copier;
use super::decide::{IfExists, Reason};
use crate::client::place::Place;

impl Copier {
    /// Makes a link like one of the source; only local directories have links.
    pub(super) async fn copy_link(&self, source: &Place, target: &Place) {
        let (Place::Local(from), Place::Local(to)) = (source, target) else {
            return self.leave_out(&source.to_string(), Unfit::Link);
        };
        if self.settings.transfer.dry_run {
            return self.report.would("copy link", source, target, None);
        }
        let if_exists = self.settings.if_exists;
        let overwrite = match if_exists {
            IfExists::Update | IfExists::ReplaceOther | IfExists::Replace => Overwrite::Allow,
            IfExists::Refuse | IfExists::SkipEqual | IfExists::Skip => Overwrite::Refuse,
        };
        let (from, to) = (from.clone(), to.clone());
        let copy = move || copy_link(&from, &to, overwrite);
        match execution::blocking_try(Side::Client, Phase::Commit, copy).await {
            Ok(true) => {
                self.totals.add(|count| count.files += 1);
                self.report.linked(source, target);
            }
            Ok(false) => self.skip_link(source, target),
            Err(error) if error.code() == ErrorCode::Exists && if_exists == IfExists::Skip => {
                self.skip_link(source, target);
            }
            Err(error) => self.fail(&source.to_string(), error),
        }
    }

    fn skip_link(&self, source: &Place, target: &Place) {
        self.totals.skip(None, false);
        self.report.skipped(source, target, Reason::Exists);
    }
}
