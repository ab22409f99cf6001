//! The issuer's HTTPS server: one thread for each connection, one request on each.

use std::collections::HashMap;
use std::io::{Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use rustls::{ServerConnection, StreamOwned};
use serde_json::json;

use super::{IssuerMode, Shared};

/// No client of a test is slower.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 16 * 1024;
const LARGE_BYTES: usize = 10_000_000;
const JWKS_PATH: &str = "/jwks";
const TOKEN_PATH: &str = "/token";
const DEVICE_PATH: &str = "/devicecode";
const REVOCATION_PATH: &str = "/revoke";
const SIGN_IN_PATH: &str = "/authorize";

/// Accepts connections until the issuer is dropped. While it is dead there is no listener.
pub(super) fn accept(listener: TcpListener, shared: &Arc<Shared>) {
    let mut listener = Some(listener);
    let mut threads = Vec::new();
    loop {
        let mut state = shared.state();
        if state.mode == IssuerMode::Dead {
            drop(listener.take());
            while state.mode == IssuerMode::Dead && !state.stopping {
                state = shared
                    .changed
                    .wait(state)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
        if state.stopping {
            break;
        }
        drop(state);
        let Some(open) = listener.take().or_else(|| TcpListener::bind(shared.address).ok()) else {
            // Another process has the port for the moment.
            thread::yield_now();
            continue;
        };
        if let Ok((stream, _)) = open.accept() {
            let shared = Arc::clone(shared);
            threads.push(thread::spawn(move || serve(stream, &shared)));
        }
        listener = Some(open);
    }
    for thread in threads {
        let _ = thread.join();
    }
}

fn serve(stream: TcpStream, shared: &Shared) {
    let (mode, number) = {
        let mut state = shared.state();
        if state.stopping || state.mode == IssuerMode::Dead {
            return;
        }
        state.connections += 1;
        let number = state.connections;
        state.sockets.extend(stream.try_clone().map(|socket| (number, socket)));
        (state.mode.clone(), number)
    };
    converse(stream, &mode, shared);
    shared.state().sockets.remove(&number);
}

fn converse(stream: TcpStream, mode: &IssuerMode, shared: &Shared) {
    let _ = stream.set_read_timeout(Some(SOCKET_TIMEOUT));
    let _ = stream.set_write_timeout(Some(SOCKET_TIMEOUT));
    if *mode == IssuerMode::Hang {
        return linger(shared, mode);
    }
    let Ok(connection) = ServerConnection::new(Arc::clone(&shared.tls)) else {
        return;
    };
    let mut stream = StreamOwned::new(connection, stream);
    let Some(asked) = asked(&mut stream) else {
        return;
    };
    shared.state().requests.push(asked.path.clone());
    let _ = match (asked.path.as_str(), mode) {
        (path, IssuerMode::Well) if path == token_path(shared) => give_tokens(&mut stream, &asked, shared),
        (REVOCATION_PATH, IssuerMode::Well) => match super::grants::revoke(shared, &asked.form(), asked.is_client()) {
            200 => send(&mut stream, "200 OK", b""),
            _ => send(&mut stream, "401 Unauthorized", br#"{"error": "invalid_client"}"#),
        },
        (path, IssuerMode::Well) if path.split('?').next() == Some(SIGN_IN_PATH) => {
            let query = path.split_once('?').map_or("", |(_, query)| query);
            match super::sign_in::authorize(shared, query) {
                Some(place) => answer(&mut stream, path, &IssuerMode::Redirect(place), shared),
                None => send(&mut stream, "400 Bad Request", b"{}"),
            }
        }
        (DEVICE_PATH, IssuerMode::Well) => {
            let answer = super::grants::device(shared, &asked.form());
            send(&mut stream, "200 OK", answer.to_string().as_bytes())
        }
        (path, _) => answer(&mut stream, path, mode, shared),
    };
    let _ = stream.flush();
    if *mode == IssuerMode::Stall {
        return linger(shared, mode);
    }
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

/// Keeps the connection open and silent for as long as the server behaves so.
fn linger(shared: &Shared, mode: &IssuerMode) {
    let mut state = shared.state();
    while state.mode == *mode && !state.stopping {
        state = shared
            .changed
            .wait(state)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

/// A request.
struct Asked {
    path: String,
    head: String,
    body: String,
}

impl Asked {
    /// The fields of its form.
    fn form(&self) -> HashMap<String, String> {
        let fields = url::form_urlencoded::parse(self.body.as_bytes());
        fields
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect()
    }

    /// Whether it is of a client that the issuer knows.
    fn is_client(&self) -> bool {
        let (name, secret) = super::TOKEN_CLIENT;
        let login = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{secret}"));
        let is_public = self
            .form()
            .get("client_id")
            .is_some_and(|client| client == super::PUBLIC_CLIENT);
        is_public || self.head.contains(&format!("Basic {login}"))
    }
}

fn asked(stream: &mut StreamOwned<ServerConnection, TcpStream>) -> Option<Asked> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        head.extend_from_slice(&piece[..count]);
        if head.len() > HEAD_BYTES_MAX {
            return None;
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = body.as_bytes().to_vec();
    let (length, had) = (length.unwrap_or(0).min(HEAD_BYTES_MAX), body.len());
    body.resize(length.max(had), 0);
    stream.read_exact(&mut body[had..]).ok()?;
    Some(Asked {
        path: head.split_whitespace().nth(1)?.to_owned(),
        head: head.to_owned(),
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// Where tokens are given.
fn token_path(shared: &Shared) -> String {
    let path = shared.state().token_path.clone();
    match path.is_empty() {
        true => TOKEN_PATH.to_owned(),
        false => path,
    }
}

/// Answers at the token endpoint. A lost answer closes the connection.
fn give_tokens(stream: &mut impl Write, asked: &Asked, shared: &Shared) -> std::io::Result<()> {
    match super::grants::answer(shared, &asked.form(), asked.is_client()) {
        Some((200, body)) => send(stream, "200 OK", body.to_string().as_bytes()),
        Some((401, body)) => send(stream, "401 Unauthorized", body.to_string().as_bytes()),
        Some((_, body)) => send(stream, "400 Bad Request", body.to_string().as_bytes()),
        None => Ok(()),
    }
}

fn answer(stream: &mut impl Write, path: &str, mode: &IssuerMode, shared: &Shared) -> std::io::Result<()> {
    match mode {
        IssuerMode::Redirect(to) => {
            return write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
        IssuerMode::Failing => return send(stream, "500 Internal Server Error", b"{}"),
        IssuerMode::Garbage => return send(stream, "200 OK", b"\x00\xff<html>not a key in sight</html>"),
        IssuerMode::Large => {
            let mut body = b"{\"keys\":[],\"padding\":\"".to_vec();
            body.resize(LARGE_BYTES, b'x');
            body.extend_from_slice(b"\"}");
            return send(stream, "200 OK", &body);
        }
        IssuerMode::Stall => {
            return write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{{\"issuer\":"
            );
        }
        IssuerMode::Well | IssuerMode::OtherIssuer | IssuerMode::Hang | IssuerMode::Dead => {}
    }
    let suffix = shared.state().suffix.clone();
    let openid = format!("{}/.well-known/openid-configuration", suffix.trim_end_matches('/'));
    let oauth = format!(
        "/.well-known/oauth-authorization-server{}",
        suffix.trim_end_matches('/')
    );
    if path == openid || path == oauth {
        let name = if *mode == IssuerMode::OtherIssuer {
            "https://other.example.org".to_owned()
        } else {
            shared.url()
        };
        let keys = format!("https://localhost:{}{JWKS_PATH}", shared.address.port());
        let tokens = format!("https://localhost:{}{}", shared.address.port(), token_path(shared));
        let devices = format!("https://localhost:{}{DEVICE_PATH}", shared.address.port());
        let revocation = format!("https://localhost:{}{REVOCATION_PATH}", shared.address.port());
        let sign_in = format!("https://localhost:{}{SIGN_IN_PATH}", shared.address.port());
        let mut document = json!({"issuer": name, "jwks_uri": keys, "token_endpoint": tokens,
            "authorization_endpoint": sign_in, "authorization_response_iss_parameter_supported": true,
            "device_authorization_endpoint": devices, "revocation_endpoint": revocation});
        for (name, value) in shared.state().document.clone() {
            document[name] = value;
        }
        return send(stream, "200 OK", document.to_string().as_bytes());
    }
    if path == JWKS_PATH {
        let keys = shared.keys().jwks();
        return send(stream, "200 OK", keys.as_bytes());
    }
    send(stream, "404 Not Found", b"{}")
}

fn send(stream: &mut impl Write, status: &str, body: &[u8]) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body)
}
