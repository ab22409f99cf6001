//! Requests for a macaroon, in the two forms that storage clients send.
//!
//! Form 1, of dCache and XRootD: `POST <path>` with type `application/macaroon-request` and a JSON
//! body. Form 2, after OAuth 2.0 client credentials (RFC 6749 §4.4): `POST` of a form to the token
//! endpoint. gfal2 writes `scopes` where RFC 6749 §3.3 has `scope`; both are taken.

use crate::limits::MACAROON_CAVEATS_MAX;
use serde_json::{Value, json};
use types::limits::MACAROON_REQUEST_BYTES_MAX;
use types::{Error, ErrorCode, LogicalPath, Phase, Secret, Side, decode_percent};

use crate::activity::Activities;
use crate::bad_request;
use crate::caveat::Caveat;
use crate::duration::parse_duration_s;
use crate::issue::Issued;

/// In which form the request came, hence in which form it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestForm {
    /// `application/macaroon-request`.
    Json,
    /// `application/x-www-form-urlencoded`.
    OAuth,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacaroonRequest {
    /// In which form it was asked.
    pub form: RequestForm,
    /// The activities wanted; `None` when none are named.
    pub activities: Option<Activities>,
    /// The path wanted, when the body names it (form 2); form 1 means the path of the request.
    pub path: Option<LogicalPath>,
    /// The lifetime wanted, in seconds.
    pub lifetime_s: Option<u64>,
    /// Further restrictions wanted, `before:` among them.
    pub restrictions: Vec<Caveat>,
}

impl MacaroonRequest {
    /// The activities asked for: reading, where none are named.
    #[must_use]
    pub fn wanted(&self) -> Activities {
        self.activities.unwrap_or(Activities::READ)
    }

    /// Reads form 1: `{"caveats":["activity:DOWNLOAD,LIST"],"validity":"PT30M"}`. Both members may
    /// be missing (dCache's rule); other members are ignored.
    ///
    /// `name:`, `path:`, `id:` and `iid:` are the issuer's to set. Several `activity:` caveats
    /// intersect, as they would in the macaroon.
    ///
    /// # Errors
    /// `body_too_large` above [`MACAROON_REQUEST_BYTES_MAX`], `bad_request` for what cannot be read
    /// or may not be asked.
    pub fn from_json(body: &[u8]) -> Result<Self, Error> {
        check_length(body)?;
        let value: Value = serde_json::from_slice(body).map_err(|_| bad_request("the macaroon request is not JSON"))?;
        let object = value
            .as_object()
            .ok_or_else(|| bad_request("the macaroon request is not a JSON object"))?;
        let mut request = Self::empty(RequestForm::Json);
        request.lifetime_s = match object.get("validity") {
            None | Some(Value::Null) => None,
            Some(validity) => {
                let lifetime_s = validity
                    .as_str()
                    .and_then(parse_duration_s)
                    .filter(|lifetime_s| *lifetime_s > 0);
                Some(lifetime_s.ok_or_else(|| bad_request("\"validity\" is not an ISO 8601 duration such as PT30M"))?)
            }
        };
        match object.get("caveats") {
            None | Some(Value::Null) => {}
            Some(Value::Array(caveats)) if caveats.len() <= MACAROON_CAVEATS_MAX => {
                for caveat in caveats {
                    request.add_caveat(caveat.as_str().ok_or_else(|| bad_request("a caveat is not a text"))?)?;
                }
            }
            Some(_) => return Err(bad_request("\"caveats\" is not a list of texts, or is too long")),
        }
        Ok(request)
    }

    /// Reads form 2: `grant_type=client_credentials&expire_in=1800&scope=LIST:/p DOWNLOAD:/p`.
    /// All scopes must name one path, since one macaroon is restricted to one. Unknown fields are
    /// ignored (RFC 6749 §3.2).
    ///
    /// # Errors
    /// `body_too_large` above [`MACAROON_REQUEST_BYTES_MAX`], `bad_request` for what cannot be
    /// read.
    pub fn from_form(body: &[u8]) -> Result<Self, Error> {
        check_length(body)?;
        let text = std::str::from_utf8(body).map_err(|_| bad_request("the form is not text"))?;
        let form = Form::read(text)?;
        if form.grant_type.as_deref() != Some("client_credentials") {
            return Err(bad_request("grant_type is not client_credentials"));
        }
        let mut request = Self::empty(RequestForm::OAuth);
        let lifetime_s = |digits: &str| digits.parse().ok().filter(|lifetime_s| *lifetime_s > 0);
        request.lifetime_s = match form.expire_in.as_deref() {
            None => None,
            Some(digits) => {
                Some(lifetime_s(digits).ok_or_else(|| bad_request("expire_in is not a number of seconds above zero"))?)
            }
        };
        let scope = form.scope.ok_or_else(|| bad_request("the form names no scope"))?;
        for item in scope.split_ascii_whitespace() {
            request.add_scope(item)?;
        }
        if request.activities.is_none() {
            return Err(bad_request("the form names no scope"));
        }
        Ok(request)
    }

    fn empty(form: RequestForm) -> Self {
        Self {
            form,
            activities: None,
            path: None,
            lifetime_s: None,
            restrictions: Vec::new(),
        }
    }

    fn add_caveat(&mut self, text: &str) -> Result<(), Error> {
        let key = text.split(':').next().unwrap_or_default();
        if matches!(key, "name" | "path" | "id" | "iid") {
            return Err(bad_request(format!(
                "the caveat \"{key}\" cannot be asked for: the server sets it"
            )));
        }
        match Caveat::parse(text).map_err(|_| bad_request("a caveat is not known or cannot be read"))? {
            Caveat::Activity(only) => {
                self.activities = Some(self.activities.map_or(only, |wanted| wanted.intersection(only)));
            }
            other => self.restrictions.push(other),
        }
        Ok(())
    }

    fn add_scope(&mut self, item: &str) -> Result<(), Error> {
        let unreadable = || bad_request("a scope is not of the form ACTIVITY:/path");
        let (names, path) = item.split_once(':').ok_or_else(unreadable)?;
        let activities = Activities::parse(names).ok_or_else(unreadable)?;
        let path = LogicalPath::parse(path)?;
        if self.path.as_ref().is_some_and(|earlier| *earlier != path) {
            return Err(bad_request(
                "the scopes name different paths; a macaroon is for one path",
            ));
        }
        self.path = Some(path);
        self.activities = Some(self.activities.unwrap_or_default().union(activities));
        Ok(())
    }
}

impl RequestForm {
    /// The JSON body of the answer, which holds the macaroon and is therefore a secret. Where less
    /// is given than was asked for, it says so: OAuth has `scope` for that (RFC 6749 §5.1).
    #[must_use]
    pub fn response_body(self, issued: &Issued) -> Secret {
        let (macaroon, expires_in_s) = (issued.text.expose(), issued.expires_in_s);
        let mut body = match self {
            Self::Json => json!({"macaroon": macaroon, "expires_in": expires_in_s}),
            Self::OAuth => json!({"access_token": macaroon, "token_type": "bearer", "expires_in": expires_in_s}),
        };
        if !issued.withheld.is_empty() {
            let (member, given) = match self {
                Self::Json => ("activities", issued.activities.to_string()),
                Self::OAuth => ("scope", scope_of(issued)),
            };
            body[member] = given.into();
        }
        let note = note(issued);
        if !note.is_empty() {
            body["note"] = note.into();
        }
        Secret::new(body.to_string())
    }
}

/// What was asked for and is not given, in words; empty when all is given.
fn note(issued: &Issued) -> String {
    let mut parts = Vec::new();
    if !issued.withheld.is_empty() {
        parts.push(format!(
            "{} was asked for and is not given: the requester lacks the right there, or at more places below than a \
             macaroon can name; ask for a deeper path",
            issued.withheld
        ));
    }
    let excepted = issued.except.iter().map(|exception| format!("not given: {exception}"));
    parts.extend(excepted);
    parts.join("; ")
}

/// What a macaroon grants, as form 2 names it.
fn scope_of(issued: &Issued) -> String {
    let scopes = issued
        .activities
        .iter()
        .map(|activity| format!("{}:{}", activity.name(), issued.path));
    scopes.collect::<Vec<_>>().join(" ")
}

fn check_length(body: &[u8]) -> Result<(), Error> {
    if body.len() > MACAROON_REQUEST_BYTES_MAX {
        return Err(
            Error::new(ErrorCode::BodyTooLarge, Side::Client, Phase::Authorize).with_detail(format!(
                "a macaroon request has at most {MACAROON_REQUEST_BYTES_MAX} bytes"
            )),
        );
    }
    Ok(())
}

/// The fields of form 2 that matter.
#[derive(Default)]
struct Form {
    grant_type: Option<String>,
    expire_in: Option<String>,
    scope: Option<String>,
}

impl Form {
    fn read(text: &str) -> Result<Self, Error> {
        let mut form = Self::default();
        for pair in text.trim().split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |raw: &str| {
                decode_percent(&raw.replace('+', " ")).ok_or_else(|| bad_request("the form is not properly encoded"))
            };
            let key = decode(key)?;
            let field = match key.as_str() {
                "grant_type" => &mut form.grant_type,
                "expire_in" => &mut form.expire_in,
                "scope" | "scopes" => &mut form.scope,
                _ => continue,
            };
            if field.replace(decode(value)?).is_some() {
                return Err(bad_request(format!("the form names \"{key}\" twice")));
            }
        }
        Ok(form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exception::Exception;

    #[test]
    fn the_json_form_as_clients_send_it() {
        let body = br#"{"caveats": ["activity:DOWNLOAD, LIST", "ip:192.0.2.0/24", "before:2030-01-01T00:00:00Z"], "validity": "PT30M"}"#;
        let request = MacaroonRequest::from_json(body).unwrap();
        assert_eq!(request.activities.unwrap().to_string(), "LIST,DOWNLOAD");
        assert_eq!((request.lifetime_s, request.path), (Some(1800), None));
        assert_eq!(request.restrictions.len(), 2);
        assert_eq!(MacaroonRequest::from_json(b"{}").unwrap().activities, None);
    }

    #[test]
    fn the_json_form_refuses_what_it_cannot_honour() {
        for bad in [
            "",
            "[]",
            "{",
            r#"{"validity":30}"#,
            r#"{"validity":"30M"}"#,
            r#"{"validity":"PT0S"}"#,
            r#"{"caveats":"activity:LIST"}"#,
            r#"{"caveats":[1]}"#,
            r#"{"caveats":["activity:FLY"]}"#,
            r#"{"caveats":["path:/x"]}"#,
            r#"{"caveats":["name:root"]}"#,
            r#"{"caveats":["iid:1"]}"#,
            r#"{"caveats":["id:0;0;root"]}"#,
            r#"{"caveats":["colour:red"]}"#,
            r#"{"caveats":["ip:x"]}"#,
        ] {
            assert_eq!(
                MacaroonRequest::from_json(bad.as_bytes()).unwrap_err().code(),
                ErrorCode::BadRequest,
                "{bad}"
            );
        }
        let deep = "[".repeat(MACAROON_REQUEST_BYTES_MAX);
        assert_eq!(
            MacaroonRequest::from_json(deep.as_bytes()).unwrap_err().code(),
            ErrorCode::BadRequest
        );
        let long = " ".repeat(MACAROON_REQUEST_BYTES_MAX + 1);
        assert_eq!(
            MacaroonRequest::from_json(long.as_bytes()).unwrap_err().code(),
            ErrorCode::BodyTooLarge
        );
    }

    #[test]
    fn the_form_with_scope_and_with_scopes() {
        for name in ["scope", "scopes"] {
            let body = format!(
                "grant_type=client_credentials&expire_in=600&client_id=x&{name}=LIST%3A%2Fa+b%2520 DOWNLOAD:/a"
            );
            assert!(
                MacaroonRequest::from_form(body.as_bytes()).is_err(),
                "a blank ends a scope"
            );
            let body = format!("grant_type=client_credentials&expire_in=600&{name}=LIST%3A%2Fa%2Fb+DOWNLOAD:/a/b/");
            let request = MacaroonRequest::from_form(body.as_bytes()).unwrap();
            assert_eq!(request.activities.unwrap().to_string(), "LIST,DOWNLOAD");
            assert_eq!(
                (request.lifetime_s, request.path.unwrap().as_str()),
                (Some(600), "/a/b")
            );
        }
    }

    #[test]
    fn forms_that_are_refused() {
        for (bad, code) in [
            ("", ErrorCode::BadRequest),
            ("grant_type=password&scope=LIST:/a", ErrorCode::BadRequest),
            ("grant_type=client_credentials", ErrorCode::BadRequest),
            ("grant_type=client_credentials&scope=", ErrorCode::BadRequest),
            ("grant_type=client_credentials&scope=LIST", ErrorCode::BadRequest),
            ("grant_type=client_credentials&scope=FLY:/a", ErrorCode::BadRequest),
            (
                "grant_type=client_credentials&scope=LIST:/a DOWNLOAD:/b",
                ErrorCode::BadRequest,
            ),
            (
                "grant_type=client_credentials&scope=LIST:/a&scopes=LIST:/a",
                ErrorCode::BadRequest,
            ),
            (
                "grant_type=client_credentials&scope=LIST:/a&expire_in=-5",
                ErrorCode::BadRequest,
            ),
            (
                "grant_type=client_credentials&scope=LIST:/a&expire_in=0",
                ErrorCode::BadRequest,
            ),
            ("grant_type=client_credentials&scope=LIST:/a%zz", ErrorCode::BadRequest),
            (
                "grant_type=client_credentials&scope=LIST:/a/../b",
                ErrorCode::PathRefused,
            ),
            ("grant_type=client_credentials&scope=LIST:a", ErrorCode::PathRefused),
        ] {
            assert_eq!(
                MacaroonRequest::from_form(bad.as_bytes()).unwrap_err().code(),
                code,
                "{bad}"
            );
        }
    }

    #[test]
    fn answers_in_both_forms() {
        let mut issued = Issued {
            text: Secret::new("abc"),
            identifier: String::new(),
            activities: Activities::READ,
            withheld: Activities::NONE,
            except: Vec::new(),
            path: LogicalPath::parse("/p").unwrap(),
            expires_in_s: 5,
        };
        let body = |form: RequestForm, issued: &Issued| -> Value {
            serde_json::from_str(form.response_body(issued).expose()).unwrap()
        };
        assert_eq!(
            body(RequestForm::Json, &issued),
            json!({"macaroon": "abc", "expires_in": 5})
        );
        assert_eq!(
            body(RequestForm::OAuth, &issued),
            json!({"access_token": "abc", "token_type": "bearer", "expires_in": 5})
        );
        issued.withheld = Activities::parse("UPLOAD").unwrap();
        let (json, oauth) = (body(RequestForm::Json, &issued), body(RequestForm::OAuth, &issued));
        assert_eq!(json["activities"], "READ_METADATA,LIST,DOWNLOAD");
        assert_eq!(oauth["scope"], "READ_METADATA:/p LIST:/p DOWNLOAD:/p");
        for body in [json, oauth] {
            assert!(
                body["note"].as_str().unwrap().starts_with("UPLOAD was asked for"),
                "{body}"
            );
        }
        issued.withheld = Activities::NONE;
        issued.except = vec![Exception::parse("LIST,DOWNLOAD:/p/closed").unwrap()];
        let told = body(RequestForm::Json, &issued);
        assert_eq!(told["note"], "not given: LIST,DOWNLOAD:/p/closed");
        assert_eq!(told.get("activities"), None, "all of them are given, elsewhere");
    }
}
