//! `config import rclone`: takes the remotes of rclone's configuration.
//!
//! Its file has sections of `key = value` (<https://rclone.org/docs/#configuration-encryption> says
//! how the whole file may be encrypted). Passwords in it are obscured, not encrypted: the key is
//! part of rclone's source (`fs/config/obscure/obscure.go`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aws_lc_rs::cipher::{AES_256, DecryptingKey, DecryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use config::{CONFIGURATION_BYTES_MAX, ClientConfiguration, Mistake, Remote, read_text};
use serde_json::json;
use types::Secret;
use zeroize::Zeroizing;

use super::{Remotes, edit, replace};
use crate::command_line::ImportOptions;
use crate::exit_code::SOME_FAILED;
use crate::failure::Failure;
use crate::output;

/// The first line of an encrypted file that is no comment.
const ENCRYPTED: &str = "RCLONE_ENCRYPT_V0:";
/// The key that obscures passwords.
const OBSCURING_KEY: [u8; 32] = [
    0x9c, 0x93, 0x5b, 0x48, 0x73, 0x0a, 0x55, 0x4d, 0x6b, 0xfd, 0x7c, 0x63, 0xc8, 0x86, 0xa9, 0x2b, 0xd3, 0x90, 0x19,
    0x8e, 0xb8, 0x12, 0x8a, 0xfb, 0xf4, 0xde, 0x16, 0x2b, 0x8b, 0x95, 0xf6, 0x38,
];
/// Length of the initialisation vector before an obscured password, in bytes.
const VECTOR_BYTES: usize = 16;
/// Keys of rclone that mean nothing here.
const MEANINGLESS: [&str; 5] = ["type", "vendor", "provider", "description", "env_auth"];

/// Takes what can be taken. The exit code is 1 if a remote was left out.
///
/// # Errors
/// A file cannot be read or written, or is encrypted.
pub(crate) fn run(options: &ImportOptions) -> Result<u8, Failure> {
    let remotes = Remotes::load()?;
    let file = match &options.file {
        Some(file) => file.clone(),
        None => usual_file()?,
    };
    let read = read_text(&file, CONFIGURATION_BYTES_MAX);
    let text = read.map_err(|cause| Failure::system(file.display(), &cause))?;
    let text = Zeroizing::new(text);
    if text.lines().any(|line| line.trim() == ENCRYPTED) {
        return Err(Failure::invalid(format!(
            "{} is encrypted: write it in clear text with \"rclone config encryption remove\", on a copy if you \
             like",
            file.display()
        )));
    }
    let directory = super::directory()?.join("secrets");
    let (mut taken, mut code) = (Vec::new(), 0);
    for (name, keys) in sections(&text) {
        let read = match remotes.find(&name) {
            Some(_) => Err("a remote has this name already".to_owned()),
            None => Import::read(&name, &keys, &directory).and_then(|import| import.checked(&remotes)),
        };
        tell(&name, read.as_ref(), options.json);
        match read {
            Ok(import) => taken.push(import),
            Err(_) => code = SOME_FAILED,
        }
    }
    if options.dry_run || taken.is_empty() {
        return Ok(code);
    }
    for (file, secret) in taken.iter().flat_map(|import| &import.secrets) {
        let written = replace(file, format!("{}\n", secret.expose()).as_bytes());
        written.map_err(|cause| Failure::system(file.display(), &cause))?;
    }
    let taken: Vec<Remote> = taken.into_iter().map(|import| import.remote).collect();
    edit::append(&remotes, &taken)?;
    Ok(code)
}

fn tell(name: &str, read: Result<&Import, &String>, is_json: bool) {
    let (outcome, url, words, without) = match read {
        Ok(import) => (
            "taken",
            Some(&import.remote.url),
            import.notice.clone(),
            import.without.clone(),
        ),
        Err(why) => ("left_out", None, Some(why.clone()), Vec::new()),
    };
    if is_json {
        return output::json(&json!({"name": name, "outcome": outcome, "url": url, "reason": words,
            "keys_left_out": without}));
    }
    let mut line = match url {
        Some(url) => format!("{name}: taken, {url}"),
        None => format!("{name}: left out"),
    };
    if let Some(words) = words {
        line.push_str(&format!("; {words}"));
    }
    if !without.is_empty() {
        line.push_str(&format!("; without {}", without.join(", ")));
    }
    output::line(&output::name(&line));
}

/// Where rclone looks for its file (<https://rclone.org/docs/#config-string>).
fn usual_file() -> Result<PathBuf, Failure> {
    if let Some(file) = std::env::var_os("RCLONE_CONFIG").filter(|file| !file.is_empty()) {
        return Ok(file.into());
    }
    let own = super::directory()?;
    Ok(own.with_file_name("rclone").join("rclone.conf"))
}

/// The keys of a section.
type Keys = BTreeMap<String, String>;

/// The sections of the file, in their order. Comments begin with `#` or `;`.
fn sections(text: &str) -> Vec<(String, Keys)> {
    let mut sections: Vec<(String, Keys)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push((name.to_owned(), Keys::new()));
        } else if let (Some((key, value)), Some((_, keys))) = (line.split_once('='), sections.last_mut())
            && !line.starts_with(['#', ';'])
        {
            keys.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    sections
}

/// A remote of rclone that can be taken.
#[derive(Debug)]
struct Import {
    remote: Remote,
    /// What goes into files beside the configuration.
    secrets: Vec<(PathBuf, Secret)>,
    notice: Option<String>,
    /// Keys that are not taken.
    without: Vec<String>,
}

impl Import {
    /// Reads a section. Secrets will be in files of `directory`.
    ///
    /// # Errors
    /// Why it cannot be taken.
    fn read(name: &str, keys: &Keys, directory: &Path) -> Result<Self, String> {
        if !Remote::is_name(name) {
            return Err("its name has other characters than letters, digits, \"-\", \"_\" and \".\"".to_owned());
        }
        let mut section = Section {
            left: keys.clone(),
            secrets: Vec::new(),
            directory: directory.join(name),
        };
        let mut remote = empty(name);
        let mut notice = None;
        match section.take("type").as_deref() {
            Some("webdav") => {
                remote.url = section.demand("url")?;
                remote.token_file = section.secret("bearer_token", "token");
                if let Some(user) = section.take("user") {
                    remote.user = Some(user);
                    remote.password_file = section.password()?;
                }
            }
            Some("http") => {
                remote.url = section.demand("url")?;
                notice = Some("servers without WebDAV list nothing here".to_owned());
            }
            Some("local") => {
                remote.url = "/".to_owned();
                notice = Some("its paths begin at /, not in the current directory".to_owned());
            }
            Some("s3") => {
                remote.url = endpoint(section.take("endpoint"), section.left.get("region"));
                remote.access_key_id = section.take("access_key_id");
                remote.secret_key_file = section.secret("secret_access_key", "key");
                remote.region = section.take("region");
                // rclone's default is the path.
                let addressing = match section.take("force_path_style").as_deref() {
                    Some("false") => "host",
                    _ => "path",
                };
                remote.addressing = Some(addressing.to_owned());
            }
            Some(other) => return Err(format!("there is no client for its type, {other}")),
            None => return Err("it has no type".to_owned()),
        }
        let left = section.left.into_iter().filter(|(key, value)| {
            let is_off = value.is_empty() || value == "false";
            !is_off && !MEANINGLESS.contains(&key.as_str())
        });
        Ok(Self {
            remote,
            secrets: section.secrets,
            notice,
            without: left.map(|(key, _)| key).collect(),
        })
    }

    /// The same, if the configuration accepts it.
    ///
    /// # Errors
    /// Its mistake.
    fn checked(self, remotes: &Remotes) -> Result<Self, String> {
        let text = edit::section(&self.remote);
        match ClientConfiguration::parse(&text, &remotes.file) {
            Ok(_) => Ok(self),
            Err(faults) => {
                let first = faults.0.first();
                Err(first.map(Mistake::words).unwrap_or_default())
            }
        }
    }
}

/// A section that is being read: what was taken is no longer in it.
struct Section {
    left: Keys,
    secrets: Vec<(PathBuf, Secret)>,
    /// The name of the remote, in the directory for secrets.
    directory: PathBuf,
}

impl Section {
    fn take(&mut self, key: &str) -> Option<String> {
        self.left.remove(key).filter(|value| !value.is_empty())
    }

    fn demand(&mut self, key: &str) -> Result<String, String> {
        self.take(key).ok_or_else(|| format!("it has no {key}"))
    }

    /// Moves a secret into a file with this ending.
    fn secret(&mut self, key: &str, ending: &str) -> Option<PathBuf> {
        let value = Zeroizing::new(self.take(key)?);
        Some(self.store(Secret::new(value.as_str()), ending))
    }

    fn store(&mut self, secret: Secret, ending: &str) -> PathBuf {
        let mut file = self.directory.clone().into_os_string();
        file.push(format!(".{ending}"));
        let file = PathBuf::from(file);
        self.secrets.push((file.clone(), secret));
        file
    }

    fn password(&mut self) -> Result<Option<PathBuf>, String> {
        let Some(obscured) = self.take("pass") else {
            return Ok(None);
        };
        let password = revealed(&obscured).ok_or_else(|| "its pass is not as rclone writes it".to_owned())?;
        Ok(Some(self.store(password, "password")))
    }
}

/// Reads an obscured password: an initialisation vector and the bytes, by AES-256-CTR.
fn revealed(obscured: &str) -> Option<Secret> {
    let bytes = URL_SAFE_NO_PAD.decode(obscured).ok()?;
    let (vector, text) = bytes.split_at_checked(VECTOR_BYTES)?;
    let context = DecryptionContext::Iv128(FixedLength::try_from(vector).ok()?);
    let key = UnboundCipherKey::new(&AES_256, &OBSCURING_KEY).ok()?;
    let mut text = Zeroizing::new(text.to_vec());
    let plain = DecryptingKey::ctr(key).ok()?.decrypt(&mut text, context).ok()?;
    let plain = std::str::from_utf8(plain).ok()?;
    (!plain.contains(char::is_control)).then(|| Secret::new(plain))
}

/// The URL of an S3 storage. Amazon's is known by its region.
fn endpoint(endpoint: Option<String>, region: Option<&String>) -> String {
    match endpoint
        .as_deref()
        .map(|endpoint| endpoint.split_once("://").unwrap_or(("https", endpoint)))
    {
        Some(("http", host)) => format!("s3://{host}"),
        Some((_, host)) => format!("s3s://{host}"),
        None => match region {
            Some(region) => format!("s3s://s3.{region}.amazonaws.com"),
            None => "s3s://s3.amazonaws.com".to_owned(),
        },
    }
}

fn empty(name: &str) -> Remote {
    Remote {
        name: name.to_owned(),
        url: String::new(),
        token_file: None,
        issuer: None,
        user: None,
        password_file: None,
        proxy: None,
        cert: None,
        key: None,
        cacert: Vec::new(),
        nbstreams: None,
        transfers: None,
        access_key_id: None,
        secret_key_file: None,
        region: None,
        addressing: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_read_as_rclone_obscures_it() {
        // What `rclone obscure` prints for it; the first bytes are random.
        let password = revealed("8e-1pHS_0YMq2iyNhTmDfElGStA2FMP0XVk").expect("a password");
        assert_eq!(password.expose(), "hunter2 ä");
        for broken in ["", "YWJj", "not base64!", "hunter2"] {
            assert!(revealed(broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn what_can_be_taken_is_and_the_rest_is_named() {
        let text = "[dav]\ntype = webdav\nurl = https://a/x\nvendor = other\nbearer_token = t0ken\nheaders = A,b\n\
            # nothing\n[plain]\ntype = webdav\nurl = http://a/x\nuser = me\npass = 8e-1pHS_0YMq2iyNhTmDfElGStA2FMP0XVk\n\
            [s]\ntype = s3\nendpoint = http://s3.example.org:9000\naccess_key_id = id\nsecret_access_key = k3y\n\
            [drive]\ntype = drive\n[a b]\ntype = local\n[here]\ntype = local\nnounc = false\n";
        let directory = tempfile::tempdir().unwrap();
        let remotes = Remotes::load_from(directory.path().join("client.toml")).unwrap();
        let read: Vec<_> = sections(text)
            .iter()
            .map(|(name, keys)| Import::read(name, keys, Path::new("/s"))?.checked(&remotes))
            .collect();
        let dav = read[0].as_ref().unwrap();
        assert_eq!(dav.remote.token_file.as_deref(), Some(Path::new("/s/dav.token")));
        assert_eq!(
            (dav.secrets[0].1.expose(), &dav.without),
            ("t0ken", &vec!["headers".to_owned()])
        );
        assert_eq!(
            read[1].as_ref().unwrap_err(),
            "user: a password needs an https or davs URL"
        );
        let s3 = read[2].as_ref().unwrap();
        assert_eq!(s3.remote.url, "s3://s3.example.org:9000");
        assert_eq!(s3.secrets[0].0, Path::new("/s/s.key"));
        assert!(
            read[3].as_ref().unwrap_err().contains("its type, drive"),
            "{:?}",
            read[3]
        );
        assert!(read[4].as_ref().unwrap_err().contains("its name"), "{:?}", read[4]);
        assert!(read[5].as_ref().unwrap().without.is_empty());
    }
}
