//! The cookies with the identifier of a session, and with what belongs to a sign-in at an issuer.

use axum::http::{HeaderMap, HeaderValue, header};

use crate::limits::{ATTEMPT_TIME_MAX, ATTEMPTS_OF_BROWSER_MAX};
use crate::sessions::SessionKey;

/// Characters of a sign-in's key in the name of its cookie: enough to tell apart those that run in
/// one browser.
const ATTEMPT_CHARACTERS: usize = 16;

/// A cookie of a door.
pub(crate) struct Cookie {
    name: String,
    is_encrypted: bool,
    /// When browsers send it, and how long they keep it.
    rules: String,
}

impl Cookie {
    /// The session. No request that begins at another site has it (RFC 6265bis §5.2): a link there
    /// opens the page of someone who has not signed in.
    pub(crate) fn session(port: u16, is_encrypted: bool) -> Self {
        Self::new(port, "", is_encrypted, "SameSite=Strict".to_owned())
    }

    /// A sign-in at an issuer. The issuer sends the browser back, so that request begins at another
    /// site, and a `Strict` cookie would not be in it. `Lax` is: the request is a GET that shows a
    /// page. Each sign-in has a cookie of its own, so that two can run in one browser.
    pub(crate) fn attempt(port: u16, is_encrypted: bool, key: &SessionKey) -> Self {
        let key = &key.as_str()[..ATTEMPT_CHARACTERS];
        let rules = format!("SameSite=Lax; Max-Age={}", ATTEMPT_TIME_MAX.as_secs());
        Self::new(port, &format!("-{key}"), is_encrypted, rules)
    }

    /// Makes a browser that begins one more sign-in forget its oldest: their cookies are in each of
    /// its requests. Browsers send the oldest first (RFC 6265 §5.4).
    pub(crate) fn forget_attempts(port: u16, is_encrypted: bool, sent: &HeaderMap, answer: &mut HeaderMap) {
        let attempts = Self::new(port, "-", is_encrypted, String::new());
        let names: Vec<&str> = pairs(sent)
            .map(|(name, _)| name)
            .filter(|name| name.starts_with(&attempts.name))
            .collect();
        let others = ATTEMPTS_OF_BROWSER_MAX - 1;
        for name in &names[..names.len().saturating_sub(others)] {
            let cookie = Self {
                name: (*name).to_owned(),
                is_encrypted,
                rules: String::new(),
            };
            cookie.forget(answer);
        }
    }

    /// Cookies do not know ports (RFC 6265 §8.5), so the name has that of the door: signing in to
    /// another server of this host ends no session here. Over TLS, the prefix makes browsers refuse
    /// the cookie from any other host (RFC 6265bis §4.1.3).
    fn new(port: u16, suffix: &str, is_encrypted: bool, rules: String) -> Self {
        let prefix = if is_encrypted { "__Host-" } else { "" };
        Self {
            name: format!("{prefix}crossload-{port}{suffix}"),
            is_encrypted,
            rules,
        }
    }

    /// What a browser sends.
    pub(crate) fn find<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let found = pairs(headers).find(|(name, _)| *name == self.name);
        found.map(|(_, value)| value)
    }

    /// Lets the browser keep a value.
    pub(crate) fn set(&self, headers: &mut HeaderMap, value: &str) {
        self.add(headers, value, &self.rules);
    }

    /// Lets the browser forget it.
    pub(crate) fn forget(&self, headers: &mut HeaderMap) {
        self.add(headers, "", "SameSite=Strict; Max-Age=0");
    }

    fn add(&self, headers: &mut HeaderMap, value: &str, rules: &str) {
        let secure = if self.is_encrypted { "; Secure" } else { "" };
        let cookie = format!("{}={value}; Path=/; HttpOnly; {rules}{secure}", self.name);
        if let Ok(mut cookie) = HeaderValue::try_from(cookie) {
            cookie.set_sensitive(true);
            headers.append(header::SET_COOKIE, cookie);
        }
    }
}

/// Names and values of all cookies that a browser sends.
fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let cookies = headers.get_all(header::COOKIE).iter();
    cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_counts_at_its_port_and_on_its_kind_of_connection() {
        let cookies = "a=b; __Host-crossload-1=one;crossload-1=two; crossload-2=three";
        let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static(cookies))]);
        let find = |port, is_encrypted| Cookie::session(port, is_encrypted).find(&headers);
        assert_eq!(find(1, true), Some("one"));
        assert_eq!(find(1, false), Some("two"));
        assert_eq!(find(2, false), Some("three"));
        assert_eq!(find(2, true), None);
    }

    fn line(act: impl FnOnce(&mut HeaderMap)) -> String {
        let mut headers = HeaderMap::new();
        act(&mut headers);
        headers[header::SET_COOKIE].to_str().unwrap().to_owned()
    }

    #[test]
    fn a_session_is_kept_from_scripts_and_other_sites() {
        let cookie = |is_encrypted| Cookie::session(8450, is_encrypted);
        assert_eq!(
            line(|headers| cookie(true).set(headers, "x")),
            "__Host-crossload-8450=x; Path=/; HttpOnly; SameSite=Strict; Secure"
        );
        assert_eq!(
            line(|headers| cookie(false).set(headers, "x")),
            "crossload-8450=x; Path=/; HttpOnly; SameSite=Strict"
        );
        assert_eq!(
            line(|headers| cookie(true).forget(headers)),
            "__Host-crossload-8450=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0; Secure"
        );
    }

    #[test]
    fn a_browser_keeps_its_newest_sign_ins() {
        let sent = |count: usize| {
            let pairs = (0..count).map(|number| format!("__Host-crossload-8450-{number}=x"));
            let mut all: Vec<String> = pairs.collect();
            all.push("__Host-crossload-8450=session".to_owned());
            all.push("__Host-crossload-8451-0=another door".to_owned());
            HeaderMap::from_iter([(header::COOKIE, HeaderValue::try_from(all.join("; ")).unwrap())])
        };
        let forgotten = |count| {
            let mut answer = HeaderMap::new();
            Cookie::forget_attempts(8450, true, &sent(count), &mut answer);
            let lines = answer.get_all(header::SET_COOKIE).iter();
            let lines = lines.map(|line| line.to_str().unwrap().to_owned());
            lines.collect::<Vec<_>>()
        };
        assert_eq!(forgotten(ATTEMPTS_OF_BROWSER_MAX - 1), Vec::<String>::new());
        let expected = [0, 1].map(|number| {
            format!("__Host-crossload-8450-{number}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0; Secure")
        });
        assert_eq!(forgotten(ATTEMPTS_OF_BROWSER_MAX + 1), expected);
    }

    #[test]
    fn a_sign_in_comes_back_from_its_issuer_in_a_cookie_of_its_own() {
        let (key, other) = (SessionKey::of("one"), SessionKey::of("two"));
        let cookie = |key| Cookie::attempt(8450, true, key);
        let set = line(|headers| cookie(&key).set(headers, "x"));
        let name = format!("__Host-crossload-8450-{}", &key.as_str()[..16]);
        assert_eq!(
            set,
            format!("{name}=x; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure")
        );
        let headers = HeaderMap::from_iter([(header::COOKIE, format!("{name}=x").parse().unwrap())]);
        assert_eq!(cookie(&key).find(&headers), Some("x"));
        assert_eq!(cookie(&other).find(&headers), None);
        assert_eq!(Cookie::session(8450, true).find(&headers), None);
    }
}
