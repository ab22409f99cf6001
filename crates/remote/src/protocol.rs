//! The seam between a [`Client`](crate::Client) and the protocols that it speaks.
//!
//! # A further protocol
//!
//! It is a module beside `http` and `root` that implements [`Protocol`], and the traits of what its
//! requests begin: [`FileDownload`](crate::FileDownload) and [`FileUpload`](crate::FileUpload), and
//! where it has such requests [`DirectoryListing`](crate::DirectoryListing),
//! [`RangeReader`](crate::RangeReader), [`SharedFile`](crate::SharedFile) and
//! [`OrderedCopy`](crate::OrderedCopy). Besides its own module it touches:
//!
//! | file | lines | what |
//! |---|---|---|
//! | `remote/src/client.rs` | 1 | an entry in `protocols`, which is asked for the scheme of each URL |
//! | `types/src/location.rs` | 3 | its schemes in `Location::parse`, `Scheme` and `Location::to_wire` |
//! | `remote/src/outlet.rs` | 2 | only for uploads that are called without an allocation per batch |
//!
//! The engine and the commands ask [`Abilities`], never the scheme. A protocol from another crate
//! joins a client with [`Client::with_protocol`](crate::Client::with_protocol), as
//! `transfer/tests/made_up_protocol` does.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use credentials::Activities;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location, Phase, Result, Secret};

use crate::attributes::{Attribute, AttributeCall};
use crate::client::PinnedHost;
use crate::object_store::StoreOffers;
use crate::options::{
    CopiedWithin, CopyAbilities, CopyOrder, Direction, GetOptions, LoginOffer, Offers, PutOptions, WithinOptions,
};
use crate::resource::{Facts, Resource, Validator};
use crate::service::{ServiceAnswer, ServiceCall, ServiceStream, Streamed};
use crate::tape::{TapeAnswer, TapeCall};
use crate::unfinished::UnfinishedUploads;
use crate::{Copying, Download, Entry, Listing, Opened, Outlet, Parts, Ranges, Space};

/// A future in memory of its own. Connecting and hearing a refusal take 7 KiB, which would
/// otherwise belong to the future of the whole transfer.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The answer to a request.
pub type Pending<'a, T> = Boxed<'a, Result<T>>;

/// What a protocol can do, as the engine and the commands need to know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Payload is encrypted on its way.
    pub is_encrypted: bool,
    /// A file is opened once, and several connections can read it:
    /// [`Client::open`](crate::Client::open).
    pub opens_once: bool,
    /// With a checksum known before the first byte, payload needs none of its own on the way.
    pub prefers_checksum_first: bool,
    /// A server may let a file be read although it refuses [`Client::head`](crate::Client::head).
    pub reads_without_head: bool,
    /// The URL allows the one request that reads or stores the file and no other: what was stored
    /// cannot be looked at.
    pub allows_one_method: bool,
    /// An interrupted upload may leave a part of the file under its name.
    pub leaves_remains: bool,
    /// Its servers may fetch files from other servers.
    pub pulls: bool,
    /// Its servers may send files to other servers.
    pub pushes: bool,
    /// A client that orders a copy opens the passive server's file itself, and so authenticates
    /// there.
    pub opens_passive: bool,
    /// Its servers may fetch with a proxy that the client signs for them, and then need no
    /// rendezvous with the client at the source.
    pub pulls_with_proxy: bool,
    /// Its servers may issue macaroons.
    pub gives_macaroons: bool,
    /// Files above this many bytes can be stored in parts, several at the same time:
    /// [`Client::put_in_parts`](crate::Client::put_in_parts).
    pub stores_parts_above: Option<u64>,
    /// Of a file that is stored by one request, its servers report the MD5.
    pub reports_md5: bool,
    /// Other servers get access by URLs that the client signs:
    /// [`Client::signed`](crate::Client::signed).
    pub needs_signed_urls: bool,
    /// Its servers use such URLs in copies.
    pub uses_signed_urls: bool,
    /// It has requests of its own to bring files online from tape.
    pub prepares: bool,
    /// Files are objects, which are never renamed. A directory is there as long as names begin with
    /// it, or if it is marked: [`Client::mark_directory`](crate::Client::mark_directory). Checksums
    /// can be kept beside files: [`Client::keep_checksums`](crate::Client::keep_checksums).
    pub is_object_store: bool,
}

impl Abilities {
    /// Whether a file may be readable although [`Client::head`](crate::Client::head) failed with
    /// `refusal`: some servers allow only GET, and a URL can be signed for one method.
    #[must_use]
    pub fn may_read_after(&self, refusal: &Error) -> bool {
        let is_refused = matches!(refusal.code(), ErrorCode::PeerForbidden | ErrorCode::PeerUnsupported);
        self.reads_without_head && is_refused
    }
}

/// A client of one protocol, for any number of servers. The methods do what those of
/// [`Client`](crate::Client) of the same names do, with the same errors; a request that the
/// protocol lacks is refused with `peer_unsupported`, which is what the default methods do.
pub trait Protocol: Send + Sync {
    /// Its schemes, for messages.
    fn schemes(&self) -> &'static [&'static str];

    /// Whether a location has one of its schemes.
    fn speaks(&self, location: &Location) -> bool;

    /// What it can do at a location that it speaks to.
    fn abilities(&self, location: &Location) -> Abilities;

    /// Whether it can express the name of a file.
    ///
    /// # Errors
    /// `path_refused`.
    fn check_name(&self, _location: &Location) -> Result<()> {
        Ok(())
    }

    /// The same with one address for a host, and with connections of its own.
    fn pinned(&self, pin: PinnedHost) -> Arc<dyn Protocol>;

    /// As [`Client::head`](crate::Client::head).
    fn head<'a>(&'a self, file: &'a Resource, wanted: &'a [ChecksumAlgorithm]) -> Pending<'a, Facts>;

    /// As [`Client::get`](crate::Client::get).
    fn get<'a>(&'a self, file: &'a Resource, options: &'a GetOptions) -> Pending<'a, Download>;

    /// As [`Client::put`](crate::Client::put).
    fn put<'a>(&'a self, file: &'a Resource, options: &'a PutOptions) -> Pending<'a, Outlet>;

    /// As [`Client::put_in_parts`](crate::Client::put_in_parts), where
    /// [`Abilities::stores_parts_above`] says so.
    fn put_in_parts<'a>(&'a self, file: &'a Resource, _size_bytes: u64, _: &'a PutOptions) -> Pending<'a, Parts> {
        refuse(file)
    }

    /// As [`Client::delete`](crate::Client::delete).
    fn delete<'a>(&'a self, file: &'a Resource) -> Pending<'a, ()>;

    /// As [`Client::remove_directory`](crate::Client::remove_directory).
    fn remove_directory<'a>(&'a self, directory: &'a Resource) -> Pending<'a, ()> {
        self.delete(directory)
    }

    /// As [`Client::delete_version`](crate::Client::delete_version); without a condition where the
    /// protocol has none.
    fn delete_version<'a>(&'a self, file: &'a Resource, _version: Option<&'a Validator>) -> Pending<'a, ()> {
        self.delete(file)
    }

    /// As [`Client::ping`](crate::Client::ping).
    fn ping<'a>(&'a self, file: &'a Resource) -> Pending<'a, ()> {
        Box::pin(async move { self.head(file, &[]).await.map(drop) })
    }

    /// As [`Client::login_offer`](crate::Client::login_offer).
    fn login_offer<'a>(&'a self, file: &'a Resource) -> Pending<'a, LoginOffer> {
        refuse(file)
    }

    /// As [`Client::stat`](crate::Client::stat).
    fn stat<'a>(&'a self, file: &'a Resource) -> Pending<'a, Entry> {
        refuse(file)
    }

    /// As [`Client::stat_many`](crate::Client::stat_many); there is at least one file.
    fn stat_many<'a>(&'a self, first: &'a Resource, _files: &'a [Resource]) -> Pending<'a, Vec<Entry>> {
        refuse(first)
    }

    /// As [`Client::list`](crate::Client::list).
    fn list<'a>(&'a self, directory: &'a Resource) -> Pending<'a, Listing> {
        refuse(directory)
    }

    /// As [`Client::make_directory`](crate::Client::make_directory).
    fn make_directory<'a>(&'a self, directory: &'a Resource) -> Pending<'a, ()> {
        refuse(directory)
    }

    /// As [`Client::set_mode`](crate::Client::set_mode).
    fn set_mode<'a>(&'a self, file: &'a Resource, _mode: u16) -> Pending<'a, ()> {
        refuse(file)
    }

    /// As [`Client::attributes`](crate::Client::attributes).
    fn attributes<'a>(&'a self, file: &'a Resource, _call: AttributeCall<'a>) -> Pending<'a, Vec<Attribute>> {
        refuse(file)
    }

    /// As [`Client::copies_within`](crate::Client::copies_within); both files are of this protocol.
    fn copies_within(&self, _source: &Resource, _destination: &Resource) -> bool {
        false
    }

    /// As [`Client::copy_within`](crate::Client::copy_within).
    fn copy_within<'a>(
        &'a self,
        _source: &'a Resource,
        destination: &'a Resource,
        _: &'a WithinOptions,
    ) -> Pending<'a, CopiedWithin> {
        refuse(destination)
    }

    /// As [`Client::unfinished_uploads`](crate::Client::unfinished_uploads).
    fn unfinished_uploads<'a>(&'a self, place: &'a Resource) -> Pending<'a, UnfinishedUploads> {
        refuse(place)
    }

    /// As [`Client::remove_upload`](crate::Client::remove_upload).
    fn remove_upload<'a>(&'a self, file: &'a Resource, _id: &'a str) -> Pending<'a, ()> {
        refuse(file)
    }

    /// As [`Client::rename`](crate::Client::rename).
    fn rename<'a>(&'a self, file: &'a Resource, _to: &'a Location, _overwrite: bool) -> Pending<'a, ()> {
        refuse(file)
    }

    /// As [`Client::open`](crate::Client::open), where [`Abilities::opens_once`] says so.
    fn open<'a>(&'a self, file: &'a Resource) -> Pending<'a, Opened> {
        refuse(file)
    }

    /// As [`Client::open_ranges`](crate::Client::open_ranges).
    fn open_ranges<'a>(&'a self, file: &'a Resource) -> Pending<'a, Ranges> {
        refuse(file)
    }

    /// As [`Client::copy`](crate::Client::copy).
    fn copy<'a>(&'a self, active: &'a Resource, _order: &'a CopyOrder) -> Pending<'a, Copying> {
        refuse(active)
    }

    /// As [`Client::copy_abilities`](crate::Client::copy_abilities).
    fn copy_abilities<'a>(&'a self, _: &'a Resource, _: &'a Location, _delegates: bool) -> Pending<'a, CopyAbilities> {
        Box::pin(ready(Ok(CopyAbilities::default())))
    }

    /// As [`Client::signed`](crate::Client::signed), where [`Abilities::needs_signed_urls`] says
    /// so.
    fn signed<'a>(&'a self, file: &'a Resource, _: Direction, _size_bytes: Option<u64>) -> Pending<'a, Location> {
        refuse(file)
    }

    /// As [`Client::mark_directory`](crate::Client::mark_directory), where
    /// [`Abilities::is_object_store`] says so; likewise the next three.
    fn mark_directory<'a>(&'a self, directory: &'a Resource) -> Pending<'a, ()> {
        self.make_directory(directory)
    }

    /// As [`Client::kept_checksums`](crate::Client::kept_checksums).
    fn kept_checksums<'a>(&'a self, file: &'a Resource, _etag: &'a str) -> Pending<'a, Vec<Checksum>> {
        refuse(file)
    }

    /// As [`Client::keep_checksums`](crate::Client::keep_checksums).
    fn keep_checksums<'a>(&'a self, file: &'a Resource, _etag: &'a str, _: &'a [Checksum]) -> Pending<'a, ()> {
        refuse(file)
    }

    /// As [`Client::store_offers`](crate::Client::store_offers).
    fn store_offers<'a>(&'a self, directory: &'a Resource) -> Pending<'a, StoreOffers> {
        refuse(directory)
    }

    /// As [`Client::settle`](crate::Client::settle).
    fn settle(&self) -> Boxed<'_, ()> {
        Box::pin(ready(()))
    }

    /// As [`Client::configuration`](crate::Client::configuration).
    fn configuration<'a>(&'a self, file: &'a Resource, _keys: &'a [&'a str]) -> Pending<'a, Vec<Option<String>>> {
        refuse(file)
    }

    /// As [`Client::space`](crate::Client::space).
    fn space<'a>(&'a self, file: &'a Resource) -> Pending<'a, Space> {
        refuse(file)
    }

    /// As [`Client::options`](crate::Client::options).
    fn options<'a>(&'a self, file: &'a Resource) -> Pending<'a, Offers> {
        refuse(file)
    }

    /// As [`Client::call`](crate::Client::call).
    fn call<'a>(&'a self, place: &'a Resource, _call: &'a ServiceCall<'a>) -> Pending<'a, ServiceAnswer> {
        refuse(place)
    }

    /// As [`Client::events`](crate::Client::events) and
    /// [`Client::document`](crate::Client::document).
    fn stream<'a>(&'a self, place: &'a Resource, _wanted: Streamed<'a>) -> Pending<'a, ServiceStream> {
        refuse(place)
    }

    /// What a tape system is asked, where [`Abilities::prepares`] says so.
    fn tape<'a>(&'a self, place: &'a Resource, _call: TapeCall<'a>) -> Pending<'a, TapeAnswer> {
        refuse(place)
    }

    /// As [`Client::request_macaroon`](crate::Client::request_macaroon), where
    /// [`Abilities::gives_macaroons`] says so.
    fn request_macaroon<'a>(&'a self, file: &'a Resource, _: Activities, _validity_s: u64) -> Pending<'a, Secret> {
        refuse(file)
    }
}

/// The protocol of this file has no such request.
fn refuse<'a, T: Send + 'a>(file: &Resource) -> Pending<'a, T> {
    let error = file.error(ErrorCode::PeerUnsupported, Phase::Open);
    Box::pin(ready(Err(error.with_detail("its protocol knows no such request"))))
}

/// The requests that HTTP and the XRootD protocol both know: each client has a method of the same
/// name, in the file of its topic.
macro_rules! common_requests {
    () => {
        fn pinned(&self, pin: $crate::PinnedHost) -> std::sync::Arc<dyn Protocol> {
            std::sync::Arc::new(Self::pinned(std::sync::Arc::clone(&self.options), pin))
        }

        fn head<'a>(
            &'a self,
            file: &'a $crate::Resource,
            wanted: &'a [types::ChecksumAlgorithm],
        ) -> Pending<'a, $crate::Facts> {
            Box::pin(self.head(file, wanted))
        }

        fn get<'a>(
            &'a self,
            file: &'a $crate::Resource,
            options: &'a $crate::GetOptions,
        ) -> Pending<'a, $crate::Download> {
            Box::pin(async move { self.get(file, options).await.map($crate::Download::new) })
        }

        fn put<'a>(
            &'a self,
            file: &'a $crate::Resource,
            options: &'a $crate::PutOptions,
        ) -> Pending<'a, $crate::Outlet> {
            Box::pin(async move { self.put(file, options).await.map($crate::Outlet::from) })
        }

        fn delete<'a>(&'a self, file: &'a $crate::Resource) -> Pending<'a, ()> {
            Box::pin(self.delete(file))
        }

        fn remove_directory<'a>(&'a self, directory: &'a $crate::Resource) -> Pending<'a, ()> {
            Box::pin(self.remove_directory(directory))
        }

        fn stat<'a>(&'a self, file: &'a $crate::Resource) -> Pending<'a, $crate::Entry> {
            Box::pin(self.stat(file))
        }

        fn list<'a>(&'a self, directory: &'a $crate::Resource) -> Pending<'a, $crate::Listing> {
            Box::pin(async move { self.list(directory).await.map($crate::Listing::new) })
        }

        fn make_directory<'a>(&'a self, directory: &'a $crate::Resource) -> Pending<'a, ()> {
            Box::pin(self.make_directory(directory))
        }

        fn rename<'a>(
            &'a self,
            file: &'a $crate::Resource,
            to: &'a types::Location,
            overwrite: bool,
        ) -> Pending<'a, ()> {
            Box::pin(self.rename(file, to, overwrite))
        }

        fn open_ranges<'a>(&'a self, file: &'a $crate::Resource) -> Pending<'a, $crate::Ranges> {
            Box::pin(async move { self.open_ranges(file).await.map($crate::Ranges::new) })
        }

        fn copy<'a>(
            &'a self,
            active: &'a $crate::Resource,
            order: &'a $crate::CopyOrder,
        ) -> Pending<'a, $crate::Copying> {
            Box::pin(async move { self.copy(active, order).await.map($crate::Copying::new) })
        }
    };
}
pub(crate) use common_requests;
