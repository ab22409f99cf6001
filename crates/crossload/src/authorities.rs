//! The authorities that options name.

use std::path::{Path, PathBuf};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{self, PemObject as _};
use types::ErrorCode;

use crate::command_line;
use crate::failure::{Advice, Failure};

/// Refuses authorities that options name and that are none: without them, the server's certificate
/// would seem to be at fault.
pub(crate) fn refuse_unusable(access: &command_line::Access) -> Result<(), Failure> {
    for file in &access.cacert {
        authorities_in(file).map_err(|why| no_authorities("--cacert", file, &why))?;
    }
    let directory = access.capath.as_deref();
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        let why = if directory.exists() {
            "it is no directory"
        } else {
            NO_SUCH_FILE
        };
        return Err(no_authorities("--capath", directory, why));
    }
    Ok(())
}

/// The same for those of mails and webhooks.
///
/// # Errors
/// The file that has none.
pub(crate) fn refuse_unusable_of_reports(files: &[PathBuf]) -> Result<(), Failure> {
    files
        .iter()
        .try_for_each(|file| authorities_in(file).map_err(|why| no_authorities("--report-cacert", file, &why)))
}

/// What an option says that names a file which does not exist.
const NO_SUCH_FILE: &str = "there is no such file";

/// Reads a file of authorities.
///
/// # Errors
/// Why it has none.
fn authorities_in(file: &Path) -> Result<(), String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found {
        _ if !file.exists() => Err(NO_SUCH_FILE.to_owned()),
        Ok(found) if found.is_empty() => Err("there is no certificate in it".to_owned()),
        Ok(_) => Ok(()),
        Err(pem::Error::Io(cause)) => Err(cause.to_string()),
        Err(cause) => Err(format!("its certificates cannot be read: {cause}")),
    }
}

fn no_authorities(option: &str, path: &Path, why: &str) -> Failure {
    let right = match option {
        "--capath" => "Name a directory with the certificates of authorities, such as /etc/grid-security/certificates.",
        _ => "Name a PEM file with the certificates of authorities (BEGIN CERTIFICATE).",
    };
    let invalid = Failure::invalid(format!("{option} names {}: {why}", path.display()));
    Failure {
        advice: Some(Advice::Own(right.to_owned())),
        exit_code: match why {
            NO_SUCH_FILE => ErrorCode::NotFound.exit_code(),
            _ => invalid.exit_code,
        },
        ..invalid
    }
}
