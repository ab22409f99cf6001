//! In whose name something is done, whatever it is: storage is opened as that user before the
//! question whether it may be done is asked, so that nothing is looked at with other rights.

use std::sync::Arc;

use credentials::Credential;
use types::Error;

use crate::decide::{Request, Trail, check_validity};
use crate::policy::Policy;
use crate::who::Person;

/// In whose name something is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InTheNameOf {
    /// The local user that the rules or the site's mappings name.
    pub user: Option<Arc<str>>,
    /// The virtual organisation whose quota counts it.
    pub vo: Option<Arc<str>>,
}

/// In whose name the holder of a credential does something with a path; the operation of the
/// request does not matter. Anonymous when the credential is useless.
#[must_use]
pub fn in_the_name_of(policy: &Policy, credential: Result<&Credential, &Error>, request: &Request) -> InTheNameOf {
    let valid = credential
        .ok()
        .map(|credential| check_validity(credential, request, &mut Trail(None)));
    let Some(Ok(credential)) = valid else {
        return InTheNameOf::default();
    };
    let person = Person::holder(&credential, request.client_address);
    let said = policy.said(&person, request.path.as_str());
    InTheNameOf {
        user: said.user().cloned().or_else(|| credential.local_user().map(Arc::from)),
        vo: said.vo().cloned().or_else(|| credential.vo().map(Arc::from)),
    }
}
