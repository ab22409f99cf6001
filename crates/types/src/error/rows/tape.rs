//! Tape systems of storages, as the transfer queue uses them.

use crate::error::code::ErrorCode;
use crate::error::fts::{Fts, Scope};
use crate::error::row::{AnotherWay, Retry, Row};
use crate::error::s3::S3;

/// In the order of [`ErrorCode`].
pub(super) const ROWS: &[Row] = &[
    Row {
        code: ErrorCode::StagingFailed,
        name: "staging_failed",
        http: 502,
        xrootd: 3012,
        fts: Fts {
            scope: Scope::Staging,
            text: "Input/output error: the tape system did not bring the file online",
        },
        s3: S3::ServiceUnavailable,
        exit: 5,
        retry: Retry::Yes,
        another_way: AnotherWay::No,
        meaning: "The tape system did not bring the file online",
        for_client: "Read the tape system's words, and ask the site whether the file can be read from tape.",
        client_options: "",
        for_administrator: "Look for the request in the log of the tape system.",
    },
    Row {
        code: ErrorCode::StagingExpired,
        name: "staging_expired",
        http: 504,
        xrootd: 3012,
        fts: Fts {
            scope: Scope::Staging,
            text: "bring-online timeout has been exceeded",
        },
        s3: S3::InvalidRequest,
        exit: 110,
        retry: Retry::No,
        another_way: AnotherWay::No,
        meaning: "The file did not come online within the time that its job allows",
        for_client: "Submit it again with a longer bring_online, or ask the site why tape is slow.",
        client_options: "",
        for_administrator: "See how many requests wait in the tape system.",
    },
    Row {
        code: ErrorCode::ArchivingFailed,
        name: "archiving_failed",
        http: 502,
        xrootd: 3012,
        fts: Fts {
            scope: Scope::Archiving,
            text: "Input/output error: the copied file did not reach tape",
        },
        s3: S3::InvalidRequest,
        exit: 5,
        retry: Retry::No,
        another_way: AnotherWay::No,
        meaning: "The copied file did not reach tape",
        for_client: "Read the storage's words; the copy itself was complete.",
        client_options: "",
        for_administrator: "Ask the destination's tape system about the file.",
    },
    Row {
        code: ErrorCode::ArchivingExpired,
        name: "archiving_expired",
        http: 504,
        xrootd: 3012,
        fts: Fts {
            scope: Scope::Archiving,
            text: "archiving timeout has been exceeded",
        },
        s3: S3::InvalidRequest,
        exit: 110,
        retry: Retry::No,
        another_way: AnotherWay::No,
        meaning: "The copied file was not on tape within the time that its job allows",
        for_client: "Submit with a longer archive_timeout; the copy itself was complete.",
        client_options: "",
        for_administrator: "See how many files the destination's tape system still has to write.",
    },
];
