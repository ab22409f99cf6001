//! Mail by SMTP (RFC 5321), by way of `lettre`.

use std::io::{self, ErrorKind};
use std::time::SystemTime;

use lettre::address::AddressError;
use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Message, SmtpTransport, Transport as _};
use markup::visible;
use types::Secret;

use crate::digest::Digest;
use crate::limits::{LOGIN_BYTES_MAX, MAIL_TIMEOUT};
use crate::words::counted;

/// Port of submission over TLS (RFC 8314 §3.3).
const TLS_PORT: u16 = 465;
/// Port of submission with STARTTLS (RFC 6409 §3.1).
const SUBMISSION_PORT: u16 = 587;
/// Port of a relay (RFC 5321 §4.5.4.2), which is what runs on this machine.
const RELAY_PORT: u16 = 25;

/// How a connection to a server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    /// By TLS from the first byte.
    Tls,
    /// By TLS after STARTTLS, or not at all: then nothing is sent.
    StartTls,
    /// In clear text, to this machine only.
    Loopback,
}

/// A server of SMTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailServer {
    host: String,
    port: u16,
    protection: Protection,
}

/// A user and password at a server of SMTP.
#[derive(Clone, Debug)]
pub struct MailLogin {
    user: String,
    password: Secret,
}

impl MailServer {
    /// Reads `smtps://HOST[:PORT]` or `smtp://HOST[:PORT]`. The second is protected by STARTTLS,
    /// except on this machine (`localhost`, `127.0.0.1`, `[::1]`).
    ///
    /// # Errors
    /// In words, when it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (is_tls, rest) = match (text.strip_prefix("smtps://"), text.strip_prefix("smtp://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err("not a URL such as smtps://HOST or smtp://HOST:PORT".to_owned()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = split_port(rest)?;
        let is_name = |character: char| character.is_ascii_alphanumeric() || ".-:".contains(character);
        if host.is_empty() || !host.chars().all(is_name) {
            return Err("no host, or more than host and port; a login goes into a file".to_owned());
        }
        let (protection, usual) = match (is_tls, host) {
            (true, _) => (Protection::Tls, TLS_PORT),
            (false, "localhost" | "127.0.0.1" | "::1") => (Protection::Loopback, RELAY_PORT),
            (false, _) => (Protection::StartTls, SUBMISSION_PORT),
        };
        Ok(Self {
            host: host.to_owned(),
            port: port.unwrap_or(usual),
            protection,
        })
    }
}

/// Host and port; an IPv6 address stands in brackets.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => text
            .split_once(':')
            .map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map(str::parse::<u16>).transpose();
    Ok((host, port.map_err(|_| "the port is no number up to 65535".to_owned())?))
}

impl MailLogin {
    /// Reads a user and a password, each on a line of its own.
    ///
    /// # Errors
    /// In words, when these are not the two lines.
    pub fn parse(text: &Secret) -> Result<Self, String> {
        let text = text.expose();
        let lines: Vec<&str> = text.lines().collect();
        match lines.as_slice() {
            [user, password] if !user.is_empty() && !password.is_empty() && text.len() <= LOGIN_BYTES_MAX => Ok(Self {
                user: (*user).to_owned(),
                password: Secret::new(*password),
            }),
            _ => Err("it must have two lines: the user, then the password".to_owned()),
        }
    }
}

/// Sends digests.
pub struct Mailer {
    transport: SmtpTransport,
    from: Mailbox,
    server: String,
}

impl std::fmt::Debug for Mailer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Mailer({})", self.server)
    }
}

/// What a mailer is made from.
#[derive(Clone, Debug)]
pub struct MailOptions {
    /// The server that takes the mails.
    pub server: MailServer,
    /// The login at it. It is sent over TLS only.
    pub login: Option<MailLogin>,
    /// Certificates of authorities in PEM that are trusted besides those of the system.
    pub authorities: Vec<Vec<u8>>,
    /// Whom mails are from.
    pub from: String,
    /// The name of this machine, for the greeting.
    pub machine: String,
}

impl Mailer {
    /// A mailer. Nothing is sent yet.
    ///
    /// # Errors
    /// In words: an unusable sender or authority.
    pub fn new(options: MailOptions) -> Result<Self, String> {
        let MailServer { host, port, protection } = options.server;
        let from = mailbox(&options.from)?;
        let protection = match protection {
            Protection::Loopback if options.login.is_some() => Protection::StartTls,
            other => other,
        };
        let tls = match protection {
            Protection::Loopback => Tls::None,
            Protection::Tls => Tls::Wrapper(tls(&host, &options.authorities)?),
            Protection::StartTls => Tls::Required(tls(&host, &options.authorities)?),
        };
        let builder = SmtpTransport::builder_dangerous(&host)
            .port(port)
            .tls(tls)
            .hello_name(greeting(&options.machine))
            .timeout(Some(MAIL_TIMEOUT));
        let builder = match options.login {
            Some(login) => builder.credentials(Credentials::new(login.user, login.password.expose().to_owned())),
            None => builder,
        };
        Ok(Self {
            transport: builder.build(),
            from,
            server: format!("{host}:{port}"),
        })
    }

    /// Sends digests, and waits until the server has taken each. Returns why some were not sent: an
    /// unusable address, a refusal; after a lost connection or a time limit nothing more is tried.
    #[must_use]
    pub fn send(&self, digests: &[Digest], now: SystemTime) -> Vec<String> {
        let mut refused = Vec::new();
        for (sent, digest) in digests.iter().enumerate() {
            match self.send_one(digest, now) {
                Ok(()) => {}
                Err(NotSent { words, ends: false }) => refused.push(words),
                Err(NotSent { words, ends: true }) => {
                    refused.push(words);
                    let left = digests.len() - sent - 1;
                    if left > 0 {
                        refused.push(format!("{} not tried", counted(left as u64, "more mail")));
                    }
                    break;
                }
            }
        }
        refused
    }

    fn send_one(&self, digest: &Digest, now: SystemTime) -> Result<(), NotSent> {
        let message = message(digest, &self.from, now).map_err(|words| NotSent { words, ends: false })?;
        let sent = self.transport.send(&message);
        sent.map(drop).map_err(|cause| NotSent {
            words: format!(
                "mail to {} by {}: {}",
                visible(&digest.address),
                self.server,
                chain(&cause)
            ),
            ends: !cause.is_permanent() && !cause.is_transient(),
        })
    }
}

/// Why a mail was not sent.
struct NotSent {
    words: String,
    /// Whether the next one would meet the same fate.
    ends: bool,
}

/// The greeting of this machine: a name with a dot in it, since many servers refuse others.
fn greeting(machine: &str) -> ClientId {
    let is_name = |character: char| character.is_ascii_alphanumeric() || ".-".contains(character);
    match machine.contains('.') && machine.chars().all(is_name) {
        true => ClientId::Domain(machine.to_owned()),
        false => ClientId::default(),
    }
}

fn tls(host: &str, authorities: &[Vec<u8>]) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(host.to_owned());
    for pem in authorities {
        let certificate = Certificate::from_pem(pem).map_err(|cause| chain(&cause))?;
        builder = builder.add_root_certificate(certificate);
    }
    builder.build().map_err(|cause| chain(&cause))
}

/// Whether mails can be sent to a text: `user@example.org`, or `Name <user@example.org>`.
#[must_use]
pub fn is_address(text: &str) -> bool {
    mailbox(text).is_ok()
}

fn mailbox(address: &str) -> Result<Mailbox, String> {
    let parsed: Result<Mailbox, AddressError> = address.trim().parse();
    parsed.map_err(|cause| format!("{}: no mail address: {cause}", visible(address)))
}

/// The mail of a digest: plain text, and the same as a small page.
///
/// # Errors
/// In words: an unusable address.
fn message(digest: &Digest, from: &Mailbox, now: SystemTime) -> Result<Message, String> {
    let built = Message::builder()
        .from(from.clone())
        .to(mailbox(&digest.address)?)
        .subject(digest.subject.clone())
        .date(now)
        .message_id(None)
        .multipart(MultiPart::alternative_plain_html(
            digest.text.clone(),
            digest.html.clone(),
        ));
    built.map_err(|cause| format!("mail to {}: {}", visible(&digest.address), chain(&cause)))
}

/// An error with its causes.
fn chain(cause: &dyn std::error::Error) -> String {
    let mut words = cause.to_string();
    let mut next = cause.source();
    while let Some(cause) = next {
        let more = in_words(cause);
        if !words.contains(&more) {
            words.push_str(": ");
            words.push_str(&more);
        }
        next = cause.source();
    }
    words
}

/// A cause in its own words, except for a time limit: the system calls it `EAGAIN`.
fn in_words(cause: &(dyn std::error::Error + 'static)) -> String {
    let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
    match kind {
        Some(ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            format!("no answer within {} s", MAIL_TIMEOUT.as_secs())
        }
        _ => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_protected_unless_they_are_here() {
        let of = |text: &str| MailServer::parse(text).map(|server| (server.host, server.port, server.protection));
        assert_eq!(
            of("smtps://mail.example.org"),
            Ok(("mail.example.org".to_owned(), 465, Protection::Tls))
        );
        assert_eq!(
            of("smtp://mail.example.org/"),
            Ok(("mail.example.org".to_owned(), 587, Protection::StartTls))
        );
        assert_eq!(
            of("smtp://localhost"),
            Ok(("localhost".to_owned(), 25, Protection::Loopback))
        );
        assert_eq!(
            of("smtp://[::1]:2525"),
            Ok(("::1".to_owned(), 2525, Protection::Loopback))
        );
        for wrong in [
            "mail.example.org",
            "smtp://",
            "smtp://user:secret@host",
            "smtp://host:99999",
            "smtp://a b",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_is_one_mailbox() {
        for right in ["a@b", "first.last@example.org", "First Last <a@example.org>", " a@b "] {
            assert!(is_address(right), "{right}");
        }
        for wrong in [
            "",
            "a",
            "@b",
            "a@",
            "a@b, c@d",
            "a@b c@d",
            "x@y\r\nBcc: e@x",
            "<a@b>, <c@d>",
            "a@b@c",
        ] {
            assert!(!is_address(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_login_is_two_lines() {
        let parsed = MailLogin::parse(&Secret::new("user\nword\n")).unwrap();
        assert_eq!((parsed.user.as_str(), parsed.password.expose()), ("user", "word"));
        for wrong in ["", "user", "user\n", "user\nword\nmore"] {
            assert!(MailLogin::parse(&Secret::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_in_a_digest_becomes_a_header() {
        let digest = Digest {
            address: "admin@example.org".to_owned(),
            subject: "mesh\r\nBcc: everyone@example.org".to_owned(),
            text: "long ".repeat(300) + "ä\n.\nBcc: other\n",
            html: "<p>ä</p>".to_owned(),
        };
        let from = mailbox("Crossload <crossload@example.org>").unwrap();
        let formatted = message(&digest, &from, SystemTime::UNIX_EPOCH).unwrap().formatted();
        let text = String::from_utf8(formatted).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(!head.lines().any(|line| line.starts_with("Bcc")), "{head}");
        assert!(head.contains("To: admin@example.org"), "{head}");
        assert!(head.contains("Message-ID: "), "{head}");
        // RFC 5322 §2.1.1.
        assert!(body.lines().all(|line| line.len() <= 998 && line.is_ascii()), "{body}");
        let odd = Digest {
            address: "a@example.org>\r\nBcc: b@example.org".to_owned(),
            ..digest
        };
        let refused = message(&odd, &from, SystemTime::UNIX_EPOCH).unwrap_err();
        assert!(refused.contains("no mail address"), "{refused}");
    }
}
