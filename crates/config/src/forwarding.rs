//! The servers that make third-party copies in place of this one.

use types::{Location, Scheme};

fn places(urls: &[String]) -> impl Iterator<Item = Location> {
    urls.iter().filter_map(|url| Location::parse(url).ok())
}

/// Where COPY requests are redirected to.
pub fn forward_http(urls: &[String]) -> Option<Location> {
    places(urls).find(Location::is_http)
}

/// Where opens for third-party copies are redirected to: the `root` URL, or else the host and port
/// of the HTTP URL.
pub fn forward_root(urls: &[String]) -> Option<Location> {
    let of_http = |place: Location| {
        let scheme = if place.is_encrypted() { "roots" } else { "root" };
        Location::parse(&format!("{scheme}://{}:{}/", place.host(), place.port())).ok()
    };
    let named = places(urls).find(Location::is_xrootd);
    named.or_else(|| forward_http(urls).and_then(of_http))
}

/// Mistakes in these URLs.
pub(crate) fn faults(urls: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen = Vec::new();
    for url in urls {
        let place = Location::parse(url).ok();
        let Some(place) = place.filter(|place| place.is_http() || place.is_xrootd()) else {
            faults.push(format!(
                "forward_to: \"{url}\" is not the URL of a server; write one such as \"https://host:port\""
            ));
            continue;
        };
        if place.path() != "/" || place.query().is_some() {
            faults.push(format!("forward_to: \"{url}\" has a path; use the host and port only"));
        }
        let kind = matches!(place.scheme(), Scheme::Http | Scheme::Https);
        if seen.contains(&kind) {
            faults.push(
                "forward_to: more than one URL for the same protocol; give one of http or https, and one of root"
                    .to_owned(),
            );
        }
        seen.push(kind);
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(urls: &[&str]) -> (Option<String>, Option<String>) {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        assert_eq!(faults(&urls), Vec::<String>::new());
        let text = |place: Option<Location>| place.map(|place| place.to_wire());
        (text(forward_http(&urls)), text(forward_root(&urls)))
    }

    #[test]
    fn an_http_url_covers_both_protocols_and_a_root_url_its_own() {
        assert_eq!(shown(&[]), (None, None));
        let (http, root) = shown(&["https://se:8443"]);
        assert_eq!(http.as_deref(), Some("https://se:8443/"));
        assert_eq!(root.as_deref(), Some("roots://se:8443//"));
        assert_eq!(shown(&["http://se"]).1.as_deref(), Some("root://se:80//"));
        let (http, root) = shown(&["https://se:8443", "root://se:1095"]);
        assert_eq!((http.is_some(), root.as_deref()), (true, Some("root://se:1095//")));
        assert_eq!(shown(&["root://se"]), (None, Some("root://se//".to_owned())));
    }

    #[test]
    fn urls_that_name_no_server_are_refused() {
        for bad in [
            &["se:8443"][..],
            &["file:///x"],
            &["https://se/path"],
            &["https://se?x=1"],
            &["https://a", "http://b"],
            &["nonsense://a"],
        ] {
            let urls: Vec<String> = bad.iter().map(|url| (*url).to_owned()).collect();
            assert_eq!(faults(&urls).len(), 1, "{bad:?}");
        }
    }
}
