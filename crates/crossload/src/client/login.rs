//! `login` and `logout`: tokens of an issuer by device authorization (RFC 8628).

use std::time::Duration;

use remote::{DeviceCode, IssuedTokens, TokenDenial, TokenIssuer, TokenWish};
use serde_json::json;
use tokio::time::{Instant, sleep};
use types::{Error, ErrorCode, Phase, Side};

use super::live_token::{issuer_of, keep, locked};
use super::session::ClientContext;
use crate::command_line::{LoginOptions, LogoutOptions};
use crate::dates::instant;
use crate::failure::Failure;
use crate::logins::{Login, forget};
use crate::output;
use crate::remotes::Remotes;
use crate::server::secret::load_passwords;

/// Scopes that are asked for without `--scope`.
const SCOPES: [&str; 2] = ["openid", REFRESHED];
/// The scope for a refresh token (OpenID Connect Core §11).
const REFRESHED: &str = "offline_access";
/// What `slow_down` adds to the pause (RFC 8628 §3.5).
const SLOWER: Duration = Duration::from_secs(5);

/// Shows a code, waits until the user has agreed, and keeps the tokens.
///
/// # Errors
/// The issuer cannot be asked or refuses, or the user did not agree in time.
pub(super) async fn run(session: &ClientContext, options: &LoginOptions) -> Result<u8, Failure> {
    let mut login = begun(options)?;
    let issuer = issuer_of(&login, &session.client);
    let wish = TokenWish {
        scopes: &login.scopes,
        audiences: &login.audiences,
    };
    let device = issuer
        .begin_device(&wish)
        .await
        .map_err(|denial| failed(&login, denial))?;
    show(&device, options.common.json);
    let given = agreed(&issuer, &device)
        .await
        .map_err(|denial| failed(&login, denial))?;
    {
        // One that another process renews meanwhile is not to replace this one.
        let _lock = locked().await?;
        keep(&mut login, &given)?;
    }
    let is_renewed = login.refresh().is_some();
    if options.common.json {
        let (issuer, ends_s) = (&login.issuer, login.ends_s);
        output::json(&json!({"event": "login", "issuer": issuer, "ends_s": ends_s, "renewed": is_renewed}));
        return Ok(0);
    }
    let how = match is_renewed {
        true => "it is renewed when needed",
        false => "it is not renewed: the issuer gave no refresh token",
    };
    output::line(&format!(
        "logged in at {}: the token lasts until {}, and {how}",
        login.issuer,
        instant(login.ends_s.saturating_mul(1000))
    ));
    Ok(0)
}

/// `logout`: revokes the refresh token at the issuer if that can be done, and forgets the tokens.
///
/// # Errors
/// There is no login.
pub(super) async fn end(session: &ClientContext, options: &LogoutOptions) -> Result<u8, Failure> {
    let issuer = issuer_named(&options.issuer)?;
    // Another process that renews it would bring it back.
    let _lock = locked().await?;
    let refused = match Login::load(&issuer) {
        Ok(Some(login)) => revoked(session, &login).await.err(),
        Ok(None) => return Err(Failure::invalid(format!("there is no login at {issuer}"))),
        Err(damaged) => Some(damaged.words),
    };
    forget(&issuer)?;
    if options.common.json {
        let is_revoked = refused.is_none();
        output::json(&json!({"event": "logout", "issuer": issuer, "revoked": is_revoked, "reason": refused}));
        return Ok(0);
    }
    output::line(&format!("logged out of {issuer}"));
    if let Some(why) = refused {
        // The words may be the issuer's own.
        let why = output::name(&why);
        output::complain(&format!(
            "the refresh token was not revoked, and is valid until it expires: {why}"
        ));
    }
    Ok(0)
}

/// Revokes the refresh token of a login.
///
/// # Errors
/// Why it may still be valid.
async fn revoked(session: &ClientContext, login: &Login) -> Result<(), String> {
    let Some(token) = login.refresh() else { return Ok(()) };
    let asked = issuer_of(login, &session.client).revoke(&token).await;
    asked.map_err(|denial| match denial {
        TokenDenial::Unreachable { error, .. } => error.public(),
        TokenDenial::Refused(word) => format!("the issuer refuses: {word}"),
    })
}

/// The login that is wished for. What the options leave out is as it was before.
fn begun(options: &LoginOptions) -> Result<Login, Failure> {
    let issuer = issuer_named(&options.issuer)?;
    let before = Login::load(&issuer)?;
    let secret = match &options.client_secret_file {
        Some(file) => load_passwords(file)?
            .first()
            .map(|line| types::Secret::new(line.as_str())),
        None => None,
    };
    let mut login = match (&options.client_id, &before) {
        (Some(id), _) => Login::new(&issuer, id, secret.as_ref()),
        (None, Some(before)) => Login::new(&issuer, &before.client_id, before.client_secret().as_ref()),
        (None, None) => {
            return Err(Failure::invalid(format!(
                "give --client-id: the name of a client that is registered at {issuer} for device codes"
            )));
        }
    };
    let old = before.as_ref();
    login.scopes = match (options.scope.is_empty(), old) {
        (false, _) => {
            let renewed = options.scope.iter().all(|scope| scope != REFRESHED);
            let further = renewed.then(|| REFRESHED.to_owned());
            options.scope.iter().cloned().chain(further).collect()
        }
        (true, Some(old)) => old.scopes.clone(),
        (true, None) => SCOPES.map(str::to_owned).to_vec(),
    };
    login.audiences = match (options.audience.is_empty(), old) {
        (true, Some(old)) => old.audiences.clone(),
        _ => options.audience.clone(),
    };
    Ok(login)
}

/// The issuer that an argument names: by its URL, or as that of a remote.
fn issuer_named(text: &str) -> Result<String, Failure> {
    if text.contains("://") {
        credentials::https_location(text)?;
        return Ok(text.to_owned());
    }
    let remotes = Remotes::load()?;
    let name = text.trim_end_matches(':');
    let issuer = remotes.get(name)?.issuer.clone();
    issuer.ok_or_else(|| Failure::invalid(format!("the remote {name} has no issuer: give the issuer's URL")))
}

fn show(device: &DeviceCode, is_json: bool) {
    let DeviceCode {
        user_code,
        page,
        whole_page,
        life_s,
        ..
    } = device;
    if is_json {
        return output::json(&json!({"event": "code", "user_code": user_code, "page": page,
            "whole_page": whole_page, "life_s": life_s}));
    }
    let minutes = life_s / 60;
    // They are the issuer's own: none may write further lines.
    let [page, user_code] = [page, user_code].map(|text| output::name(text));
    output::line(&format!("Open {page} in a browser, and enter the code {user_code}"));
    if let Some(whole) = whole_page {
        output::line(&format!("or open {}", output::name(whole)));
    }
    output::line(&format!("Waiting for up to {minutes} minutes …"));
}

/// Asks until the user has agreed or the code has ended.
async fn agreed(issuer: &TokenIssuer, device: &DeviceCode) -> Result<IssuedTokens, TokenDenial> {
    let end = Instant::now() + Duration::from_secs(device.life_s);
    let mut pause = Duration::from_secs(device.pause_s.max(1));
    loop {
        // The last question comes no later than the end of the code.
        sleep(pause.min(end.saturating_duration_since(Instant::now()))).await;
        match issuer.end_device(device).await {
            Err(TokenDenial::Refused(word)) if word == "authorization_pending" && Instant::now() < end => {}
            Err(TokenDenial::Refused(word)) if word == "slow_down" && Instant::now() < end => pause += SLOWER,
            // RFC 8628 §3.5: after a lost answer, ask less often.
            Err(TokenDenial::Unreachable { .. }) if Instant::now() < end => pause *= 2,
            ended => return ended,
        }
    }
}

fn failed(login: &Login, denial: TokenDenial) -> Failure {
    let issuer = &login.issuer;
    let (code, words, advice) = match denial {
        TokenDenial::Unreachable { error, .. } => return error.into(),
        TokenDenial::Refused(word) => match word.as_str() {
            "access_denied" => (
                ErrorCode::Unauthenticated,
                "you have refused the login".to_owned(),
                None,
            ),
            "expired_token" | "authorization_pending" | "slow_down" => {
                let words = "the code was not entered in time".to_owned();
                (ErrorCode::Unauthenticated, words, Some("Run the command again."))
            }
            "invalid_scope" => {
                let words = format!("the issuer gives no {}", login.scopes.join(" "));
                (
                    ErrorCode::Unauthenticated,
                    words,
                    Some("Give other scopes with --scope."),
                )
            }
            "invalid_client" | "unauthorized_client" => {
                let words = format!("the issuer has no client {} for device codes", login.client_id);
                (ErrorCode::Unauthenticated, words, Some("Give another --client-id."))
            }
            other => (ErrorCode::Unauthenticated, format!("the issuer refuses: {other}"), None),
        },
    };
    let error = Error::new(code, Side::Client, Phase::Authenticate).with_detail(format!("{issuer}: {words}"));
    match advice {
        Some(advice) => Failure::advised(&error, advice),
        None => error.into(),
    }
}
