//! Routes: everything that this door can be asked, and the one table that says at which path.

use http_server::{Claim, claims, find};
use http_wire::Method;
use types::LogicalPath;

/// Where delegation is asked for, as the SOAP service of GridSite has it.
pub(crate) const DELEGATION_SERVICE: &str = "/delegation";
/// Where tokens are asked for, as XRootD has it.
pub(crate) const TOKEN_ENDPOINT: &str = "/.oauth2/token";

/// Where redirectors ask how this server is.
const NODE: &str = "/.well-known/crossload-node";

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Delegation of credentials.
    Delegation(DelegationRoute),
    /// May I do that, and why?
    Explain,
    /// Where is it, and where would I be sent?
    Why,
    /// How this server is, as a node of a cluster.
    Node,
    /// What it is used for from now on.
    NodeOrder,
    /// Where the token endpoint is.
    Discovery,
    /// A macaroon, at the token endpoint.
    Token,
    /// A macaroon, by a POST to the path that it is for.
    Macaroon,
    /// A file, or the page of a directory.
    Get,
    Put,
    Delete,
    Mkcol,
    Move,
    Copy,
    Propfind,
    Proppatch,
    Lock,
    Unlock,
    Options,
    /// A method that is not offered.
    Unknown,
}

/// What a request asks of the delegation service; `id` is the name of a delegation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DelegationRoute {
    /// A call of the SOAP service.
    Soap,
    /// Who the client is.
    Whoami,
    /// What is known of a delegated credential.
    Describe { id: String },
    /// Delete a delegated credential.
    Remove { id: String },
    /// A certificate request for the client to sign.
    Request { id: String },
    /// Store the signed certificate.
    Put { id: String },
    /// A path of the service with a method that it does not know.
    WrongMethod,
}

impl DelegationRoute {
    fn describe(id: &str) -> Route {
        Route::Delegation(Self::Describe { id: id.to_owned() })
    }

    fn remove(id: &str) -> Route {
        Route::Delegation(Self::Remove { id: id.to_owned() })
    }

    fn request(id: &str) -> Route {
        Route::Delegation(Self::Request { id: id.to_owned() })
    }

    fn put(id: &str) -> Route {
        Route::Delegation(Self::Put { id: id.to_owned() })
    }
}

impl Route {
    /// What a request asks for. Without delegation its paths are those of files.
    pub(crate) fn of(method: &Method, path: &LogicalPath, has_delegation: bool) -> Self {
        find(table(has_delegation), method, path).unwrap_or(Self::Unknown)
    }
}

/// The table: `DELEGATION` where that is switched on, and `ALWAYS`.
fn table(has_delegation: bool) -> impl Iterator<Item = &'static Claim<Route>> {
    let delegation = if has_delegation { DELEGATION } else { &[] };
    delegation.iter().chain(ALWAYS)
}

/// The claims of delegation: the SOAP service of GridSite, which davix calls, and the REST service
/// of FTS.
const DELEGATION: &[Claim<Route>] = claims! {
    [Get] "/whoami" => |_| Route::Delegation(DelegationRoute::Whoami);
    [Post] DELEGATION_SERVICE => |_| Route::Delegation(DelegationRoute::Soap);
    [Get] "/delegation/{id}" => |captured| DelegationRoute::describe(captured.get(0));
    [Delete] "/delegation/{id}" => |captured| DelegationRoute::remove(captured.get(0));
    [Get] "/delegation/{id}/request" => |captured| DelegationRoute::request(captured.get(0));
    [Put, Post] "/delegation/{id}/credential" => |captured| DelegationRoute::put(captured.get(0));
    [] "/delegation/{id}" => |_| Route::Delegation(DelegationRoute::WrongMethod);
    [] "/delegation/{id}/request" => |_| Route::Delegation(DelegationRoute::WrongMethod);
    [] "/delegation/{id}/credential" => |_| Route::Delegation(DelegationRoute::WrongMethod);
};

/// All other claims. The metadata of the token endpoint are at the paths of RFC 8414 §3 and of
/// OpenID Connect Discovery 1.0 §4, to which gfal2 appends the path of the issuer.
const ALWAYS: &[Claim<Route>] = claims! {
    [Get, Head] "/.well-known/crossload-explain" => |_| Route::Explain;
    [Get, Head] "/.well-known/crossload-why" => |_| Route::Why;
    [Get, Head] NODE => |_| Route::Node;
    [Post] NODE => |_| Route::NodeOrder;
    [Get, Head] "/.well-known/oauth-authorization-server/{*}" => |_| Route::Discovery;
    [Get, Head] "/.well-known/openid-configuration/{*}" => |_| Route::Discovery;
    [Post] TOKEN_ENDPOINT => |_| Route::Token;
    [Get, Head] "/{*}" => |_| Route::Get;
    [Put] "/{*}" => |_| Route::Put;
    [Propfind] "/{*}" => |_| Route::Propfind;
    [Delete] "/{*}" => |_| Route::Delete;
    [Mkcol] "/{*}" => |_| Route::Mkcol;
    [Move] "/{*}" => |_| Route::Move;
    [Copy] "/{*}" => |_| Route::Copy;
    [Proppatch] "/{*}" => |_| Route::Proppatch;
    [Lock] "/{*}" => |_| Route::Lock;
    [Unlock] "/{*}" => |_| Route::Unlock;
    [Options] "/{*}" => |_| Route::Options;
    [Post] "/{*}" => |_| Route::Macaroon;
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::METHODS;

    fn route(method: Method, path: &str) -> Route {
        Route::of(&method, &LogicalPath::parse(path).unwrap(), true)
    }

    fn delegation(method: Method, path: &str) -> DelegationRoute {
        match route(method, path) {
            Route::Delegation(route) => route,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_table_lists_every_claim() {
        let lines: Vec<String> = table(true).map(Claim::to_string).collect();
        let expected = [
            "GET /whoami",
            "POST /delegation",
            "GET /delegation/{id}",
            "DELETE /delegation/{id}",
            "GET /delegation/{id}/request",
            "PUT,POST /delegation/{id}/credential",
            "* /delegation/{id}",
            "* /delegation/{id}/request",
            "* /delegation/{id}/credential",
            "GET,HEAD /.well-known/crossload-explain",
            "GET,HEAD /.well-known/crossload-why",
            "GET,HEAD /.well-known/crossload-node",
            "POST /.well-known/crossload-node",
            "GET,HEAD /.well-known/oauth-authorization-server/{*}",
            "GET,HEAD /.well-known/openid-configuration/{*}",
            "POST /.oauth2/token",
            "GET,HEAD /{*}",
            "PUT /{*}",
            "PROPFIND /{*}",
            "DELETE /{*}",
            "MKCOL /{*}",
            "MOVE /{*}",
            "COPY /{*}",
            "PROPPATCH /{*}",
            "LOCK /{*}",
            "UNLOCK /{*}",
            "OPTIONS /{*}",
            "POST /{*}",
        ];
        assert_eq!(lines, expected);
        let files: Vec<String> = table(false).map(Claim::to_string).collect();
        assert_eq!(files, expected[DELEGATION.len()..]);
    }

    #[test]
    fn a_method_that_is_offered_has_a_route_everywhere() {
        for method in METHODS {
            for path in ["/", "/data/f", "/.well-known", "/delegation", "/whoami", "/whoami/x"] {
                assert_ne!(route(method.clone(), path), Route::Unknown, "{} {path}", method.name());
            }
        }
        assert_eq!(route(Method::Other("PATCH".into()), "/data"), Route::Unknown);
    }

    #[test]
    fn delegation_has_its_paths_where_it_is_switched_on() {
        let id = || "7".to_owned();
        assert_eq!(delegation(Method::Get, "/whoami"), DelegationRoute::Whoami);
        assert_eq!(delegation(Method::Post, "/delegation"), DelegationRoute::Soap);
        let described = DelegationRoute::Describe { id: id() };
        assert_eq!(delegation(Method::Get, "/delegation/7"), described);
        assert_eq!(
            delegation(Method::Delete, "/delegation/7"),
            DelegationRoute::Remove { id: id() }
        );
        assert_eq!(delegation(Method::Put, "/delegation/7"), DelegationRoute::WrongMethod);
        let requested = DelegationRoute::Request { id: id() };
        assert_eq!(delegation(Method::Get, "/delegation/7/request"), requested);
        for method in [Method::Put, Method::Post] {
            let put = DelegationRoute::Put { id: id() };
            assert_eq!(delegation(method, "/delegation/7/credential"), put);
        }
        let wrong = delegation(Method::Other("PATCH".into()), "/delegation/7/credential");
        assert_eq!(wrong, DelegationRoute::WrongMethod);
        assert_eq!(route(Method::Put, "/whoami"), Route::Put);
        assert_eq!(route(Method::Get, "/delegation"), Route::Get);
        assert_eq!(route(Method::Get, "/delegation/7/other"), Route::Get);
        assert_eq!(route(Method::Get, "/delegation/7/request/x"), Route::Get);
        let path = LogicalPath::parse("/delegation/7").unwrap();
        assert_eq!(Route::of(&Method::Get, &path, false), Route::Get);
    }

    #[test]
    fn the_metadata_are_found_for_issuers_with_a_path_too() {
        let get = |path| route(Method::Get, path);
        assert_eq!(get("/.well-known/oauth-authorization-server"), Route::Discovery);
        assert_eq!(get("/.well-known/openid-configuration/data/x"), Route::Discovery);
        assert_eq!(get("/.well-known/openid-configurations"), Route::Get);
        assert_eq!(get("/data"), Route::Get);
        assert_eq!(route(Method::Put, "/.well-known/openid-configuration"), Route::Put);
    }

    #[test]
    fn tokens_are_asked_for_at_the_endpoint_and_macaroons_anywhere_else() {
        assert_eq!(route(Method::Post, "/.oauth2/token"), Route::Token);
        assert_eq!(route(Method::Post, "/.oauth2/token/x"), Route::Macaroon);
        assert_eq!(route(Method::Post, "/data"), Route::Macaroon);
        assert_eq!(route(Method::Head, "/.well-known/crossload-explain"), Route::Explain);
        assert_eq!(route(Method::Get, "/.well-known/crossload-explain/x"), Route::Get);
    }
}
