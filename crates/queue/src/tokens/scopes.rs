//! What the tokens of a file may not allow, by their audiences and scopes.

use catalog::{JobOptions, Overwrite};
use credentials::{Activities, Activity, UnverifiedToken};
use types::{Location, LogicalPath, Secret, Side};

use super::audiences::audience_gap;

/// What the copy asks of a side.
fn wanted(side: Side, options: &JobOptions) -> (Activities, &'static str) {
    let brings_online = options.bring_online_s.is_some() || options.pin_lifetime_s.is_some();
    let replaces = options.overwrite == Overwrite::Always;
    match (side, brings_online, replaces) {
        (Side::Source, false, _) => (Activities::of(&[Activity::Download]), "read"),
        (Side::Source, true, _) => (
            Activities::of(&[Activity::Download, Activity::Stage]),
            "bring online and read",
        ),
        (_, _, false) => (Activities::of(&[Activity::Upload]), "write"),
        (_, _, true) => (Activities::of(&[Activity::Upload, Activity::Delete]), "replace"),
    }
}

/// A sentence about a token that may not be enough for the file at `place`: it is for other
/// servers, or its scopes are too narrow. `None`: it seems to be enough, or nothing can be said
/// ([`UnverifiedToken::shortfall`]).
#[must_use]
pub fn token_gap(token: &Secret, place: &Location, side: Side, options: &JobOptions) -> Option<String> {
    audience_gap(token, place, side).or_else(|| scope_gap(token, place, side, options))
}

fn scope_gap(token: &Secret, place: &Location, side: Side, options: &JobOptions) -> Option<String> {
    let path = LogicalPath::parse_url_path(place.path()).ok()?;
    let (wanted, verb) = wanted(side, options);
    let token = UnverifiedToken::parse(token.expose()).ok()?;
    let shortfall = token.shortfall(wanted, &path)?;
    Some(format!(
        "the token for the {} may not allow to {verb} {}: {shortfall}",
        side.name(),
        place.path()
    ))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    #[test]
    fn what_a_job_asks_of_each_side_is_compared_with_the_scopes() {
        let place = Location::parse("davs://a:443/vo/f?authz=x").unwrap();
        let gap = |scopes: &str, side, options: &JobOptions| {
            let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
            let claims = serde_json::json!({"iss": "https://i", "wlcg.ver": "1.0", "scope": scopes}).to_string();
            let token = format!(
                "{}.{}.{}",
                part("{\"alg\": \"RS256\"}"),
                part(&claims),
                part("signature")
            );
            token_gap(&Secret::new(token), &place, side, options)
        };
        let (plain, both) = (JobOptions::default(), "storage.read:/vo storage.create:/vo");
        assert_eq!(gap(both, Side::Source, &plain), None);
        assert_eq!(gap(both, Side::Destination, &plain), None);
        let replaces = JobOptions {
            overwrite: Overwrite::Always,
            ..JobOptions::default()
        };
        assert_eq!(
            gap(both, Side::Destination, &replaces).as_deref(),
            Some(
                "the token for the destination may not allow to replace /vo/f: none of its scopes allows that \
                 (storage.read:/vo storage.create:/vo)"
            )
        );
        let staged = JobOptions {
            bring_online_s: Some(60),
            ..JobOptions::default()
        };
        let told = gap(both, Side::Source, &staged).unwrap();
        assert!(
            told.contains("may not allow to bring online and read /vo/f: "),
            "{told}"
        );
        assert_eq!(gap("storage.read:/ storage.stage:/", Side::Source, &staged), None);
        let opaque = token_gap(&Secret::new("MDAxxx"), &place, Side::Source, &plain);
        assert_eq!(opaque, None);
    }
}
