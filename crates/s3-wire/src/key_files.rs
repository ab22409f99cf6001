//! The files in which users keep their keys: Amazon's `~/.aws/credentials` and `~/.aws/config`, and
//! the groups `[S3:HOST]` of gfal's configuration. Both are INI: groups in brackets, lines with
//! `key = value`, comments with `#` or `;`.

use types::Secret;

use crate::account::{Account, Addressing};

/// A profile of Amazon's files.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The keys, if the profile has both of them.
    pub keys: Option<(String, Secret)>,
    /// The session token.
    pub token: Option<Secret>,
    /// The region.
    pub region: Option<String>,
    /// The setting by which other programs get the keys of the profile, which we do not follow.
    pub other_way: Option<&'static str>,
}

/// Settings of profiles without keys of their own ("Configuration and credential file settings" of
/// the AWS CLI): the keys come from a program, from a log-in, or from another account.
const OTHER_WAYS: [&str; 6] = [
    "credential_process",
    "sso_session",
    "sso_start_url",
    "web_identity_token_file",
    "role_arn",
    "login_session",
];

impl Profile {
    /// The account, if there are keys.
    #[must_use]
    pub fn account(self) -> Option<Account> {
        let (key_id, secret) = self.keys?;
        Some(Account {
            key_id,
            secret,
            token: self.token,
            region: self.region,
            addressing: None,
        })
    }
}

/// The profile `name` of the texts of Amazon's files. In `config` its group is `profile NAME`, but
/// `default` stands alone ("Configuration and credential file settings" of the AWS CLI). What
/// `credentials` says wins.
#[must_use]
pub fn profile(credentials: &str, config: &str, name: &str) -> Profile {
    let in_config = match name {
        "default" => vec!["default".to_owned(), "profile default".to_owned()],
        name => vec![format!("profile {name}")],
    };
    let find = |key: &str| {
        let first = value(credentials, |group| group == name, key);
        first.or_else(|| value(config, |group| in_config.iter().any(|known| known == group), key))
    };
    Profile {
        keys: find("aws_access_key_id").zip(find("aws_secret_access_key").map(Secret::new)),
        token: find("aws_session_token").map(Secret::new),
        region: find("region"),
        other_way: OTHER_WAYS.into_iter().find(|setting| find(setting).is_some()),
    }
}

/// The storage at `host` in gfal's configuration. The groups are asked in gfal's order: `S3:HOST`,
/// `S3:` and the host without its first label, `S3`; names are in capitals, and ours match in any
/// case (gfal2, `gfal_http_plugin.cpp`: `gfal_http_get_aws_params`). A group without keys passes
/// the question on.
#[must_use]
pub fn grid_store(text: &str, host: &str) -> Option<Account> {
    let shorter = host.split_once('.').map(|(_, rest)| format!("S3:{rest}"));
    let groups = [Some(format!("S3:{host}")), shorter, Some("S3".to_owned())];
    for group in groups.into_iter().flatten() {
        let find = |key: &str| value(text, |known| known.eq_ignore_ascii_case(&group), key);
        let Some((key_id, secret)) = find("ACCESS_KEY").zip(find("SECRET_KEY")) else {
            continue;
        };
        let is_path = find("ALTERNATE").map(|word| matches!(word.to_ascii_lowercase().as_str(), "true" | "1"));
        let addressing = match is_path {
            Some(true) => Some(Addressing::Path),
            Some(false) => Some(Addressing::VirtualHost),
            None => None,
        };
        return Some(Account {
            key_id,
            secret: Secret::new(secret),
            token: find("TOKEN").map(Secret::new),
            region: find("REGION"),
            addressing,
        });
    }
    None
}

/// Whether gfal's configuration has keys in the group of this very host.
#[must_use]
pub fn has_store(text: &str, host: &str) -> bool {
    let group = format!("S3:{host}");
    let has = |key: &str| value(text, |known| known.eq_ignore_ascii_case(&group), key).is_some();
    has("ACCESS_KEY") && has("SECRET_KEY")
}

/// The last value of a key in the groups that `is_group` accepts; an empty one is none. Keys match
/// in any case.
fn value(text: &str, is_group: impl Fn(&str) -> bool, key: &str) -> Option<String> {
    let (mut is_within, mut found) = (false, None);
    for line in text.lines() {
        // A line that begins with a space belongs to the one above it, such as a nested `s3 =`.
        let trimmed = line.trim();
        if trimmed.starts_with(['#', ';']) || trimmed.is_empty() {
            continue;
        }
        if let Some(group) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_within = is_group(group.trim());
        } else if is_within
            && !line.starts_with([' ', '\t'])
            && let Some((name, value)) = trimmed.split_once('=')
            && name.trim().eq_ignore_ascii_case(key)
        {
            found = Some(value.trim().to_owned());
        }
    }
    found.filter(|value| !value.is_empty() && !value.chars().any(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_from_both_files() {
        let credentials = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=s/+=\n\n\
            [temp]\nAWS_ACCESS_KEY_ID=B\naws_secret_access_key = t\naws_session_token = u\n";
        let config = "[default]\nregion = eu-west-1\ns3 =\n  region = nested\n[profile temp]\nregion=r\n[profile half]\naws_access_key_id = C\n[profile run]\ncredential_process = /bin/x\n";
        let read = profile(credentials, config, "default").account().unwrap();
        assert_eq!((read.key_id.as_str(), read.secret.expose()), ("A", "s/+="));
        assert_eq!(
            (read.region.as_deref(), read.token.is_none()),
            (Some("eu-west-1"), true)
        );
        let read = profile(credentials, config, "temp").account().unwrap();
        assert_eq!((read.key_id.as_str(), read.region.as_deref()), ("B", Some("r")));
        assert_eq!(read.token.unwrap().expose(), "u");
        let run = profile(credentials, config, "run");
        assert_eq!(run.other_way, Some("credential_process"));
        assert!(run.account().is_none());
        assert!(profile(credentials, config, "half").account().is_none());
        assert!(profile(credentials, config, "other").account().is_none());
    }

    #[test]
    fn gfals_groups_are_asked_from_the_closest_on() {
        let text = "[S3]\nACCESS_KEY=all\nSECRET_KEY=s\n[S3:CERN.CH]\nACCESS_KEY=site\nSECRET_KEY=s\nALTERNATE=true\n\
            REGION=r\n[S3:A.CERN.CH]\nACCESS_KEY=incomplete\n[HTTP PLUGIN]\nACCESS_KEY=no\n";
        let of = |host: &str| grid_store(text, host).unwrap();
        assert_eq!(of("a.cern.ch").key_id, "site");
        assert_eq!(of("a.cern.ch").addressing, Some(Addressing::Path));
        assert_eq!(of("127.0.0.1").key_id, "all");
        assert_eq!(of("127.0.0.1").addressing, None);
        assert!(has_store(text, "cern.ch") && !has_store(text, "a.cern.ch") && !has_store(text, "127.0.0.1"));
        assert!(grid_store("[HTTP PLUGIN]\nA=b\n", "h").is_none());
    }
}
