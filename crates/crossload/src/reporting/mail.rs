//! Mails to the administrators of endpoints.

use std::time::SystemTime;

use history::Run;
use reports::View;
use reports::digest::{Digest, digests};
use reports::mail::{MailLogin, MailOptions, Mailer};

use super::{files, not_delivered, secret};
use crate::command_line::ReportOptions;
use crate::failure::Failure;
use crate::limits::AUTHORITIES_BYTES_MAX;
use crate::output;

/// Sends each administrator what they should know of the run, or prints it; on standard error if
/// standard output has JSON. Problems are new that the run of `--earlier` lacks, else the `earlier`
/// one of the history.
///
/// # Errors
/// An unreadable file, or mails that could not be sent; the others are sent.
pub(super) async fn send(
    view: &View<'_>,
    earlier: Option<Run>,
    options: &ReportOptions,
    as_json: bool,
) -> Result<(), Failure> {
    if options.mail.is_none() && !options.mail_dry_run {
        return Ok(());
    }
    let named = options.earlier.as_ref().map(files::read_earlier).transpose()?;
    let earlier = named.or(earlier);
    let earlier = earlier.as_ref().map(View::new);
    let digests = digests(view, earlier.as_ref());
    if options.mail_dry_run {
        let print = if as_json { output::complain } else { output::line };
        digests.iter().for_each(|digest| print(&shown(digest)));
        return Ok(());
    }
    let Some(mailer) = mailer(options)? else { return Ok(()) };
    let sending = execution::blocking(move || mailer.send(&digests, SystemTime::now()));
    let refused = sending.await.unwrap_or_else(|cause| vec![cause.to_string()]);
    match refused.is_empty() {
        true => Ok(()),
        false => Err(not_delivered(refused.join("\n"))),
    }
}

/// Reads what mails will need: the earlier run, the login, and the authorities.
///
/// # Errors
/// A file that cannot be used.
pub(super) fn try_out(options: &ReportOptions) -> Result<(), Failure> {
    options.earlier.as_ref().map(files::read_earlier).transpose()?;
    mailer(options).map(drop)
}

fn mailer(options: &ReportOptions) -> Result<Option<Mailer>, Failure> {
    let (Some(server), Some(from)) = (&options.mail, &options.mail_from) else {
        return Ok(None);
    };
    let login = match &options.mail_login {
        Some(file) => {
            let parsed = MailLogin::parse(&secret(file)?);
            Some(parsed.map_err(|words| Failure::invalid(format!("{}: {words}", file.path().display())))?)
        }
        None => None,
    };
    let authorities = options.report_cacert.iter().map(|file| {
        let read = file.read(AUTHORITIES_BYTES_MAX).map(|bytes| bytes.to_vec());
        read.map_err(|cause| Failure::system(file.path().display(), &cause))
    });
    let made = Mailer::new(MailOptions {
        server: server.clone(),
        login,
        authorities: authorities.collect::<Result<_, _>>()?,
        from: from.clone(),
        machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
    });
    made.map(Some).map_err(Failure::invalid)
}

/// A mail as it is printed.
fn shown(digest: &Digest) -> String {
    let address = output::name(&digest.address);
    format!("\nTo: {address}\nSubject: {}\n\n{}", digest.subject, digest.text)
}
