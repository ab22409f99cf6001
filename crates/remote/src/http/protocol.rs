//! HTTP as one of the protocols of a client.

use std::net::SocketAddr;
use std::sync::Arc;

use credentials::Activities;
use http_wire::CopyProgress;
use net::Batch;
use types::{ByteRange, ChecksumAlgorithm, Location, Secret};

use super::client::Client;
use super::{Copying, Download, Listing, Ranges};
use crate::client::PinnedHost;
use crate::copying::OrderedCopy;
use crate::download::FileDownload;
use crate::listing::DirectoryListing;
use crate::options::{CopyOrder, GetOptions, Offers, PutOptions};
use crate::protocol::{Abilities, Boxed, Pending, Protocol};
use crate::ranges::RangeReader;
use crate::resource::{Facts, Resource};
use crate::{Entry, Outlet};

impl Protocol for Client {
    fn schemes(&self) -> &'static [&'static str] {
        &["http", "https", "dav", "davs"]
    }

    fn speaks(&self, location: &Location) -> bool {
        location.is_http()
    }

    fn abilities(&self, location: &Location) -> Abilities {
        Abilities {
            is_encrypted: location.is_encrypted(),
            reads_without_head: true,
            leaves_remains: true,
            pulls: true,
            pushes: true,
            gives_macaroons: true,
            ..Abilities::default()
        }
    }

    fn pinned(&self, pin: PinnedHost) -> Arc<dyn Protocol> {
        Arc::new(Self::pinned(Arc::clone(&self.options), pin))
    }

    fn head<'a>(&'a self, file: &'a Resource, wanted: &'a [ChecksumAlgorithm]) -> Pending<'a, Facts> {
        Box::pin(self.head(file, wanted))
    }

    fn get<'a>(&'a self, file: &'a Resource, options: &'a GetOptions) -> Pending<'a, crate::Download> {
        Box::pin(async move { self.get(file, options).await.map(crate::Download::new) })
    }

    fn put<'a>(&'a self, file: &'a Resource, options: &'a PutOptions) -> Pending<'a, Outlet> {
        Box::pin(async move { self.put(file, options).await.map(Outlet::from) })
    }

    fn delete<'a>(&'a self, file: &'a Resource) -> Pending<'a, ()> {
        Box::pin(self.delete(file))
    }

    fn ping<'a>(&'a self, file: &'a Resource) -> Pending<'a, ()> {
        Box::pin(async move { self.options(file).await.map(drop) })
    }

    fn stat<'a>(&'a self, file: &'a Resource) -> Pending<'a, Entry> {
        Box::pin(self.stat(file))
    }

    fn list<'a>(&'a self, directory: &'a Resource) -> Pending<'a, crate::Listing> {
        Box::pin(async move { self.list(directory).await.map(crate::Listing::new) })
    }

    fn make_directory<'a>(&'a self, directory: &'a Resource) -> Pending<'a, ()> {
        Box::pin(self.make_directory(directory))
    }

    fn rename<'a>(&'a self, file: &'a Resource, to: &'a Location, overwrite: bool) -> Pending<'a, ()> {
        Box::pin(self.rename(file, to, overwrite))
    }

    fn open_ranges<'a>(&'a self, file: &'a Resource) -> Pending<'a, crate::Ranges> {
        Box::pin(async move { self.open_ranges(file).await.map(crate::Ranges::new) })
    }

    fn copy<'a>(&'a self, active: &'a Resource, order: &'a CopyOrder) -> Pending<'a, crate::Copying> {
        Box::pin(async move { self.copy(active, order).await.map(crate::Copying::new) })
    }

    fn options<'a>(&'a self, file: &'a Resource) -> Pending<'a, Offers> {
        Box::pin(self.options(file))
    }

    fn request_macaroon<'a>(&'a self, file: &'a Resource, what: Activities, validity_s: u64) -> Pending<'a, Secret> {
        Box::pin(self.request_macaroon(file, what, validity_s))
    }
}

impl FileDownload for Download {
    fn facts(&self) -> &Facts {
        self.facts()
    }

    fn range(&self) -> ByteRange {
        self.range()
    }

    fn peer_address(&self) -> Option<SocketAddr> {
        self.peer_address()
    }

    fn next(&mut self) -> Pending<'_, Option<Batch>> {
        Box::pin(self.next())
    }
}

impl DirectoryListing for Listing {
    fn next(&mut self) -> Pending<'_, Option<Vec<Entry>>> {
        Box::pin(self.next())
    }

    fn description(&self) -> Option<&str> {
        self.description()
    }
}

impl RangeReader for Ranges {
    fn facts(&self) -> &Facts {
        self.facts()
    }

    fn read<'a>(&'a mut self, ranges: &'a [ByteRange]) -> Pending<'a, Vec<Vec<u8>>> {
        Box::pin(Self::read(self, ranges))
    }

    /// Between two reads the connection is in the pool.
    fn close(self: Box<Self>) -> Boxed<'static, ()> {
        Box::pin(async {})
    }
}

impl OrderedCopy for Copying {
    fn next(&mut self) -> Pending<'_, Option<CopyProgress>> {
        Box::pin(self.next())
    }

    fn progress(&self) -> &CopyProgress {
        self.progress()
    }
}
