//! Issuing a macaroon: what was asked for, cut down to what the requester may do.

use types::{Error, ErrorCode, LogicalPath, Phase, Secret, Side, uuid_text};

use crate::activity::Activities;
use crate::bad_request;
use crate::caveat::Caveat;
use crate::credential::{Credential, is_user_name};
use crate::exception::Exception;
use crate::grant::Grant;
use crate::macaroon::{Macaroon, MacaroonKey};
use crate::request::MacaroonRequest;

/// How long macaroons live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// When the request does not say, in seconds.
    pub default_s: u64,
    /// Longest lifetime, in seconds; longer requests are cut to this.
    pub max_s: u64,
}

/// One hour by default, at most one day (XRootD's maximum too).
impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            default_s: 3600,
            max_s: 86_400,
        }
    }
}

/// What the server brings to the act of issuing.
#[derive(Clone, Copy, Debug)]
pub struct Issuer<'a> {
    /// The newest key.
    pub key: &'a MacaroonKey,
    /// The server's name, written into the macaroon as a hint.
    pub location: &'a str,
    /// How long macaroons live.
    pub lifetimes: Lifetimes,
    /// Fresh random bytes for the identifier. They need not be secret, only unique.
    pub random: [u8; 16],
    /// The time, in seconds since 1970.
    pub now_s: i64,
}

/// The local identity of the requester, which the macaroon's bearer gets too.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owner<'a> {
    /// The local user.
    pub user: Option<&'a str>,
    /// The virtual organisation whose quota it counts against.
    pub vo: Option<&'a str>,
}

/// What the requester may hand on of what was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// What he may do on the path.
    pub activities: Activities,
    /// Where below it he may do less.
    pub except: Vec<Exception>,
}

/// A macaroon to hand out.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The serialised macaroon.
    pub text: Secret,
    /// Its own name, for the log.
    pub identifier: String,
    /// What it allows.
    pub activities: Activities,
    /// What was asked for, or meant by asking for nothing in particular, and is not given.
    pub withheld: Activities,
    /// Where below the path some of the activities are not given.
    pub except: Vec<Exception>,
    /// Its path.
    pub path: LogicalPath,
    /// For how long, in seconds from now.
    pub expires_in_s: u64,
}

/// Issues a macaroon for `path` (the request's own path where its form names one) that grants no
/// more than `rights`, which are those of the requester on that path and below it, and for no
/// longer than the requester's own credential lasts. Restrictions of a token go with it. What was
/// asked for and is not given stands in the identifier, so that a later refusal can say so.
///
/// Asked for with a macaroon, the answer is that macaroon narrowed, so it keeps all restrictions
/// and the identifier. A request that names no activity gets reading only, never everything.
///
/// # Errors
/// `forbidden` (without a credential `unauthenticated`) when none of the activities asked for is
/// among the rights; `bad_request` when it would already be over, or too long.
pub fn issue(
    request: &MacaroonRequest,
    requester: &Credential,
    rights: &Allowance,
    path: &LogicalPath,
    owner: Owner<'_>,
    issuer: &Issuer<'_>,
) -> Result<Issued, Error> {
    let activities = request.wanted().intersection(rights.activities);
    let withheld = request.wanted().without(activities);
    if activities.is_empty() {
        let code = match requester {
            Credential::Anonymous | Credential::RefusedCertificate(_) => ErrorCode::Unauthenticated,
            Credential::Macaroon(_) | Credential::Token(_) | Credential::Certificate(_) => ErrorCode::Forbidden,
        };
        return Err(Error::new(code, Side::Client, Phase::Authorize)
            .with_detail(format!(
                "the requester has none of the rights asked for ({withheld}) there"
            ))
            .with_subject(path));
    }
    let expires_s = expiry_s(request, requester, issuer);
    let expires_in_s = u64::try_from(expires_s.saturating_sub(issuer.now_s)).unwrap_or(0);
    if expires_in_s == 0 {
        return Err(bad_request("the macaroon would already have expired"));
    }
    let path = request.path.as_ref().unwrap_or(path);
    let mut caveats = vec![Caveat::Activity(activities), Caveat::Path(path.clone())];
    caveats.extend(rights.except.iter().cloned().map(Caveat::Except));
    caveats.extend(
        request
            .restrictions
            .iter()
            .filter(|caveat| !matches!(caveat, Caveat::Before(_)))
            .cloned(),
    );
    if let Credential::Token(token) = requester {
        caveats.extend(token.grant.iter().flat_map(restrictions));
    }
    caveats.push(Caveat::Before(expires_s));
    let macaroon = build(requester, owner, withheld, issuer, &caveats)?;
    Ok(Issued {
        text: macaroon.to_text(),
        identifier: macaroon.identifier(),
        activities,
        withheld,
        except: rights.except.clone(),
        path: path.clone(),
        expires_in_s,
    })
}

/// What a macaroon for another server says, which shares our secret.
#[derive(Clone, Debug)]
pub struct Delegation<'a> {
    /// For whom it acts there.
    pub owner: Owner<'a>,
    /// What it allows.
    pub activities: Activities,
    /// Where: this path, and what is below it.
    pub path: &'a LogicalPath,
    /// When it ends, in seconds since 1970.
    pub expires_s: i64,
}

/// Mints a macaroon that this server itself shows to another one, in the name of a client.
///
/// # Errors
/// `bad_request` if it would be too long.
pub fn mint_for(issuer: &Issuer<'_>, what: &Delegation<'_>) -> Result<Secret, Error> {
    let caveats = [
        what.owner.user.map(|user| Caveat::Name(user.to_owned())),
        Some(Caveat::Activity(what.activities)),
        Some(Caveat::Path(what.path.clone())),
        Some(Caveat::Before(what.expires_s)),
    ];
    let texts: Vec<String> = caveats.into_iter().flatten().map(|caveat| caveat.to_string()).collect();
    let identifier = identifier(issuer.random, what.owner, Activities::NONE);
    let texts = texts.iter().map(String::as_str);
    Macaroon::mint(issuer.key, issuer.location, &identifier, texts).map(|macaroon| macaroon.to_text())
}

/// The earliest of what was asked for, what this server allows and what the requester has left.
fn expiry_s(request: &MacaroonRequest, requester: &Credential, issuer: &Issuer<'_>) -> i64 {
    let lifetime_s = request
        .lifetime_s
        .unwrap_or(issuer.lifetimes.default_s)
        .min(issuer.lifetimes.max_s);
    let asked_s = issuer.now_s.saturating_add_unsigned(lifetime_s);
    let before = request.restrictions.iter().filter_map(|caveat| match caveat {
        Caveat::Before(time_s) => Some(*time_s),
        _ => None,
    });
    let own = requester.expires_s();
    before.chain(own).fold(asked_s, i64::min)
}

/// What restricts all that a token grants.
fn restrictions(grant: &Grant) -> impl Iterator<Item = Caveat> {
    let addresses = grant.addresses.iter().cloned().map(Caveat::Address);
    addresses.chain(grant.max_upload_bytes.map(Caveat::MaxUpload))
}

fn build(
    requester: &Credential,
    owner: Owner<'_>,
    withheld: Activities,
    issuer: &Issuer<'_>,
    caveats: &[Caveat],
) -> Result<Macaroon, Error> {
    let mut texts: Vec<String> = caveats.iter().map(ToString::to_string).collect();
    match requester {
        Credential::Anonymous
        | Credential::RefusedCertificate(_)
        | Credential::Token(_)
        | Credential::Certificate(_) => {
            let identifier = identifier(issuer.random, owner, withheld);
            let name = owner.user.map(str::to_owned).or_else(|| name_of(requester));
            texts.splice(0..0, name.map(|name| Caveat::Name(name).to_string()));
            Macaroon::mint(
                issuer.key,
                issuer.location,
                &identifier,
                texts.iter().map(String::as_str),
            )
        }
        Credential::Macaroon(verified) => {
            let mut macaroon = verified.macaroon().clone();
            for text in &texts {
                macaroon.attenuate(text)?;
            }
            Ok(macaroon)
        }
    }
}

/// The name in a macaroon for a requester without a local user: not the name of any user, since
/// readers of the macaroon may take it for one.
fn name_of(requester: &Credential) -> Option<String> {
    let principal = requester.principal()?;
    let subject = principal.subject.as_ref();
    let of_token = || {
        Some(format!(
            "{} of {}",
            subject?,
            principal.issuer.as_deref().unwrap_or("no issuer")
        ))
    };
    let name = principal.dn.clone().or_else(of_token)?;
    (!name.chars().any(char::is_control) && !is_user_name(&name)).then_some(name)
}

/// What marks the local user, the organisation and what was not given behind the random part of an
/// identifier.
const USER_MARK: &str = "user=";
const VO_MARK: &str = "vo=";
const WITHHELD_MARK: &str = "withheld=";

/// A macaroon's own name. For whom it acts stands in it: a caveat for the organisation would make
/// other servers refuse the macaroon, and the caveat `name:` of another server that shares the
/// secret may hold a name that is unknown here. Every server takes an identifier as it is, and the
/// signature covers it from the start.
fn identifier(random: [u8; 16], owner: Owner<'_>, withheld: Activities) -> String {
    let is_plain = |name: &&str| !name.is_empty() && !name.contains(['/', '\n']);
    // A random UUID (RFC 9562 §5.4), the form of identifier that XRootD's macaroons have.
    let mut text = uuid_text(random, 4);
    for (mark, name) in [(USER_MARK, owner.user), (VO_MARK, owner.vo)] {
        if let Some(name) = name.filter(is_plain) {
            text.extend(["/", mark, name]);
        }
    }
    if !withheld.is_empty() {
        text.extend(["/", WITHHELD_MARK, &withheld.to_string()]);
    }
    text
}

/// What was asked for and not given, as an identifier says it.
pub(crate) fn withheld_of(identifier: &str) -> Activities {
    let mut parts = identifier.split('/').skip(1);
    let named = parts.find_map(|part| part.strip_prefix(WITHHELD_MARK));
    named.and_then(Activities::parse).unwrap_or_default()
}

/// The local user and the organisation that an identifier names.
pub(crate) fn owner_of(identifier: &str) -> Owner<'_> {
    let mut parts = identifier.split('/');
    let random = parts.next().unwrap_or_default();
    let is_ours = random.len() == UUID_BYTES && random.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let mut owner = Owner::default();
    for part in parts.filter(|_| is_ours) {
        owner.user = owner.user.or(part.strip_prefix(USER_MARK));
        owner.vo = owner.vo.or(part.strip_prefix(VO_MARK));
    }
    owner
}

/// How long a UUID in text is.
const UUID_BYTES: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::{CertificateIssuer, VerifiedCertificate, read_bearer};
    use crate::principal::Principal;

    const NOW_S: i64 = 1_800_000_000;

    fn ask(body: &str, requester: &Credential, rights: Activities) -> Result<Issued, Error> {
        let key = MacaroonKey::new(b"secret");
        let issuer = Issuer {
            key: &key,
            location: "se",
            lifetimes: Lifetimes::default(),
            random: [0xff; 16],
            now_s: NOW_S,
        };
        let request = MacaroonRequest::from_json(body.as_bytes()).unwrap();
        issue(
            &request,
            requester,
            &Allowance {
                activities: rights,
                except: Vec::new(),
            },
            &LogicalPath::parse("/data/f").unwrap(),
            Owner {
                user: requester.local_user(),
                vo: requester.vo(),
            },
            &issuer,
        )
    }

    fn holder(principal: Principal) -> Credential {
        Credential::Certificate(Box::new(VerifiedCertificate {
            principal,
            issuer: CertificateIssuer::default(),
            expires_s: NOW_S + 100,
            proxies: 1,
            is_limited: false,
            allows_proxies: true,
            attribute_faults: Vec::new(),
        }))
    }

    #[test]
    fn a_macaroon_acts_for_whom_it_was_made_and_lasts_no_longer_than_his_credential() {
        let ann = Principal {
            dn: Some("/O=Grid/CN=root".to_owned()),
            vos: vec!["atlas".to_owned()],
            user: Some("ann".to_owned()),
            ..Principal::default()
        };
        let issued = ask(r#"{"validity":"PT1H"}"#, &holder(ann.clone()), Activities::ALL).unwrap();
        assert_eq!(issued.expires_in_s, 100);
        let bearer = read(&issued);
        assert_eq!((bearer.local_user(), bearer.vo()), (Some("ann"), Some("atlas")));
        let narrower = read(&ask("{}", &bearer, Activities::ALL).unwrap());
        assert_eq!((narrower.local_user(), narrower.vo()), (Some("ann"), Some("atlas")));
        let stranger = Principal { user: None, ..ann };
        let bearer = read(&ask("{}", &holder(stranger), Activities::ALL).unwrap());
        assert_eq!(bearer.identity().subject.as_deref(), Some("/O=Grid/CN=root"));
        assert_eq!(bearer.local_user(), None);
    }

    #[test]
    fn nobody_becomes_a_local_user_by_the_subject_of_a_token_or_the_word_of_another_server() {
        let root = Principal {
            subject: Some("root".to_owned()),
            issuer: Some("https://iam.example.org/".to_owned()),
            ..Principal::default()
        };
        let bearer = read(&ask("{}", &holder(root), Activities::ALL).unwrap());
        assert_eq!(bearer.local_user(), None);
        let subject = bearer.identity().subject;
        assert_eq!(subject.as_deref(), Some("root of https://iam.example.org/"));
        // The holder of a macaroon can append a name, which then does not count.
        let key = MacaroonKey::new(b"secret");
        let minted = Macaroon::mint(&key, "se", "id/user=ann/vo=atlas", ["name:ann", "path:/a"]).unwrap();
        let bearer = read_bearer(minted.to_text().expose(), &[key]).unwrap();
        assert_eq!((bearer.local_user(), bearer.vo()), (None, None));
    }

    fn read(issued: &Issued) -> Credential {
        read_bearer(issued.text.expose(), &[MacaroonKey::new(b"secret")]).unwrap()
    }

    #[test]
    fn what_is_granted_is_what_is_asked_and_allowed() {
        let issued = ask(
            r#"{"caveats":["activity:UPLOAD,LIST"],"validity":"PT30M"}"#,
            &Credential::Anonymous,
            Activities::READ,
        )
        .unwrap();
        assert_eq!(
            (issued.activities.to_string().as_str(), issued.expires_in_s),
            ("LIST", 1800)
        );
        assert_eq!(issued.withheld.to_string(), "UPLOAD");
        let identifier = "ffffffff-ffff-4fff-bfff-ffffffffffff/withheld=UPLOAD";
        assert_eq!(
            (issued.identifier.as_str(), withheld_of(identifier)),
            (identifier, issued.withheld)
        );
        let credential = read(&issued);
        let grant = credential.grant().unwrap();
        assert_eq!(grant.scopes[0].activities, issued.activities);
        assert_eq!(grant.scopes[0].path.as_str(), "/data/f");
        assert_eq!(grant.expires_s, Some(NOW_S + 1800));
    }

    #[test]
    fn an_empty_intersection_is_refused_and_no_wish_means_reading() {
        let body = r#"{"caveats":["activity:UPLOAD"]}"#;
        let error = ask(body, &Credential::Anonymous, Activities::READ).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unauthenticated);
        let holder = read(&ask("{}", &Credential::Anonymous, Activities::ALL).unwrap());
        assert_eq!(holder.grant().unwrap().scopes[0].activities, Activities::READ);
        assert_eq!(
            ask(body, &holder, Activities::READ).unwrap_err().code(),
            ErrorCode::Forbidden
        );
    }

    #[test]
    fn lifetimes_are_cut_and_before_narrows() {
        let lifetime =
            |body: &str| ask(body, &Credential::Anonymous, Activities::ALL).map(|issued| issued.expires_in_s);
        assert_eq!(lifetime("{}").unwrap(), 3600);
        assert_eq!(lifetime(r#"{"validity":"P30D"}"#).unwrap(), 86_400);
        let before = Caveat::Before(NOW_S + 60);
        assert_eq!(
            lifetime(&format!(r#"{{"caveats":["{before}"],"validity":"PT1H"}}"#)).unwrap(),
            60
        );
        let past = Caveat::Before(NOW_S);
        assert_eq!(
            lifetime(&format!(r#"{{"caveats":["{past}"]}}"#)).unwrap_err().code(),
            ErrorCode::BadRequest
        );
    }

    #[test]
    fn a_macaroon_begets_only_narrower_ones() {
        let first = read(
            &ask(
                r#"{"caveats":["activity:UPLOAD,LIST","max-upload:7"],"validity":"PT10M"}"#,
                &Credential::Anonymous,
                Activities::ALL,
            )
            .unwrap(),
        );
        // Even when the caller overstates the rights, the old caveats still bind.
        let second = read(
            &ask(
                r#"{"caveats":["activity:UPLOAD,DELETE"],"validity":"PT1H"}"#,
                &first,
                Activities::ALL,
            )
            .unwrap(),
        );
        let grant = second.grant().unwrap();
        assert_eq!(grant.scopes[0].activities.to_string(), "UPLOAD");
        assert_eq!((grant.expires_s, grant.max_upload_bytes), (Some(NOW_S + 600), Some(7)));
        assert_eq!(second.identity().token_id, first.identity().token_id);
    }
}
