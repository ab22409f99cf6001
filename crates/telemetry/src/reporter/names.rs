//! Clients and copies in the words of XRootD.

use monitoring_wire::{CopyRecord, Course, Login, Server, Token, address};

use crate::client::{Client, Spoken};
use crate::copied::Copied;
use crate::moment::time_of;

fn protocol(spoken: Spoken) -> &'static str {
    match spoken {
        Spoken::Http => "http",
        Spoken::Xroot => "xroot",
    }
}

/// How XRootD names the way in which a client proved who it is.
fn authentication(client: &Client) -> &'static str {
    match (client.spoken, client.credential) {
        (Spoken::Http, _) => "http",
        (Spoken::Xroot, "anonymous") => "",
        (Spoken::Xroot, "certificate") => "gsi",
        (Spoken::Xroot, _) => "ztn",
    }
}

pub(super) fn login(client: &Client) -> Login {
    let (program, version) = client.program.split_once([' ', '/']).unwrap_or((&client.program, ""));
    Login {
        protocol: protocol(client.spoken),
        user: client.user.clone(),
        number: u32::from(client.peer.port()),
        address: client.peer.ip(),
        authentication: authentication(client).to_owned(),
        subject: client.subject.clone(),
        organisation: client.organisation.clone(),
        role: String::new(),
        groups: String::new(),
        program: program.to_owned(),
        version: version.to_owned(),
    }
}

/// What is known of the token of a client that showed one.
pub(super) fn token(client: &Client) -> Option<Token> {
    let has_token = !client.issuer.is_empty() && authentication(client) != "gsi" && !client.subject.starts_with('/');
    has_token.then(|| Token {
        subject: client.subject.clone(),
        user: client.user.clone(),
        issuer: client.issuer.clone(),
        role: String::new(),
        groups: client.organisation.split_whitespace().map(str::to_owned).collect(),
    })
}

pub(super) fn copy_record(server: &Server, copied: &Copied, has_names: bool) -> CopyRecord {
    let client = &copied.client;
    let user = if client.user.is_empty() || !has_names {
        "unknown"
    } else {
        &client.user
    };
    let ip = client.peer.ip();
    let port = client.peer.port();
    let here = format!(
        "{}://{}:{}/{}",
        copied.own_scheme, server.host, server.port, copied.path
    );
    let (source, destination) = match copied.is_pull {
        true => (copied.remote.clone(), here),
        false => (here, copied.remote.clone()),
    };
    CopyRecord {
        protocol: protocol(client.spoken),
        client: format!("{user}.{port}:{port}@{}", address(ip)),
        course: Course {
            begin: time_of(copied.began),
            end: time_of(copied.ended),
            result: copied.result,
            streams: copied.streams,
            mode: if copied.is_pull { "pull" } else { "push" },
            family: if ip.to_canonical().is_ipv4() { 4 } else { 6 },
        },
        source,
        destination,
        size_bytes: copied.bytes,
    }
}
