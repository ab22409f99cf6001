//! Which hosts are this server: a copy or move to one of them stays here.

use http_wire::RequestHead;

use crate::exchange::FileExchange;

/// Whether `host:port` is this server: the name that the client used, one of the configured names,
/// or the address that the connection came in on. The default port of a URL, which depends on TLS,
/// may be spelled out on either side.
pub(crate) fn is_ours(
    exchange: &FileExchange<'_, '_>,
    head: &RequestHead,
    authority: &str,
    is_encrypted: bool,
) -> bool {
    let port = if is_encrypted { ":443" } else { ":80" };
    let authority = authority.strip_suffix(port).unwrap_or(authority);
    let local = exchange
        .http
        .connection
        .stream
        .local_address()
        .map(|address| address.to_string());
    let known = exchange.door.settings.authorities.iter().map(String::as_str);
    head.host()
        .into_iter()
        .chain(known)
        .chain(local.as_deref())
        .any(|ours| ours.strip_suffix(port).unwrap_or(ours).eq_ignore_ascii_case(authority))
}
