//! The XRootD protocol by XRootD's own programs, gfal2, uproot and sockets that misbehave.

mod xroot_bound;
mod xroot_cluster;
mod xroot_delegated_copy;
mod xroot_delegation;
mod xroot_delegation_end;
mod xroot_faults;
mod xroot_full_disk;
mod xroot_fuse;
mod xroot_gfal;
mod xroot_gsi;
mod xroot_gsi_faults;
mod xroot_login;
mod xroot_nat;
mod xroot_newer;
mod xroot_newer_copies;
mod xroot_python;
mod xroot_requests;
mod xroot_tpc;
mod xroot_tpc_faults;
mod xroot_tpc_lite;
mod xroot_tpc_streams;
mod xroot_uproot;
mod xroot_xrdcp;
mod xroot_xrdfs;
