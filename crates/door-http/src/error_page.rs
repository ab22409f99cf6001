//! Errors as pages, for browsers: the facts of the text that programs get, and no others.

use std::fmt::Write as _;

use http_server::advice;
use markup::Escaped;
use types::Error;

use crate::frame;

/// The page about an error. Under the name `request_id` the log has the request; `program` has made
/// the page.
pub(crate) fn write(error: &Error, way: Option<&str>, request_id: &str, program: &str) -> String {
    let code = error.code();
    let title = format!("{} {}", code.http_status(), code.meaning());
    let mut text = frame::begin(&title, code.meaning(), way);
    let _ = writeln!(
        text,
        "<section>\n<p>{}</p>\n<dl class=\"keys\">",
        Escaped(advice(error))
    );
    let facts = [
        ("About", error.subject().map(str::to_owned)),
        ("Details", error.detail().map(str::to_owned)),
        ("The other server said", other_server(error)),
        ("Side", Some(error.side().name().to_owned())),
        ("Step", Some(error.phase().name().to_owned())),
        ("Code", Some(code.name().to_owned())),
        ("Request", Some(request_id.to_owned())),
    ];
    for (name, fact) in facts {
        if let Some(fact) = fact {
            let _ = writeln!(text, "<dt>{name}</dt><dd>{}</dd>", Escaped(&fact));
        }
    }
    text.push_str("</dl>\n</section>\n");
    frame::end(&mut text, program);
    text
}

/// What the server at the other end of a copy, or behind this one, answered.
fn other_server(error: &Error) -> Option<String> {
    let status = error.peer_status().map(|status| status.to_string());
    let words = error.peer_words().map(|words| format!("\"{words}\""));
    match (status, words) {
        (Some(status), Some(words)) => Some(format!("{status}: {words}")),
        (status, words) => status.or(words),
    }
}

#[cfg(test)]
mod tests {
    use types::{ErrorCode, Phase, Side};

    use super::*;

    #[test]
    fn a_page_has_the_facts_of_the_text_as_text() {
        let error = Error::new(ErrorCode::NotFound, Side::Upstream, Phase::Open)
            .with_subject("/a/<b>\u{202e}")
            .with_detail("it's away")
            .with_peer(None, "<i>no</i>")
            .with_private("of the log alone");
        let page = write(&error, None, "an-id", "a program");
        for needed in [
            "<title>404 ",
            error.code().meaning(),
            error.code().for_client(),
            "<dt>About</dt><dd>/a/&lt;b&gt;\\u{202e}</dd>",
            "<dd>it&#39;s away</dd>",
            "<dd>&quot;&lt;i&gt;no&lt;/i&gt;&quot;</dd>",
            "<dt>Side</dt><dd>upstream</dd>",
            "<dt>Step</dt><dd>open</dd>",
            "<dd>not_found</dd>",
            "<dd>an-id</dd>",
            "<p>a program</p>",
        ] {
            assert!(page.contains(needed), "{needed} is missing in {page}");
        }
        assert!(!page.contains("of the log"), "{page}");
    }

    #[test]
    fn what_the_other_server_said_may_be_a_status_alone() {
        let error = Error::new(ErrorCode::NotFound, Side::Source, Phase::Open);
        assert_eq!(other_server(&error), None);
        let said = error.with_peer(Some(types::PeerStatus::Http(404)), "gone");
        assert_eq!(other_server(&said).as_deref(), Some("404: \"gone\""));
    }
}
