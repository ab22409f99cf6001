//! The XRootD protocol as one of the protocols of a client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_wire::CopyProgress;
use net::Batch;
use types::{ByteRange, Checksum, ChecksumAlgorithm, Location, Result};

use super::ask::Client;
use super::route::check_path;
use super::{Copying, Download, Listing, Opened, Ranges};
use crate::client::PinnedHost;
use crate::copying::OrderedCopy;
use crate::download::FileDownload;
use crate::listing::DirectoryListing;
use crate::opened::SharedFile;
use crate::options::{CopyOrder, GetOptions, PutOptions};
use crate::protocol::{Abilities, Boxed, Pending, Protocol};
use crate::ranges::RangeReader;
use crate::resource::{Facts, Resource};
use crate::{Entry, Outlet, Space};

impl Protocol for Client {
    fn schemes(&self) -> &'static [&'static str] {
        &["root", "roots"]
    }

    fn speaks(&self, location: &Location) -> bool {
        location.is_xrootd()
    }

    fn abilities(&self, location: &Location) -> Abilities {
        let is_encrypted = location.is_encrypted();
        Abilities {
            is_encrypted,
            opens_once: true,
            // Pages with checksums cost a pass over the data; TLS protects the data anyway.
            prefers_checksum_first: !is_encrypted,
            leaves_remains: true,
            pulls: true,
            opens_passive: true,
            ..Abilities::default()
        }
    }

    fn check_name(&self, location: &Location) -> Result<()> {
        check_path(location.path())
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
        Box::pin(async move { self.configuration(file, &["version"]).await.map(drop) })
    }

    fn stat<'a>(&'a self, file: &'a Resource) -> Pending<'a, Entry> {
        Box::pin(self.stat(file))
    }

    fn stat_many<'a>(&'a self, first: &'a Resource, files: &'a [Resource]) -> Pending<'a, Vec<Entry>> {
        Box::pin(self.stat_many(first, files))
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

    fn open<'a>(&'a self, file: &'a Resource) -> Pending<'a, crate::Opened> {
        Box::pin(async move { self.open(file).await.map(crate::Opened::new) })
    }

    fn open_ranges<'a>(&'a self, file: &'a Resource) -> Pending<'a, crate::Ranges> {
        Box::pin(async move { self.open_ranges(file).await.map(crate::Ranges::new) })
    }

    fn copy<'a>(&'a self, active: &'a Resource, order: &'a CopyOrder) -> Pending<'a, crate::Copying> {
        Box::pin(async move { self.copy(active, order).await.map(crate::Copying::new) })
    }

    fn configuration<'a>(&'a self, file: &'a Resource, keys: &'a [&'a str]) -> Pending<'a, Vec<Option<String>>> {
        Box::pin(self.configuration(file, keys))
    }

    fn space<'a>(&'a self, file: &'a Resource) -> Pending<'a, Space> {
        Box::pin(self.space(file))
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
        Box::pin(self.read(ranges))
    }

    fn close(self: Box<Self>) -> Boxed<'static, ()> {
        Box::pin((*self).close())
    }
}

impl SharedFile for Opened {
    fn facts(&self) -> &Facts {
        self.facts()
    }

    fn distance(&self) -> Pending<'_, Duration> {
        Box::pin(self.distance())
    }

    fn bind(&self) -> Boxed<'_, bool> {
        Box::pin(self.bind())
    }

    fn get(&self, range: ByteRange, is_compared: bool) -> Pending<'_, crate::Download> {
        Box::pin(async move { self.get(range, is_compared).await.map(crate::Download::new) })
    }

    fn read_alone(&self, is_compared: bool, wanted: Vec<ChecksumAlgorithm>) -> Pending<'_, crate::Download> {
        Box::pin(async move { self.read_alone(is_compared, wanted).await.map(crate::Download::new) })
    }

    fn checksum<'a>(&'a self, wanted: &'a [ChecksumAlgorithm]) -> Boxed<'a, Option<Checksum>> {
        Box::pin(self.checksum(wanted))
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(self.close())
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
