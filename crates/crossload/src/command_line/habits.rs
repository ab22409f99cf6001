//! Options of gfal's tools and xrdcp that are something else here, have no effect, or are refused
//! in words. The help leaves them out; `docs/client.md` lists them.

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::client::{CopyOptions, Delegate, Mode, Verify, time};
use super::xrdcp::{XrdcpOptions, xrdcp_checksum};
use crate::exit_code::ExitCodes;
use crate::failure::Failure;

/// A time limit below this may be xrdcp's number of retries.
const DOUBTFUL_TIMEOUT: Duration = Duration::from_secs(10);

/// Where files go that are read only to see that they can be, as with gfal-copy.
const NOWHERE: [&str; 2] = ["/dev/null", "file:///dev/null"];

/// Options that all of gfal's tools have.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "General options")]
pub(crate) struct GfalOptions {
    #[arg(short = 'D', long, value_name = "GROUP:KEY=VALUE", value_parser = definition, hide = true)]
    definition: Vec<String>,
    #[arg(short = '4', hide = true)]
    ipv4: bool,
    #[arg(short = '6', hide = true)]
    ipv6: bool,
}

impl GfalOptions {
    /// What the user should know about options without effect.
    pub(crate) fn notices(&self) -> Vec<&'static str> {
        let is_limited = self.ipv4 || self.ipv6;
        let words = "-4 and -6 have no effect, as for gfal2 without GridFTP; write the address into the URL";
        is_limited.then_some(words).into_iter().collect()
    }
}

/// Options of gfal-copy and xrdcp.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Transfer")]
pub(crate) struct CopyHabits {
    /// gfal: a time limit; xrdcp: whether servers copy directly.
    #[arg(short = 'T', long, alias = "tpc", value_name = "TIME", value_parser = limit, hide = true)]
    transfer_timeout: Option<Limit>,
    /// xrdcp: no progress; gfal's has a value.
    #[arg(short, long, hide = true)]
    silent: bool,
    /// xrdcp: connections; gfal: a space token.
    #[arg(short = 'S', long, value_name = "N", value_parser = streams, conflicts_with = "nbstreams", hide = true)]
    streams: Option<u32>,
    #[arg(long, alias = "dst-spacetoken", value_name = "TOKEN", value_parser = space_token, hide = true)]
    src_spacetoken: Option<String>,
    #[arg(long, value_name = "BYTES", hide = true)]
    tcp_buffersize: Option<u64>,
    #[arg(long, hide = true)]
    just_copy: bool,
    #[arg(long, conflicts_with = "delegate", hide = true)]
    no_delegation: bool,
    #[arg(long, hide = true)]
    evict: bool,
    #[arg(long, hide = true)]
    disable_cleanup: bool,
    #[arg(short = 'N', long, hide = true)]
    nopbar: bool,
    #[arg(short = 'P', long, hide = true)]
    posc: bool,
    #[arg(long = "continue", hide = true)]
    goes_on: bool,
    /// Whose command line it is, if not ours.
    #[arg(long, value_name = "PROGRAM", value_enum, hide = true)]
    tree_rule: Option<TreeRule>,
    #[command(flatten)]
    xrdcp: XrdcpOptions,
}

/// What another program does with several places and with a source that is a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TreeRule {
    /// The contents of a source go into the destination; several destinations are a chain.
    Gfal,
    /// A source goes into the destination, also with a slash at its end.
    Xrdcp,
}

/// What `-T` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Time(Duration),
    /// Servers copy directly, if they can.
    First,
    /// Servers copy directly, or the copy fails.
    Only,
    /// The same as `First` with a proxy for the server that copies.
    DelegateFirst,
    /// The same as `Only` with a proxy for the server that copies.
    DelegateOnly,
}

impl CopyOptions {
    /// The same in options of our own, and what the user should know about them.
    ///
    /// # Errors
    /// An option that is refused.
    pub(crate) fn translated(mut self) -> Result<(Self, Vec<String>), Failure> {
        let habits = std::mem::take(&mut self.habits);
        if habits.evict {
            return Err(Failure::invalid(
                "--evict: copy first, then run: crossload evict SOURCE",
            ));
        }
        if habits.silent && self.places.len() > 2 && is_space_token(&self.places[0]) {
            let token = &self.places[0];
            return Err(Failure::invalid(format!("-s {token}: {NO_SPACE_TOKENS}")));
        }
        if let Some(last) = self.places.last_mut().filter(|last| NOWHERE.contains(&last.as_str())) {
            "-".clone_into(last);
            self.transfer.discards = true;
        }
        self.take_tree_rule(habits.tree_rule)?;
        self.take_checksum(habits.tree_rule)?;
        let mut notices = Vec::new();
        if self.common.timeout.is_some_and(|timeout| timeout < DOUBTFUL_TIMEOUT) {
            notices.push("-t is a time limit, as for gfal-copy; xrdcp's -t is --retries here".to_owned());
        }
        self.transfer.quiet |= habits.silent;
        if habits.just_copy {
            self.transfer.just_copy = true;
            self.transfer.verify = Some(Verify::Never);
        }
        self.transfer.nbstreams = self.transfer.nbstreams.or(habits.streams);
        if habits.no_delegation {
            self.transfer.delegate = Some(Delegate::Never);
        }
        if let Some(limit) = habits.transfer_timeout {
            self.take_limit(limit)?;
        }
        habits.xrdcp.apply(&mut self)?;
        Ok((self, notices))
    }

    /// Names the sources so that our rule does the same as the other program's.
    fn take_tree_rule(&mut self, rule: Option<TreeRule>) -> Result<(), Failure> {
        let count = self.places.len();
        // xrdcp makes missing directories on both sides.
        self.parent |= rule == Some(TreeRule::Xrdcp);
        if rule == Some(TreeRule::Gfal) && count > 2 {
            return Err(Failure::invalid(
                "gfal-copy makes a chain of copies of several destinations: write a command for each",
            ));
        }
        if !self.recursive || count == 0 {
            return Ok(());
        }
        for source in &mut self.places[..count - 1] {
            match rule {
                Some(TreeRule::Gfal) if !source.ends_with('/') => source.push('/'),
                Some(TreeRule::Xrdcp) => {
                    let trimmed = source.trim_end_matches('/');
                    let path = trimmed.split_once("://").map_or(trimmed, |(_, rest)| rest);
                    if path.contains('/') || (path == trimmed && !path.is_empty()) {
                        source.truncate(trimmed.len());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Does what `-T` says.
    fn take_limit(&mut self, limit: Limit) -> Result<(), Failure> {
        if let Limit::Time(limit) = limit {
            let timeout = self.common.timeout.map_or(limit, |timeout| timeout.min(limit));
            self.common.timeout = Some(timeout);
        }
        if matches!(limit, Limit::Only | Limit::DelegateOnly) {
            if let Some(here) = self.places.iter().find(|place| is_here(place)) {
                return Err(Failure {
                    exit_code: ExitCodes::chosen().of_no_third_party(),
                    ..Failure::invalid(format!(
                        "-T only: {here} is no file of a server, so that no server can copy it; leave out -T"
                    ))
                });
            }
            if self.transfer.mode == Mode::Auto {
                self.transfer.mode = Mode::Pull;
            }
        }
        if matches!(limit, Limit::DelegateFirst | Limit::DelegateOnly) {
            if self.common.access.insecure {
                return Err(Failure::invalid(
                    "-T delegate: leave out -k; a proxy is for verified servers only",
                ));
            }
            self.transfer.delegate = self.transfer.delegate.or(Some(Delegate::First));
        }
        Ok(())
    }

    /// xrdcp's `-C` names a checksum, gfal's a text for the servers' logs. Here it is either, so a
    /// text that is neither may be a mistyped checksum.
    fn take_checksum(&mut self, rule: Option<TreeRule>) -> Result<(), Failure> {
        let mut wish = None;
        let mut texts = Vec::new();
        for text in std::mem::take(&mut self.common.client_info) {
            match (xrdcp_checksum(&text), rule) {
                (Ok(found), _) => wish = found.or(wish.take()),
                (Err(why), Some(TreeRule::Xrdcp)) => return Err(Failure::invalid(format!("-C {text}: {why}"))),
                (Err(why), None) if !text.contains('=') => {
                    return Err(Failure::invalid(format!(
                        "-C {text}: {why}; a text for the servers' logs is key=value"
                    )));
                }
                (Err(_), _) => texts.push(text),
            }
        }
        self.common.client_info = texts;
        match (wish, &self.transfer.checksum) {
            (Some(_), Some(_)) => Err(Failure::invalid("-C and -K name a checksum each")),
            (Some(wish), None) => {
                self.transfer.checksum = Some(wish);
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }
}

/// Whether a place is a file of this machine, standard input or standard output. `NAME:PATH` is in
/// a named remote.
fn is_here(place: &str) -> bool {
    match place.split_once("://") {
        Some((scheme, _)) => scheme.eq_ignore_ascii_case("file"),
        None => place.split('/').next().is_none_or(|first| !first.contains(':')),
    }
}

const NO_SPACE_TOKENS: &str = "space tokens are of SRM, which this program does not speak; leave it out";

/// Whether a place is none, but the value of gfal's `-s`.
fn is_space_token(place: &str) -> bool {
    !place.contains(['/', ':']) && !Path::new(place).exists()
}

fn space_token(_: &str) -> Result<String, String> {
    Err(NO_SPACE_TOKENS.to_owned())
}

fn streams(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count @ 1..=100) => Ok(count),
        Ok(_) => Err("not 1 to 100 connections".to_owned()),
        Err(_) => Err(NO_SPACE_TOKENS.to_owned()),
    }
}

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "first" => Ok(Limit::First),
        "only" => Ok(Limit::Only),
        "delegate-first" => Ok(Limit::DelegateFirst),
        "delegate-only" => Ok(Limit::DelegateOnly),
        "delegate" => Err("write \"delegate first\" or \"delegate only\"".to_owned()),
        _ => time(text).map(Limit::Time),
    }
}

/// xrdcp's `-D` and `--proxy`.
pub(super) const NO_SOCKS_PROXY: &str = "a SOCKS proxy is not supported: leave it out";

/// gfal2's parameters. Those of its information system have no effect here either. For xrdcp `-D`
/// is a SOCKS proxy, and `-DSname value` and `-DIname value` set variables.
fn definition(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        _ if text.contains('=') => {}
        None => return Err("-DI and -DS set variables of xrdcp: leave them out, with their values".to_owned()),
        Some(_) => return Err(NO_SOCKS_PROXY.to_owned()),
    }
    let key = text.split('=').next().unwrap_or_default().trim().to_ascii_uppercase();
    let option = match key.as_str() {
        _ if key.starts_with("BDII:") => return Ok(text.to_owned()),
        "HTTP PLUGIN:INSECURE" | "XROOTD PLUGIN:INSECURE" => "use -k",
        "HTTP PLUGIN:DEFAULT_COPY_MODE" => "use --mode",
        "X509:CERT" | "X509:KEY" => "use --cert and --key",
        "BEARER:TOKEN" => "use --token-file",
        _ => "this program has options instead",
    };
    Err(format!("a parameter of gfal2: {option}"))
}

/// Options of gfal-ls.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "General options")]
pub(crate) struct ListHabits {
    #[arg(long, value_name = "NAME", value_parser = attribute, hide = true)]
    xattr: Vec<String>,
    #[arg(long, value_name = "STYLE", value_enum, hide = true)]
    time_style: Option<TimeStyle>,
    #[arg(long, hide = true)]
    full_time: bool,
    /// What `-l` prints is in the columns of gfal-ls.
    #[arg(long, hide = true)]
    gfal_columns: bool,
    /// That of `ls`: there is one name a line in any case.
    #[arg(short = '1', hide = true)]
    one_per_line: bool,
}

impl ListHabits {
    /// How times are written, if columns are those of gfal-ls.
    pub(crate) fn gfal_times(&self) -> Option<TimeStyle> {
        let style = match self.full_time {
            // So does gfal-ls.
            true => TimeStyle::LongIso,
            false => self.time_style.unwrap_or_default(),
        };
        self.gfal_columns.then_some(style)
    }
}

/// How gfal-ls writes times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeStyle {
    /// `2026-01-31 12:00:00.000000 +0000`
    FullIso,
    /// `2026-01-31 12:00`
    LongIso,
    /// `01-31 12:00`, after half a year `2026-01-31`
    Iso,
    /// `Jan 31 12:00`, after half a year `Jan 31  2026`
    #[default]
    Locale,
}

fn attribute(_: &str) -> Result<String, String> {
    Err("attributes are printed by crossload xattr get".to_owned())
}

/// Options of gfal-rm.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "General options")]
pub(crate) struct RemoveHabits {
    #[arg(long, hide = true)]
    just_delete: bool,
    #[arg(long, hide = true)]
    bulk: bool,
}

/// Permissions such as `rwxr-x--x`, or in octal, as octal digits.
///
/// # Errors
/// What the text should be.
pub(super) fn permissions(text: &str) -> Result<String, String> {
    let is_octal = (1..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    if is_octal {
        return Ok(text.to_owned());
    }
    let fits = |(at, letter): (usize, u8)| letter == b'-' || letter == b"rwx"[at % 3];
    if text.len() != 9 || !text.bytes().enumerate().all(fits) {
        return Err(format!("{text}: no permissions such as rwxr-x--x or 750"));
    }
    let bits = text
        .bytes()
        .fold(0_u16, |bits, letter| bits << 1 | u16::from(letter != b'-'));
    Ok(format!("{bits:o}"))
}
