//! Nodes of a cluster, as its redirectors see them.

use crate::error::code::ErrorCode;
use crate::error::fts::{Fts, Scope};
use crate::error::row::{AnotherWay, Retry, Row};
use crate::error::s3::S3;

/// In the order of [`ErrorCode`].
pub(super) const ROWS: &[Row] = &[
    Row {
        code: ErrorCode::NodesSilent,
        name: "nodes_silent",
        http: 503,
        xrootd: 3014,
        fts: Fts {
            scope: Scope::Transfer,
            text: "Communication error on send: nodes that may have the file do not answer",
        },
        s3: S3::ServiceUnavailable,
        exit: 11,
        retry: Retry::Yes,
        another_way: AnotherWay::No,
        meaning: "Nodes of the cluster that may have the file do not answer",
        for_client: "Try again in a few seconds; if it stays so, ask the site's administrators.",
        client_options: "",
        for_administrator: "crossload why and /ready at server.admin_listen show which nodes are unreachable. One that stays unreachable stops counting after ten minutes; one that will not come back, as soon as its [[node]] is removed and the configuration reloaded.",
    },
    Row {
        code: ErrorCode::NodesRefuse,
        name: "nodes_refuse",
        http: 503,
        xrootd: 3014,
        fts: Fts {
            scope: Scope::Transfer,
            text: "Communication error on send: nodes that may have the file refuse the redirector",
        },
        s3: S3::ServiceUnavailable,
        exit: 11,
        retry: Retry::Yes,
        another_way: AnotherWay::No,
        meaning: "Nodes of the cluster refuse to tell the redirector whether they have the file",
        for_client: "Ask the site's administrators: your own credential is not the cause.",
        client_options: "",
        for_administrator: "Set token_file of the [[node]] to a token with which the redirector may read there; crossload why shows what the node says.",
    },
    Row {
        code: ErrorCode::NoNode,
        name: "no_node",
        http: 503,
        xrootd: 3014,
        fts: Fts {
            scope: Scope::Transfer,
            text: "Communication error on send: no node of the cluster takes the request",
        },
        s3: S3::ServiceUnavailable,
        exit: 11,
        retry: Retry::Yes,
        another_way: AnotherWay::No,
        meaning: "No node of the cluster takes the request",
        for_client: "Try again later, or ask the site's administrators.",
        client_options: "",
        for_administrator: "Take nodes back (crossload node undrain), or start those that are unreachable.",
    },
    Row {
        code: ErrorCode::SeveralCopies,
        name: "several_copies",
        http: 409,
        xrootd: 3005,
        fts: Fts {
            scope: Scope::Side,
            text: "The file is on several nodes of the cluster, and cannot be changed",
        },
        s3: S3::InvalidRequest,
        exit: 17,
        retry: Retry::No,
        another_way: AnotherWay::No,
        meaning: "The file is on several nodes of the cluster: a change of one copy would make them differ",
        for_client: "Remove the file, which removes all copies, and store it again; or store it under another name.",
        client_options: "",
        for_administrator: "crossload why shows the nodes that have it.",
    },
    Row {
        code: ErrorCode::NotHere,
        name: "not_here",
        http: 503,
        xrootd: 3011,
        fts: Fts {
            scope: Scope::Transfer,
            text: "Communication error on send: the node of the cluster does not have the file any more",
        },
        s3: S3::ServiceUnavailable,
        exit: 11,
        retry: Retry::Yes,
        another_way: AnotherWay::No,
        meaning: "The file is not on this node of the cluster any more, to which a redirector sent the client",
        for_client: "Ask the redirector again: it knows by now that the file is not here, and whether another node has it.",
        client_options: "",
        for_administrator: "Remove files through a door of the node or of the redirector; of a file that was removed on disk, redirectors learn from its next reader.",
    },
    Row {
        code: ErrorCode::JustStarted,
        name: "just_started",
        http: 503,
        // With this number XRootD's client goes back to its redirector, and names this server.
        xrootd: 3024,
        fts: Fts {
            scope: Scope::Transfer,
            text: "Resource temporarily unavailable: the server has just started, and takes no redirects for writing yet",
        },
        s3: S3::ServiceUnavailable,
        exit: 11,
        retry: Retry::Yes,
        another_way: AnotherWay::No,
        meaning: "The server has started after, or just before, the redirect for writing was issued",
        for_client: "Start again at the original URL.",
        client_options: "",
        for_administrator: "Nothing to do: ten seconds after its start the server takes new redirects for writing.",
    },
];
