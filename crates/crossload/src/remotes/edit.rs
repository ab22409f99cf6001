//! `config remote`: adds, lists, shows and removes remotes. The rest of the file stays as it is.

use std::path::{Path, PathBuf};

use config::Remote;
use config::section::Values as _;
use config::values::Setting;
use serde_json::{Map, Value, json};

use super::Remotes;
use crate::command_line::RemoteOptions;
use crate::failure::Failure;
use crate::output;

/// `config remote add`.
pub(super) fn add(remotes: &Remotes, options: &RemoteOptions) -> Result<(), Failure> {
    append(remotes, &[of_options(options)?])?;
    output::line(&format!("added {} to {}", options.name, remotes.file.display()));
    Ok(())
}

/// Appends remotes to the file.
///
/// # Errors
/// As [`Remotes::write`].
pub(super) fn append(remotes: &Remotes, more: &[Remote]) -> Result<(), Failure> {
    let mut text = remotes.text.trim_end().to_owned();
    for remote in more {
        if !text.is_empty() {
            text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
        }
        text.push_str(&section(remote));
    }
    remotes.write(&text)
}

/// A remote as the file has it.
pub(super) fn section(remote: &Remote) -> String {
    let lines = lines(remote)
        .into_iter()
        .map(|(key, value)| format!("{key} = {value}\n"));
    format!("[[remote]]\n{}", lines.collect::<String>())
}

/// `config remote list`.
pub(super) fn list(remotes: &Remotes, is_json: bool) -> Result<(), Failure> {
    let known = &remotes.known.remotes;
    if known.is_empty() && !is_json {
        output::complain(&format!(
            "no remotes in {}: add one with \"crossload config remote add NAME URL\"",
            remotes.file.display()
        ));
    }
    let width = known.iter().map(|remote| remote.name.len()).max().unwrap_or_default();
    for remote in known {
        match is_json {
            true => output::json(&json!({"name": remote.name, "url": remote.url})),
            false => output::line(&format!("{:width$}  {}", remote.name, remote.url)),
        }
    }
    Ok(())
}

/// `config remote show`. Its values are no secrets: they name files that hold them.
pub(super) fn show(remotes: &Remotes, name: &str, is_json: bool) -> Result<(), Failure> {
    let remote = remotes.get(name)?;
    let lines = lines(remote);
    if !is_json {
        lines
            .iter()
            .for_each(|(key, value)| output::line(&format!("{key} = {value}")));
        return Ok(());
    }
    let table = lines.iter().map(|(key, value)| format!("{key} = {value}\n"));
    let table: toml::Table =
        toml::from_str(&table.collect::<String>()).map_err(|error| Failure::invalid(error.message().to_owned()))?;
    let json: Map<String, Value> = serde_json::to_value(table)
        .ok()
        .and_then(|value| value.as_object().cloned())
        .unwrap_or_default();
    output::json(&Value::Object(json));
    Ok(())
}

/// `config remote remove`. Secrets that the import has stored go too.
pub(super) fn remove(remotes: &Remotes, name: &str) -> Result<(), Failure> {
    let remote = remotes.get(name)?;
    remotes.write(&without(remotes, name))?;
    let own = super::directory()?;
    for file in [&remote.token_file, &remote.password_file, &remote.secret_key_file] {
        if let Some(file) = file.as_ref().filter(|file| file.starts_with(&own)) {
            // One that is gone already is no failure.
            let _ = std::fs::remove_file(file);
        }
    }
    output::line(&format!("removed {name} from {}", remotes.file.display()));
    Ok(())
}

/// The text of the file without a remote. A comment directly above the next remote stays there.
fn without(remotes: &Remotes, name: &str) -> String {
    let known = &remotes.known;
    let lines: Vec<&str> = remotes.text.split_inclusive('\n').collect();
    let Some(index) = known.remotes.iter().position(|remote| remote.name == name) else {
        return remotes.text.clone();
    };
    let begin = known.remote_lines[index] - 1;
    let next = known.remote_lines.get(index + 1).map_or(lines.len(), |line| line - 1);
    let is_kept = |line: &&&str| line.starts_with('#');
    let kept = match next < lines.len() {
        true => lines[begin..next].iter().rev().take_while(is_kept).count(),
        false => 0,
    };
    [&lines[..begin], &lines[next - kept..]].concat().concat()
}

/// The keys that a remote has, and their values as TOML.
fn lines(remote: &Remote) -> Vec<(&'static str, String)> {
    let list = |files: &Vec<PathBuf>| files.write().filter(|_| !files.is_empty());
    let values = [
        remote.name.write(),
        remote.url.write(),
        remote.token_file.write(),
        remote.issuer.write(),
        remote.user.write(),
        remote.password_file.write(),
        remote.proxy.write(),
        remote.cert.write(),
        remote.key.write(),
        list(&remote.cacert),
        remote.nbstreams.write(),
        remote.transfers.write(),
        remote.access_key_id.write(),
        remote.secret_key_file.write(),
        remote.region.write(),
        remote.addressing.write(),
    ];
    let keys = Remote::SECTION.keys.iter().map(|key| key.name);
    keys.zip(values)
        .filter_map(|(key, value)| Some((key, value?)))
        .collect()
}

/// The remote that the options describe. File names are relative to the current directory there,
/// and to that of the file here.
fn of_options(options: &RemoteOptions) -> Result<Remote, Failure> {
    let absolute =
        |file: &PathBuf| std::path::absolute(file).map_err(|cause| Failure::system(Path::new(file).display(), &cause));
    let file = |file: &Option<PathBuf>| file.as_ref().map(absolute).transpose();
    Ok(Remote {
        name: options.name.clone(),
        url: options.url.clone(),
        token_file: file(&options.token_file)?,
        issuer: options.issuer.clone(),
        user: options.user.clone(),
        password_file: file(&options.password_file)?,
        proxy: file(&options.proxy)?,
        cert: file(&options.cert)?,
        key: file(&options.key)?,
        cacert: options.cacert.iter().map(absolute).collect::<Result<_, _>>()?,
        nbstreams: options.nbstreams,
        transfers: options.transfers,
        access_key_id: options.access_key_id.clone(),
        secret_key_file: file(&options.secret_key_file)?,
        region: options.region.clone(),
        addressing: options.addressing.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{Command, CommandLine, ConfigAction, RemoteAction};
    use clap::Parser as _;

    fn added(remotes: &Remotes, line: &str) -> Remotes {
        let words = format!("crossload config remote add {line}");
        let parsed = CommandLine::try_parse_from(words.split_whitespace()).unwrap().command;
        let Command::Config(ConfigAction::Remote(RemoteAction::Add(options))) = parsed else {
            panic!("{line}");
        };
        append(remotes, &[of_options(&options).unwrap()]).unwrap();
        Remotes::load_from(remotes.file.clone()).unwrap()
    }

    #[test]
    fn what_was_added_is_shown_and_what_is_removed_takes_nothing_along() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("client.toml");
        let none = Remotes::load_from(file.clone()).unwrap();
        none.write("# mine\n").unwrap();
        let none = Remotes::load_from(file.clone()).unwrap();
        let one = added(&none, "a davs://h/x --token-file /t --cacert /c --cacert /d -n 4");
        let keys: Vec<_> = lines(one.get("a").unwrap()).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["name", "url", "token_file", "cacert", "nbstreams"]);
        let two = added(&one, "b https://h/ --user u --password-file p");
        let absolute = std::env::current_dir().unwrap().join("p");
        assert_eq!(two.get("b").unwrap().password_file, Some(absolute));
        two.write(
            &two.text
                .replace("\n\n[[remote]]\nname = \"b\"", "\n\n# second\n[[remote]]\nname = \"b\""),
        )
        .unwrap();
        let two = Remotes::load_from(file.clone()).unwrap();
        two.write(&without(&two, "a")).unwrap();
        let left = Remotes::load_from(file).unwrap();
        assert!(left.find("a").is_none() && left.find("b").is_some());
        assert!(
            left.text.starts_with("# mine\n") && left.text.contains("# second\n[[remote]]"),
            "{}",
            left.text
        );
        assert_eq!(without(&left, "b").trim_end(), "# mine\n\n# second");
    }

    #[test]
    fn every_key_is_written() {
        let remote = Remote {
            name: "a".to_owned(),
            url: "s3s://h".to_owned(),
            token_file: Some("/t".into()),
            issuer: Some("https://i".to_owned()),
            user: Some("u".to_owned()),
            password_file: Some("/p".into()),
            proxy: Some("/x".into()),
            cert: Some("/c".into()),
            key: Some("/k".into()),
            cacert: vec!["/ca".into()],
            nbstreams: Some(1),
            transfers: Some(2),
            access_key_id: Some("i".to_owned()),
            secret_key_file: Some("/s".into()),
            region: Some("r".to_owned()),
            addressing: Some("path".to_owned()),
        };
        let keys: Vec<_> = lines(&remote).into_iter().map(|(key, _)| key).collect();
        let declared: Vec<_> = Remote::SECTION.keys.iter().map(|key| key.name).collect();
        assert_eq!(keys, declared);
    }
}
