//! The user's accounts at S3 storages, and where they were found: a named remote, the variables and
//! files of Amazon's tools, gfal's configuration.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use config::Remote;
use remote::{Account, Addressing};
use s3_wire::limits::KEY_FILE_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Result, Secret, Side};

use super::credentials::first_line;
use crate::next_step::SECRET_KEY_FILE;

/// Where gfal's configuration is, unless `GFAL_CONFIG_DIR` names another directory.
const GFAL_DIRECTORY: &str = "/etc/gfal2.d";

/// An account, and who named it.
#[derive(Clone, Debug)]
pub(crate) struct FoundAccount {
    pub(crate) account: Account,
    /// The variable, file or remote.
    pub(crate) place: String,
}

impl FoundAccount {
    /// The account of a named remote.
    ///
    /// # Errors
    /// Its secret key cannot be read.
    pub(super) fn of_remote(remote: &Remote) -> Result<Option<Self>> {
        let (Some(key_id), Some(file)) = (&remote.access_key_id, &remote.secret_key_file) else {
            return Ok(None);
        };
        let secret = first_line(file, "secret key").map_err(|error| {
            let (why, name) = (error.detail().unwrap_or_default(), &remote.name);
            let unusable = Error::new(error.code(), Side::Client, Phase::Authenticate);
            unusable.with_detail(format!("{SECRET_KEY_FILE} of the remote {name}: {why}"))
        })?;
        let addressing = match remote.addressing.as_deref() {
            Some("path") => Some(Addressing::Path),
            Some(_) => Some(Addressing::VirtualHost),
            None => None,
        };
        Ok(Some(Self {
            account: Account {
                key_id: key_id.clone(),
                secret,
                token: None,
                region: remote.region.clone(),
                addressing,
            },
            place: format!("the remote {}", remote.name),
        }))
    }

    /// The account for a host: from `AWS_ACCESS_KEY_ID`, else from gfal's group for the host, else
    /// from the profile in Amazon's files.
    ///
    /// # Errors
    /// A profile that `AWS_PROFILE` names does not exist; `AWS_SECRET_ACCESS_KEY` is missing.
    pub(super) fn find(host: &str) -> Result<Option<Self>> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let region = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(variable);
        let mut found = match of_variables(variable).or_else(|| Some(of_gfal(variable, host)?.0)) {
            Some(found) => Some(found),
            None => of_profile(variable)?,
        };
        if let Some(found) = &mut found
            && let Some(region) = region
        {
            found.account.region = Some(region);
        }
        Ok(found)
    }

    /// For a place that is written as a URL: the account that was found for it, else that of a
    /// named remote at its server.
    ///
    /// # Errors
    /// That of the search. No remote's key takes the place of one that cannot be used.
    pub(super) fn or_of_host(
        given: Result<Option<Self>>,
        of_host: impl FnOnce() -> Option<Self>,
    ) -> Result<Option<Self>> {
        Ok(given?.or_else(of_host))
    }

    /// Whether gfal's configuration has a group for this very host.
    pub(super) fn is_named_by_gfal(host: &str) -> bool {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        of_gfal(variable, host).is_some_and(|(_, text)| s3_wire::has_store(&text, host))
    }

    /// The account as a sentence.
    pub(crate) fn describe(&self) -> String {
        format!("the access key {} of {}", self.account.key_id, self.place)
    }
}

fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Option<FoundAccount> {
    Some(FoundAccount {
        account: Account {
            key_id: variable("AWS_ACCESS_KEY_ID")?,
            secret: Secret::new(variable("AWS_SECRET_ACCESS_KEY")?),
            token: variable("AWS_SESSION_TOKEN").map(Secret::new),
            region: None,
            addressing: None,
        },
        place: "AWS_ACCESS_KEY_ID".to_owned(),
    })
}

/// The account, and the text in which it stands.
fn of_gfal(variable: impl Fn(&str) -> Option<String>, host: &str) -> Option<(FoundAccount, String)> {
    let directory = PathBuf::from(variable("GFAL_CONFIG_DIR").unwrap_or_else(|| GFAL_DIRECTORY.to_owned()));
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "conf"))
        .collect();
    files.sort();
    // gfal reads them as one, and a group of a later file adds to that of an earlier one.
    let text: String = files
        .iter()
        .filter_map(|file| read(file))
        .map(|text| text + "\n")
        .collect();
    let account = s3_wire::grid_store(&text, host)?;
    let place = format!("[S3:{host}] in {}", directory.display());
    Some((FoundAccount { account, place }, text))
}

fn of_profile(variable: impl Fn(&str) -> Option<String>) -> Result<Option<FoundAccount>> {
    let home = variable("HOME").unwrap_or_default();
    let file = |name: &str, usual: &str| variable(name).unwrap_or_else(|| format!("{home}/.aws/{usual}"));
    let (keys, config) = (
        file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
        file("AWS_CONFIG_FILE", "config"),
    );
    let text = |file: &str| read(Path::new(file)).unwrap_or_default();
    let name = variable("AWS_PROFILE");
    let chosen = name.as_deref().unwrap_or("default");
    let profile = s3_wire::profile(&text(&keys), &text(&config), chosen);
    let other_way = profile.other_way;
    let refuse = |words: String| {
        let error = Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Authenticate);
        Err(error.with_detail(words))
    };
    match (profile.account(), name.is_some(), other_way) {
        (Some(account), _, _) => Ok(Some(FoundAccount { account, place: keys })),
        (None, _, Some(setting)) => refuse(format!(
            "the profile {chosen} of {config} gets its keys by {setting}, which this program does not follow; put them \
             into the environment: eval \"$(aws configure export-credentials --profile {chosen} --format env)\""
        )),
        (None, false, None) if variable("AWS_ACCESS_KEY_ID").is_some() => {
            refuse("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not".to_owned())
        }
        (None, true, None) => refuse(format!("the profile {chosen} of AWS_PROFILE has no keys in {keys}")),
        (None, false, None) => Ok(None),
    }
}

/// A file, if it can be read; keys end up in no message.
fn read(file: &Path) -> Option<String> {
    let mut text = String::new();
    let opened = std::fs::File::open(file).ok()?;
    opened.take(KEY_FILE_BYTES_MAX as u64).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remotes_key_is_used_for_a_url_only_where_no_other_is_given() {
        let environment = |name: &str| Some(format!("env-{name}"));
        let of_host = || {
            let mut found = of_variables(environment).unwrap();
            found.place = "the remote lab".to_owned();
            Some(found)
        };
        let place = |given: Option<FoundAccount>| FoundAccount::or_of_host(Ok(given), of_host).unwrap().unwrap().place;
        assert_eq!(place(of_variables(environment)), "AWS_ACCESS_KEY_ID");
        assert_eq!(place(None), "the remote lab");
        let unusable = Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Authenticate);
        assert!(FoundAccount::or_of_host(Err(unusable), of_host).is_err());
    }
}
