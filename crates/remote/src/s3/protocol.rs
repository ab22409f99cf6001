//! S3 as one of the protocols of a client.

use std::sync::Arc;

use types::{Checksum, ChecksumAlgorithm, Location, Result};

use super::client::Client;
use crate::client::PinnedHost;
use crate::limits::S3_ONE_PART_BYTES_MAX;
use crate::object_store::StoreOffers;
use crate::options::{CopiedWithin, Direction, GetOptions, PutOptions, WithinOptions};
use crate::protocol::{Abilities, Boxed, Pending, Protocol};
use crate::resource::{Facts, Resource, Validator};
use crate::{Download, Entry, Listing, Outlet, Parts, Ranges, UnfinishedUploads};

impl Protocol for Client {
    fn schemes(&self) -> &'static [&'static str] {
        &["s3", "s3s"]
    }

    fn speaks(&self, location: &Location) -> bool {
        location.is_s3()
    }

    /// Its servers neither fetch nor send: other servers do, with signed URLs.
    fn abilities(&self, location: &Location) -> Abilities {
        Abilities {
            is_encrypted: location.is_encrypted(),
            reports_md5: true,
            needs_signed_urls: true,
            is_object_store: true,
            stores_parts_above: Some(S3_ONE_PART_BYTES_MAX),
            ..Abilities::default()
        }
    }

    fn check_name(&self, location: &Location) -> Result<()> {
        s3_wire::Place::of(location, s3_wire::Addressing::usual(location.host())).map(drop)
    }

    fn pinned(&self, pin: PinnedHost) -> Arc<dyn Protocol> {
        Arc::new(Self::pinned(Arc::clone(&self.options), pin))
    }

    fn head<'a>(&'a self, file: &'a Resource, wanted: &'a [ChecksumAlgorithm]) -> Pending<'a, Facts> {
        Box::pin(self.head(file, wanted))
    }

    fn get<'a>(&'a self, file: &'a Resource, options: &'a GetOptions) -> Pending<'a, Download> {
        Box::pin(async move { self.get(file, options).await.map(Download::new) })
    }

    fn put<'a>(&'a self, file: &'a Resource, options: &'a PutOptions) -> Pending<'a, Outlet> {
        Box::pin(self.put(file, options))
    }

    fn put_in_parts<'a>(&'a self, file: &'a Resource, size_bytes: u64, options: &'a PutOptions) -> Pending<'a, Parts> {
        Box::pin(async move { self.put_in_parts(file, size_bytes, options).await.map(Parts::new) })
    }

    fn delete<'a>(&'a self, file: &'a Resource) -> Pending<'a, ()> {
        Box::pin(self.delete(file, None))
    }

    fn remove_directory<'a>(&'a self, directory: &'a Resource) -> Pending<'a, ()> {
        Box::pin(self.remove_directory(directory))
    }

    fn delete_version<'a>(&'a self, file: &'a Resource, version: Option<&'a Validator>) -> Pending<'a, ()> {
        Box::pin(self.delete(file, version))
    }

    fn ping<'a>(&'a self, file: &'a Resource) -> Pending<'a, ()> {
        Box::pin(async move { self.stat(file).await.map(drop) })
    }

    fn stat<'a>(&'a self, file: &'a Resource) -> Pending<'a, Entry> {
        Box::pin(self.stat(file))
    }

    fn list<'a>(&'a self, directory: &'a Resource) -> Pending<'a, Listing> {
        Box::pin(async move { self.list(directory).await.map(Listing::new) })
    }

    fn make_directory<'a>(&'a self, directory: &'a Resource) -> Pending<'a, ()> {
        Box::pin(self.make_directory(directory))
    }

    fn open_ranges<'a>(&'a self, file: &'a Resource) -> Pending<'a, Ranges> {
        Box::pin(async move { self.open_ranges(file).await.map(Ranges::new) })
    }

    fn signed<'a>(
        &'a self,
        file: &'a Resource,
        direction: Direction,
        size_bytes: Option<u64>,
    ) -> Pending<'a, Location> {
        Box::pin(async move { self.signed_for_copy(file, direction, size_bytes) })
    }

    fn mark_directory<'a>(&'a self, directory: &'a Resource) -> Pending<'a, ()> {
        Box::pin(self.mark_directory(directory))
    }

    fn kept_checksums<'a>(&'a self, file: &'a Resource, etag: &'a str) -> Pending<'a, Vec<Checksum>> {
        Box::pin(self.kept_checksums(file, etag))
    }

    fn keep_checksums<'a>(&'a self, file: &'a Resource, etag: &'a str, sums: &'a [Checksum]) -> Pending<'a, ()> {
        Box::pin(self.keep_checksums(file, etag, sums))
    }

    fn store_offers<'a>(&'a self, directory: &'a Resource) -> Pending<'a, StoreOffers> {
        Box::pin(self.store_offers(directory))
    }

    fn copies_within(&self, source: &Resource, destination: &Resource) -> bool {
        self.copies_within(source, destination)
    }

    fn copy_within<'a>(
        &'a self,
        source: &'a Resource,
        destination: &'a Resource,
        options: &'a WithinOptions,
    ) -> Pending<'a, CopiedWithin> {
        Box::pin(self.copy_within(source, destination, options))
    }

    fn unfinished_uploads<'a>(&'a self, place: &'a Resource) -> Pending<'a, UnfinishedUploads> {
        Box::pin(async move { self.unfinished(place).await.map(UnfinishedUploads::new) })
    }

    fn remove_upload<'a>(&'a self, file: &'a Resource, id: &'a str) -> Pending<'a, ()> {
        Box::pin(async move {
            let place = self.place(file)?;
            self.abort(file, &place, id).await?;
            Ok(())
        })
    }

    fn settle(&self) -> Boxed<'_, ()> {
        Box::pin(Self::settle(self))
    }

    fn rename<'a>(&'a self, file: &'a Resource, to: &'a Location, overwrite: bool) -> Pending<'a, ()> {
        Box::pin(self.rename(file, to, overwrite))
    }
}
