//! Options of `report`, and those about reports of all instruments.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueHint};
use reports::mail::{MailServer, is_address};

use crate::input_file::{InputFile, input_file};

/// Options of `report`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportOnOptions {
    /// Run to report on: a file that mesh or stress wrote
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reports: ReportOptions,
}

/// Options about reports of a run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Reports")]
pub(crate) struct ReportOptions {
    /// Write a page with matrices, failures and each link to this file
    #[arg(long, visible_alias = "report-html", value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the cells as test cases to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write metrics to this file, for node_exporter's textfile collector
    #[arg(long, value_name = "FILE")]
    pub(crate) prometheus: Option<PathBuf>,
    /// Keep the run in this file of `crossload history`, and say since when faults last
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Earlier run: mails call the problems that it lacks new
    #[arg(long, value_name = "RUN", value_parser = input_file(), value_hint = ValueHint::FilePath)]
    pub(crate) earlier: Option<InputFile>,
    /// Mail each administrator about their endpoints, by this server of SMTP
    ///
    /// smtps://HOST[:PORT] or, with STARTTLS, smtp://HOST[:PORT]. On localhost the second is clear
    /// text, unless there is a login.
    #[arg(long, value_name = "URL", value_parser = MailServer::parse, requires = "mail_from")]
    pub(crate) mail: Option<MailServer>,
    /// Sender of mails
    #[arg(long, value_name = "ADDRESS", value_parser = mail_address)]
    pub(crate) mail_from: Option<String>,
    /// File with the login at the server of SMTP: the user on one line, the password on the next
    #[arg(long, value_name = "FILE", value_parser = input_file(), value_hint = ValueHint::FilePath, requires = "mail")]
    pub(crate) mail_login: Option<InputFile>,
    /// Print the mails, and send none
    #[arg(long)]
    pub(crate) mail_dry_run: bool,
    /// Post a summary with all problems as JSON to this URL
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// File with the bearer token for the webhook
    #[arg(
        long,
        value_name = "FILE",
        value_parser = input_file(),
        value_hint = ValueHint::FilePath,
        requires = "webhook"
    )]
    pub(crate) webhook_token: Option<InputFile>,
    /// Trust these authorities too, for mail and webhook; can be repeated
    #[arg(long, value_name = "FILE", value_parser = input_file(), value_hint = ValueHint::FilePath)]
    pub(crate) report_cacert: Vec<InputFile>,
    /// Serve the page of the newest run in clear text on this address, until Ctrl-C
    ///
    /// PORT is on this machine only; anyone who reaches ADDRESS:PORT can read the page.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    pub(crate) serve: Option<SocketAddr>,
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Err(_) => text
            .parse()
            .map_err(|_| "not a port, nor an address such as 127.0.0.1:8080".to_owned()),
    }
}

fn mail_address(text: &str) -> Result<String, String> {
    match is_address(text) {
        true => Ok(text.to_owned()),
        false => Err("not a mail address".to_owned()),
    }
}
