//! Why a storage may have refused the token of a file.

use types::ErrorCode;

use super::Attempt;
use crate::service::CopyResult;
use crate::tokens::token_gap;

impl Attempt<'_> {
    /// A refusal, with a sentence about the token if its audience or scopes may be the reason.
    pub(super) fn explained(&self, mut result: CopyResult) -> CopyResult {
        let CopyResult::Failed { problem, .. } = &mut result else {
            return result;
        };
        let denials = [ErrorCode::PeerDenied, ErrorCode::PeerForbidden].map(ErrorCode::name);
        if !denials.contains(&problem.code.as_str()) {
            return result;
        }
        let ends = [&self.source, &self.destination];
        let refused = ends.into_iter().find(|end| end.side.name() == problem.side);
        let gap = refused.and_then(|end| {
            let token = end.access.bearer.as_ref()?;
            token_gap(token, &end.location, end.side, &self.claimed.job.options)
        });
        if let Some(gap) = gap {
            problem.reason.push_str("; ");
            problem.reason.push_str(&gap);
        }
        result
    }
}
