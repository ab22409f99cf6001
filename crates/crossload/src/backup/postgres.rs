//! Databases of PostgreSQL are saved and restored by its own programs.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::failure::Failure;

/// What a database is reached by: other users see the arguments of programs, so the password goes
/// by the environment.
struct Address {
    url: String,
    password: Option<String>,
}

impl Address {
    fn of(url: &str) -> Result<Self, Failure> {
        let unusable = || Failure::invalid("queue.database: not a URL of the form postgres://user@host/name");
        let mut parsed = Url::parse(url).map_err(|_| unusable())?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let mut password = parsed.password().map(decoded);
        if password.is_some() {
            parsed.set_password(None).map_err(|()| unusable())?;
        }
        let (mut kept, mut has_password) = (Vec::new(), false);
        for (key, value) in parsed.query_pairs() {
            match key == "password" {
                true => {
                    has_password = true;
                    password = Some(value.into_owned());
                }
                false => kept.push((key.into_owned(), value.into_owned())),
            }
        }
        if has_password {
            parsed.set_query(None);
            if !kept.is_empty() {
                parsed.query_pairs_mut().extend_pairs(kept);
            }
        }
        Ok(Self {
            url: parsed.into(),
            password,
        })
    }

    fn run<S: AsRef<OsStr>>(&self, program: &str, arguments: &[S]) -> Result<(), Failure> {
        let mut command = Command::new(program);
        command.args(arguments).arg("--dbname").arg(&self.url);
        if let Some(password) = &self.password {
            command.env("PGPASSWORD", password);
        }
        let ended = match command.output() {
            Err(cause) if cause.kind() == ErrorKind::NotFound => {
                return Err(Failure::invalid(format!(
                    "the database of the queue is in PostgreSQL, and {program} is not installed here; install \
                     postgresql-client"
                )));
            }
            ended => ended.map_err(|cause| Failure::system(program, &cause))?,
        };
        if ended.status.success() {
            return Ok(());
        }
        let says = String::from_utf8_lossy(&ended.stderr);
        let says: Vec<&str> = says.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        Err(Failure::invalid(format!("{program} failed: {}", says.join("; "))))
    }
}

/// Writes everything in a database to a file.
///
/// # Errors
/// `pg_dump` is missing, or fails.
pub(super) fn dump(url: &str, target: &Path) -> Result<(), Failure> {
    let fixed = ["--format=custom", "--no-owner", "--no-privileges", "--file"];
    let mut arguments: Vec<&OsStr> = fixed.iter().map(OsStr::new).collect();
    arguments.push(target.as_os_str());
    Address::of(url)?.run("pg_dump", &arguments)
}

/// Puts what [`dump`] has written into a database, all or nothing.
///
/// # Errors
/// `pg_restore` is missing, or fails.
pub(super) fn restore(url: &str, file: &Path, replaces: bool) -> Result<(), Failure> {
    let mut fixed = vec![
        "--exit-on-error",
        "--single-transaction",
        "--no-owner",
        "--no-privileges",
    ];
    if replaces {
        fixed.extend(["--clean", "--if-exists"]);
    }
    let mut arguments: Vec<&OsStr> = fixed.into_iter().map(OsStr::new).collect();
    arguments.push(file.as_os_str());
    Address::of(url)?.run("pg_restore", &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_no_arguments() {
        let address = |url: &str| {
            let address = Address::of(url).unwrap();
            (address.url, address.password)
        };
        let some = |text: &str| Some(text.to_owned());
        for (url, shown, password) in [
            ("postgres://u:p%40ss@h:5/n", "postgres://u@h:5/n", some("p@ss")),
            (
                "postgres://u@h/n?sslmode=disable",
                "postgres://u@h/n?sslmode=disable",
                None,
            ),
            (
                "postgres://u@h/n?password=x&sslmode=disable",
                "postgres://u@h/n?sslmode=disable",
                some("x"),
            ),
            ("postgresql://h/n?password=x", "postgresql://h/n", some("x")),
        ] {
            assert_eq!(address(url), (shown.to_owned(), password), "{url}");
        }
        assert!(Address::of("host=h password=x").is_err());
    }
}
