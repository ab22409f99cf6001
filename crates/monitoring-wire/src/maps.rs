//! Packets that give a number to a name: of the server, of a login, of a token.

use std::fmt::Write as _;
use std::net::IpAddr;

use crate::files::LoginId;
use crate::firefly::FlowLabel;
use crate::header::Stream;

/// The most bytes of one value: of the longest names of certificates, and more than any other.
const VALUE_BYTES_MAX: usize = 512;

/// The server that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name among the servers of all sites, of 48 bits.
    pub id: u64,
    /// The process.
    pub pid: u32,
    /// The user as which it runs.
    pub user: String,
    /// Its host name.
    pub host: String,
    /// The name of the site.
    pub site: String,
    /// The port of its XRootD protocol, or of HTTP where it has no other.
    pub port: u16,
    /// Which of the servers on this host it is.
    pub instance: String,
    /// The program.
    pub program: String,
    /// Its version.
    pub version: String,
}

impl Server {
    /// The name of something on this server, as receivers take it apart:
    /// `protocol/user.number:id@host`.
    pub(crate) fn name(&self, protocol: &str, user: &str, number: u32, host: &str) -> String {
        let (protocol, user) = (part(protocol), part(user));
        format!("{protocol}/{user}.{number}:{}@{host}", self.id)
    }

    /// The packet that tells who the server is (`=`). It is sent first, and again each hour or more
    /// often: files of a server that a receiver does not know have no site.
    #[must_use]
    pub fn packet(&self, stream: &mut Stream) -> Vec<u8> {
        let mut text = self.name("=", &self.user, self.pid, &value(&self.host));
        let _ = write!(
            text,
            "\n&site={}&port={}&inst={}&pgm={}&ver={}",
            value(&self.site),
            self.port,
            value(&self.instance),
            value(&self.program),
            value(&self.version)
        );
        map(stream, b'=', LoginId(0), &text)
    }
}

/// A client that logged in, or sent a request over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// `xroot` or `http`.
    pub protocol: &'static str,
    /// The user's name as the client gave it, or as it was mapped.
    pub user: String,
    /// The process of the client, or the number of the connection.
    pub number: u32,
    /// The address of the client.
    pub address: IpAddr,
    /// How the client proved who it is: `gsi`, `ztn`, `http`, …; empty without.
    pub authentication: String,
    /// The name in the certificate.
    pub subject: String,
    /// The virtual organisation.
    pub organisation: String,
    /// The role in it.
    pub role: String,
    /// The groups in it.
    pub groups: String,
    /// The client's program.
    pub program: String,
    /// The version of the client.
    pub version: String,
}

/// The packet of a login (`u`). It precedes the files of the login.
#[must_use]
pub fn login_packet(stream: &mut Stream, server: &Server, id: LoginId, login: &Login) -> Vec<u8> {
    let mut text = server.name(login.protocol, &login.user, login.number, &address(login.address));
    text.push('\n');
    if !login.authentication.is_empty() {
        let _ = write!(
            text,
            "&p={}&n={}&h={}&o={}&r={}&g={}&m=",
            value(&login.authentication),
            value(&login.subject),
            address(login.address),
            value(&login.organisation),
            value(&login.role),
            value(&login.groups)
        );
    }
    if login.protocol == "xroot" {
        let _ = write!(text, "&R={}&x={}&y=", value(&login.version), value(&login.program));
    }
    let family = if login.address.to_canonical().is_ipv4() { 4 } else { 6 };
    let _ = write!(text, "&I={family}");
    map(stream, b'u', id, &text)
}

/// What a token says about its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The subject.
    pub subject: String,
    /// The user to whom it was mapped.
    pub user: String,
    /// The issuer.
    pub issuer: String,
    /// The role.
    pub role: String,
    /// The groups.
    pub groups: Vec<String>,
}

/// The packet of a token (`T`), after that of its login.
#[must_use]
pub fn token_packet(stream: &mut Stream, server: &Server, id: LoginId, login: &Login, token: &Token) -> Vec<u8> {
    let mut text = server.name(login.protocol, &login.user, login.number, &address(login.address));
    let _ = write!(
        text,
        "\n&Uc={}&s={}&n={}&o={}&r={}&g={}",
        id.0,
        value(&token.subject),
        value(&token.user),
        value(&token.issuer),
        value(&token.role),
        value(&token.groups.join(" "))
    );
    map(stream, b'T', id, &text)
}

/// The packet that says which experiment and activity the files of a login belong to (`U`), after
/// that of the login.
#[must_use]
pub fn label_packet(stream: &mut Stream, server: &Server, id: LoginId, login: &Login, label: FlowLabel) -> Vec<u8> {
    let mut text = server.name(login.protocol, &login.user, login.number, &address(login.address));
    let (experiment, activity) = (label.experiment(), label.activity());
    let _ = write!(text, "\n&Uc={}&Ec={experiment}&Ac={activity}", id.0);
    map(stream, b'U', id, &text)
}

fn map(stream: &mut Stream, code: u8, id: LoginId, text: &str) -> Vec<u8> {
    let mut content = id.0.to_be_bytes().to_vec();
    content.extend(text.as_bytes());
    stream.packet(code, &content)
}

/// An address as XRootD writes it: that of IPv4 as a dual-stack socket sees it.
#[must_use]
pub fn address(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(four) => format!("[::ffff:{four}]"),
        IpAddr::V6(six) => format!("[{six}]"),
    }
}

/// A value between `&`: what ends one, and what is no text, becomes `_`.
pub(crate) fn value(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        if clean.len() + letter.len_utf8() > VALUE_BYTES_MAX {
            break;
        }
        clean.push(if letter == '&' || letter.is_control() {
            '_'
        } else {
            letter
        });
    }
    clean
}

/// As [`value`], within a name that `/`, `.`, `:` and `@` take apart; never empty.
fn part(text: &str) -> String {
    let clean: String = value(text)
        .replace(['/', '.', ':', '@', ' '], "_")
        .chars()
        .take(64)
        .collect();
    if clean.is_empty() { "unknown".to_owned() } else { clean }
}
