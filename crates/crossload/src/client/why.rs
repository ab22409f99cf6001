//! `crossload explain ID`: asks a server's admin address why it refused a request.

use net::tls::{ClientTls, Trust};
use remote::{Access, GetOptions, Resource};
use types::limits::CONTROL_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Location, Phase, Side};

use crate::client::session::new_client;
use crate::failure::Failure;
use crate::output;

/// Prints what the server says of a request; `not_found` when it has forgotten it.
///
/// # Errors
/// When the server cannot be asked, or does not know the request.
pub(crate) fn run(request_id: &str, admin: &str, as_json: bool) -> Result<u8, Failure> {
    if request_id.is_empty()
        || !request_id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    {
        return Err(Failure::invalid(
            "the name of a request has letters, digits and hyphens",
        ));
    }
    let base = Location::parse(admin)?;
    if !base.is_http() {
        let error = Error::new(ErrorCode::BadUrl, Side::Client, Phase::Open).with_subject(admin);
        return Err(error
            .with_detail("--admin takes a URL such as http://127.0.0.1:9090")
            .into());
    }
    let format = if as_json { "/json" } else { "" };
    let location = base.with_path(&format!("/explain/{request_id}{format}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Failure::system("no threads", &cause))?;
    let text = runtime.block_on(fetch(location))?;
    output::write_out(&text);
    Ok(0)
}

/// Fetches a small page. No token is shown: the page is for administrators, who reach the address.
async fn fetch(location: Location) -> types::Result<Vec<u8>> {
    let (tls, _) = ClientTls::load(&Trust {
        files: Vec::new(),
        directories: Vec::new(),
        system: true,
        insecure: false,
    })?;
    let client = new_client(tls);
    let page = Resource {
        location,
        access: Access::default(),
        side: Side::Source,
    };
    let mut download = client.get(&page, &GetOptions::default()).await?;
    let mut text = Vec::new();
    while let Some(batch) = download.next().await? {
        text.extend(batch.slices().flatten());
        if text.len() > CONTROL_BODY_BYTES_MAX {
            let error = Error::new(ErrorCode::PeerMisbehaved, Side::Source, Phase::Transfer);
            return Err(error.with_detail("the explanation is too long"));
        }
    }
    Ok(text)
}
