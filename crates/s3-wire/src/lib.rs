//! The protocol of Amazon S3 as bytes: where an object is in a URL, signed URLs, the documents that
//! servers answer with, the sizes of parts, and the files in which users keep their keys. Nothing
//! here opens a socket, reads a file or reads a clock.
//!
//! Source of every rule: the Amazon S3 API reference, and what SeaweedFS and versitygw do. Requests
//! are signed by `rusty-s3` (Signature Version 4 in the query), so a signed URL is all that a
//! client needs.
#![forbid(unsafe_code)]

mod account;
mod answer;
mod checksums;
pub mod header;
mod key_files;
pub mod limits;
mod part_sums;
mod parts;
mod place;
mod refusal;
mod sign;
mod tags;
mod xml;

pub use account::{Account, Addressing};
pub use answer::{
    BUCKET_ELSEWHERE, BucketEntry, Made, Page, UnfinishedUpload, Upload, UploadMarker, UploadsPage, buckets, completed,
    copied, page, upload_id, uploads,
};
pub use checksums::{google_hashes, stored};
pub use key_files::{Profile, grid_store, has_store, profile};
pub use part_sums::{Composite, PartSum, SumKind};
pub use parts::{Parts, collected_part_bytes, part_bytes};
pub use place::Place;
pub use refusal::{Refusal, is_region, refusal};
pub use sign::{Method, Request, StoredPart, complete_body, signed};
pub use tags::{Tag, tagged_adler32, tagged_checksums, tagging_body, tags, with_checksums};
