//! The authorities that options name.

use std::io::ErrorKind;
use std::path::Path;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use types::ErrorCode;

use crate::command_line;
use crate::failure::{Advice, Failure};
use crate::input_file::InputFile;
use crate::limits::AUTHORITIES_BYTES_MAX;

/// The authorities of `--cacert`. A file or directory without any is refused: the server's
/// certificate would seem to be at fault.
///
/// # Errors
/// The option.
pub(crate) fn read(access: &command_line::Access) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let read = read_all("--cacert", &access.cacert)?;
    let directory = access.capath.as_deref();
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        let why = if directory.exists() {
            "it is no directory"
        } else {
            NO_SUCH_FILE
        };
        return Err(no_authorities("--capath", directory, why));
    }
    Ok(read)
}

/// The same for those of mails and webhooks.
///
/// # Errors
/// The file that has none.
pub(crate) fn read_of_reports(files: &[InputFile]) -> Result<Vec<CertificateDer<'static>>, Failure> {
    read_all("--report-cacert", files)
}

fn read_all(option: &str, files: &[InputFile]) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let mut all = Vec::new();
    for file in files {
        let read = authorities_in(file).map_err(|why| no_authorities(option, file.path(), &why))?;
        all.extend(read);
    }
    Ok(all)
}

/// What an option says that names a file which does not exist.
const NO_SUCH_FILE: &str = "there is no such file";

/// Reads a file of authorities.
///
/// # Errors
/// Why it has none.
fn authorities_in(file: &InputFile) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = file.read(AUTHORITIES_BYTES_MAX).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => NO_SUCH_FILE.to_owned(),
        _ => cause.to_string(),
    })?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err("there is no certificate in it".to_owned()),
        Ok(found) => Ok(found),
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
