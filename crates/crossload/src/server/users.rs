//! Local users and quotas of virtual organisations, from the configuration.

use std::path::Path;

use config::{Configuration, Export, Switch, UserGroups};
use endpoint::{UserSettings, Users};
use storage::VoQuota;
use types::LogicalPath;

use crate::failure::Failure;

/// The local users; `None`: all files belong to the server's account.
///
/// # Errors
/// `users.switch = "required"` and the kernel refuses.
pub(super) fn users(configuration: &Configuration) -> Result<Option<Users>, Failure> {
    let users = &configuration.users;
    let acts = users.switch != Switch::Never && Users::can_switch();
    if users.switch == Switch::Required && !acts {
        let why = "users.switch: this process may not act as other users: \
            run it as root, or with the capabilities CAP_SETUID and CAP_SETGID";
        return Err(Failure::invalid(why.to_owned()));
    }
    let settings = UserSettings {
        minimum_uid: users.minimum_uid,
        default_user: users.default_user.clone(),
        all_groups: users.groups == UserGroups::All,
    };
    Ok(acts.then(|| Users::new(settings)))
}

/// The quotas that count the files of a directory.
pub(super) fn quotas_in(configuration: &Configuration, directory: &Path) -> Vec<VoQuota> {
    let of_export = |export: &Export| {
        let holding = |path: &LogicalPath| {
            let exports = configuration.exports.iter().map(|export| &export.path);
            let holding = exports.filter(|export| path.is_within(export));
            holding.max_by_key(|export| export.as_str().len()) == Some(&export.path)
        };
        let quotas = configuration.quotas.iter().filter(|quota| holding(&quota.path));
        let inner = quotas.filter_map(|quota| {
            Some(VoQuota {
                vo: quota.vo.as_str().into(),
                path: quota.path.below(&export.path)?,
                shown: quota.path.clone(),
                limit_bytes: quota.bytes.0,
                uids: quota.uids.clone(),
            })
        });
        inner.collect::<Vec<_>>()
    };
    let exports = configuration.exports.iter();
    let same = exports.filter(|export| export.directory.as_deref() == Some(directory));
    same.flat_map(of_export).collect()
}
