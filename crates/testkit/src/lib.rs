//! What tests and benchmarks need around the servers they exercise: a throw-away authority and
//! issuer of tokens, child processes that always end, launchers for Crossload and for real peers
//! (XRootD, nginx, SeaweedFS), a storage that copies nothing, a relay that breaks connections on
//! purpose, and small file systems that fill up.
//!
//! Everything here is synchronous and speaks loopback only, and nothing outlives its guard:
//! dropping a launcher ends its process, dropping a [`Scratch`] removes its files. A program or
//! right that the machine lacks is reported as [`Error::Missing`], so that a test can say that it
//! was skipped and why (see [`available`]).
#![forbid(unsafe_code)]

mod activemq;
mod authority;
mod certificate;
mod clock;
mod crossload;
mod debian_root;
mod entries;
mod error;
mod helm;
mod hollow;
mod issuer;
mod mesh_run;
mod nats;
mod nginx;
mod ports;
mod postgres;
mod process;
mod procfs;
mod programs;
mod prometheus;
mod proxy;
mod queue;
mod relay;
mod s3_bucket;
mod scratch;
mod seaweedfs;
pub mod secrets;
mod self_signed;
mod socket_owner;
mod tape;
mod tls_client;
mod tls_server;
mod tmpfs;
mod user;
mod versitygw;
mod voms;
mod xrootd;
mod xrootd_cluster;
mod xrootd_version;

pub use activemq::ActiveMq;
pub use authority::{Authority, HostCertificate, KeyKind};
pub use certificate::{CertificateOptions, SigningPair, name_der};
pub use clock::Clock;
pub use crossload::{Access, Crossload, CrossloadOptions, Export};
pub use debian_root::DebianRoot;
pub use entries::Entries;
pub use error::{Error, Result};
pub use helm::require_helm;
pub use hollow::HollowStorage;
pub use issuer::{
    Grants, IssuerMode, PUBLIC_CLIENT, SignInAnswers, TOKEN_CLIENT, TokenAlgorithm, TokenDraft, TokenIssuer,
};
pub use mesh_run::{mesh_endpoint, mesh_run};
pub use nats::{NatsOptions, NatsProof, NatsServer, NatsTls, NatsUser, NatsVersion};
pub use nginx::{Nginx, NginxOptions};
pub use ports::{free_port, own_address};
pub use postgres::Postgres;
pub use process::{Process, is_ours};
pub use procfs::{Memory, Thread, ended_children_cpu_seconds, memory_of};
pub use programs::{
    RESOLVER_OPTIONS, available, is_superuser, require, require_debian_python, require_python, require_queue_python,
};
pub use prometheus::Prometheus;
pub use proxy::{ProxyFault, ProxyOptions};
pub use queue::{Queue, QueueOptions};
pub use relay::{Direction, Fault, Relay};
pub use s3_bucket::{S3Bucket, S3Method};
pub use scratch::Scratch;
pub use seaweedfs::SeaweedFs;
pub use self_signed::SelfSigned;
pub use tape::{TAPE_PROGRAM, TapeCall, TapeServer};
pub use tls_client::tls_client;
pub use tls_server::{tls_server, tls_server_of};
pub use tmpfs::Tmpfs;
pub use user::{Subordinate, User};
pub use versitygw::VersityGateway;
pub use voms::{AttributeOptions, VomsServer};
pub use xrootd::{AddressFamilies, Xrootd, XrootdAccess, XrootdOptions};
pub use xrootd_cluster::{XrootdCluster, XrootdClusterOptions, XrootdNode};
pub use xrootd_version::XrootdVersion;
