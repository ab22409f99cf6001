//! The groups of a token (WLCG Common JWT Profiles; AARC-G002 and AARC-G069 for entitlements).

use serde_json::{Map, Value};
use types::{Error, ErrorCode, decode_percent};

use super::claims::{check_group_count, list_of_texts};
use super::issuer::IssuerRules;
use super::refused;

/// The groups in the claim that the site names, each as `/vo/group`. A group does not stand for
/// those above it.
///
/// # Errors
/// `token_claims` when the claim is not a list of texts (or one text), `token_too_large`.
pub(super) fn read(claims: &Map<String, Value>, issuer: &IssuerRules) -> Result<Vec<String>, Error> {
    let fault = || {
        let words = format!("\"{}\" is not a list of groups", issuer.groups_claim);
        refused(ErrorCode::TokenClaims, words)
    };
    let named = match claims.get(&issuer.groups_claim) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) => text
            .split([' ', ','])
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
        Some(Value::Array(list)) => list_of_texts(list).ok_or_else(fault)?,
        Some(_) => return Err(fault()),
    };
    check_group_count(named.len())?;
    if issuer.groups_claim == IssuerRules::GROUPS_CLAIM {
        // The profile has one form only, and what looks different is no group.
        return Ok(named.into_iter().filter(|name| name.starts_with('/')).collect());
    }
    let mut groups: Vec<String> = Vec::new();
    for name in named {
        let group = match entitlement(&name) {
            Entitlement::Group(group) => group,
            Entitlement::Other => name,
            Entitlement::No if name.starts_with('/') => name,
            Entitlement::No => format!("/{name}"),
        };
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    Ok(groups)
}

enum Entitlement {
    Group(String),
    /// An entitlement that is no group; rules can name it as it stands.
    Other,
    No,
}

/// `urn:<namespace>:group:<group>[:<subgroup>…][:role=<role>]#<authority>` (AARC-G002 §4):
/// `/group/subgroup`, and with a role other than membership `/group/subgroup/Role=role`.
fn entitlement(text: &str) -> Entitlement {
    let Some(rest) = text
        .get(..4)
        .filter(|start| start.eq_ignore_ascii_case("urn:"))
        .map(|_| &text[4..])
    else {
        return Entitlement::No;
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let Some((_, path)) = rest.split_once(":group:") else {
        return Entitlement::Other;
    };
    let mut group = String::new();
    for part in path.split(':') {
        let (name, is_role) = match part.strip_prefix("role=") {
            Some(role) => (role, true),
            None => (part, false),
        };
        let Some(name) = decode_percent(name).filter(|name| is_plain(name)) else {
            return Entitlement::Other;
        };
        match is_role {
            true if name == "member" => {}
            true => group.push_str(&format!("/Role={name}")),
            false => group.push_str(&format!("/{name}")),
        }
    }
    Entitlement::Group(group)
}

/// A name that cannot be taken for two, nor for a role.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '=']) && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(claim: &str, value: &str) -> Result<Vec<String>, ErrorCode> {
        let issuer = IssuerRules {
            groups_claim: claim.to_owned(),
            ..IssuerRules::new("https://i")
        };
        let claims = Map::from_iter([(claim.to_owned(), serde_json::from_str(value).unwrap())]);
        read(&claims, &issuer).map_err(|error| error.code())
    }

    #[test]
    fn groups_of_each_kind_become_paths() {
        for (claim, value, expected) in [
            (
                "wlcg.groups",
                r#"["/atlas","/atlas/prod","atlas"]"#,
                vec!["/atlas", "/atlas/prod"],
            ),
            (
                "groups",
                r#"["atlas","/atlas/prod","atlas"]"#,
                vec!["/atlas", "/atlas/prod"],
            ),
            ("groups", r#""atlas,cms""#, vec!["/atlas", "/cms"]),
            (
                "eduperson_entitlement",
                r#"["urn:mace:egi.eu:group:vo.example.org:role=member#aai.egi.eu",
                    "urn:mace:egi.eu:group:vo.example.org:sub%20group:role=manager#aai.egi.eu",
                    "urn:mace:egi.eu:res:thing#aai.egi.eu",
                    "urn:mace:egi.eu:group:a%2Fb#x"]"#,
                vec![
                    "/vo.example.org",
                    "/vo.example.org/sub group/Role=manager",
                    "urn:mace:egi.eu:res:thing#aai.egi.eu",
                    "urn:mace:egi.eu:group:a%2Fb#x",
                ],
            ),
            ("groups", "null", vec![]),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(groups(claim, value), Ok(expected), "{value}");
        }
        assert_eq!(groups("wlcg.groups", "[1]"), Err(ErrorCode::TokenClaims));
        assert_eq!(groups("wlcg.groups", "{}"), Err(ErrorCode::TokenClaims));
        let many = format!("[{}\"/a\"]", "\"/a\",".repeat(300));
        assert_eq!(groups("wlcg.groups", &many), Err(ErrorCode::TokenTooLarge));
    }
}
