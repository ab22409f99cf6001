//! The endpoints of a file, with the credentials that it names.

use std::path::Path;

use config::{CONFIGURATION_BYTES_MAX, Faults, Mistake, read_text};
use probe::CredentialFile;
use probe::mesh::{
    Credential, CredentialKind, Endpoint, EndpointFile, EndpointSection, Place, Protocol, Role, directory_fault, mode,
};
use remote::Access;
use types::{Error, ErrorCode, Location, Phase, Result, Side};

use super::super::credentials::{identity_in, token_in};
use super::super::place;
use super::super::session::ClientContext;
use crate::failure::Failure;
use crate::remotes::split;

/// Reads a file of endpoints.
///
/// # Errors
/// It cannot be read, or has mistakes; each is named with its line and key.
pub(in crate::client) fn read(path: &Path) -> std::result::Result<EndpointFile, Failure> {
    let text = read_text(path, CONFIGURATION_BYTES_MAX).map_err(|cause| Failure::system(path.display(), &cause))?;
    Ok(EndpointFile::parse(&text, path)?)
}

/// All endpoints of the file at `path`. Credentials that cannot be used are noted with their
/// reason.
///
/// # Errors
/// Every place that is no directory on a server, or in the protocol of another one of its endpoint,
/// with its line and key; what a named remote needs is not there.
pub(in crate::client) async fn endpoints(
    session: &ClientContext,
    file: &EndpointFile,
    path: &Path,
) -> std::result::Result<Vec<Endpoint>, Failure> {
    let (mut endpoints, mut mistakes) = (Vec::new(), Vec::new());
    let lines = file.url_lines.iter();
    for ((section, downtimes), line) in file.endpoints.iter().zip(&file.announced).zip(lines) {
        let mut endpoint = Endpoint {
            name: section.name.clone(),
            tags: section.tags.clone(),
            administrators: section.administrators.clone(),
            roles: section
                .roles
                .iter()
                .filter_map(|word| Role::from_name(word).ok())
                .collect(),
            modes: section.modes.iter().filter_map(|word| mode(word).ok()).collect(),
            has_checksums: section.checksums,
            places: Vec::new(),
            downtimes: downtimes.clone(),
        };
        for text in &section.urls {
            match directory(session, &endpoint, text).await {
                Ok(location) => {
                    let place = with_credentials(session, section, text, location);
                    endpoint.places.push(place);
                }
                Err(error) if error.code() == ErrorCode::BadUrl => {
                    let words = error.detail().unwrap_or("an invalid URL");
                    mistakes.push(Mistake {
                        file: path.display().to_string(),
                        line: Some(*line),
                        key: "endpoint.urls".to_owned(),
                        says: format!("urls: {}: {words}", place::without_query(text)),
                        change: None,
                        about: None,
                    });
                }
                Err(error) => return Err(error.into()),
            }
        }
        endpoints.push(endpoint);
    }
    match mistakes.is_empty() {
        true => Ok(endpoints),
        false => Err(Faults(mistakes).into()),
    }
}

/// A directory of an endpoint.
///
/// # Errors
/// `bad_url` with a detail for a mistake in the text.
async fn directory(session: &ClientContext, endpoint: &Endpoint, text: &str) -> Result<Location> {
    let invalid = |words: &str| Err(Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open).with_detail(words));
    let place::Place::Remote(location) = session.place(text).await? else {
        return invalid("not a directory on a server");
    };
    if let Some(words) = directory_fault(&location) {
        return invalid(words);
    }
    match endpoint.place(Protocol::of(&location)) {
        Some(_) => invalid("the endpoint has a URL in this protocol already"),
        None => Ok(location),
    }
}

fn with_credentials(session: &ClientContext, section: &EndpointSection, text: &str, location: Location) -> Place {
    let mut place = Place {
        credentials: Vec::new(),
        missing: Vec::new(),
        location,
    };
    let usual = session.access(Some(&place.location), None);
    // What has a name in the client's configuration has its credentials there.
    match section.has_credential() && split(text).is_none() {
        true => take_named(&mut place, section, &without(usual)),
        false => take_usual(&mut place, session, usual),
    }
    place
}

/// The same without any credential.
pub(in crate::client) fn without(access: Access) -> Access {
    Access {
        bearer: None,
        identity: None,
        account: None,
        forwarded: Access::default().forwarded,
        ..access
    }
}

/// The credentials that the file of endpoints names.
fn take_named(place: &mut Place, section: &EndpointSection, base: &Access) {
    let mut take = |kind, file: CredentialFile, access: Result<Access>| match access {
        Ok(access) => place.credentials.push(Credential {
            kind,
            access,
            file: Some(file),
        }),
        // Options of the command would not help: the file of endpoints names the credential.
        Err(error) => place.missing.push((kind, Failure::from(error).words)),
    };
    let certificate = section.proxy.as_ref().or(section.cert.as_ref());
    if let Some(certificate) = certificate {
        let key = section.key.as_ref().unwrap_or(certificate);
        let access = identity_in(certificate, key).map(|identity| Access {
            identity: Some(identity),
            ..base.clone()
        });
        take(CredentialKind::X509, certificate_file(certificate, key), access);
    }
    if let Some(file) = &section.token_file {
        let access = token_in(file).map(|token| Access {
            bearer: Some(token),
            ..base.clone()
        });
        take(CredentialKind::Token, token_file(file), access);
    }
    if section.anonymous {
        place.credentials.push(anonymous(base.clone()));
    }
}

/// The credentials of the command, of the environment or of a named remote, each on its own.
fn take_usual(place: &mut Place, session: &ClientContext, usual: Access) {
    let base = without(usual.clone());
    let token = session.token_file(&place.location);
    let certificate = session.certificate_files(&place.location);
    if usual.identity.is_some() {
        place.credentials.push(Credential {
            kind: CredentialKind::X509,
            access: Access {
                identity: usual.identity.clone(),
                ..base.clone()
            },
            file: certificate.map(|found| certificate_file(&found.certificate, &found.key)),
        });
    }
    if usual.bearer.is_some() {
        place.credentials.push(Credential {
            kind: CredentialKind::Token,
            access: Access {
                bearer: usual.bearer.clone(),
                ..base.clone()
            },
            file: token.as_deref().map(token_file),
        });
    }
    if usual.account.is_some() || !usual.forwarded.is_empty() {
        place.credentials.push(Credential {
            kind: CredentialKind::Keys,
            access: Access {
                bearer: None,
                identity: None,
                ..usual
            },
            file: None,
        });
    }
    if place.credentials.is_empty() {
        place.credentials.push(anonymous(base));
    }
}

/// The file of a token, for the commands that reproduce a failure.
pub(in crate::client) fn token_file(file: &Path) -> CredentialFile {
    CredentialFile {
        path: file.display().to_string(),
        key: None,
    }
}

/// The files of a certificate, for the commands that reproduce a failure.
pub(in crate::client) fn certificate_file(certificate: &Path, key: &Path) -> CredentialFile {
    CredentialFile {
        path: certificate.display().to_string(),
        key: (key != certificate).then(|| key.display().to_string()),
    }
}

fn anonymous(access: Access) -> Credential {
    Credential {
        kind: CredentialKind::Anonymous,
        access,
        file: None,
    }
}
