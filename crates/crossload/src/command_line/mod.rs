//! What can be written on the command line. Option letters are those of gfal's tools where both
//! have the same option.

mod bench;
mod bench_files;
mod bench_transfers;
mod check;
mod client;
mod explain;
mod server;
mod smoke;
mod token;

use clap::{Parser, Subcommand};

pub(crate) use bench::{BenchCommon, BenchLoad, Named};
pub(crate) use bench_transfers::VectorOptions;
pub(crate) use check::CheckOptions;
pub(crate) use client::{
    Access, CatOptions, ChecksumMode, Common, CopyOptions, ListOptions, MakeDirectoryOptions, RemoveOptions,
    RenameOptions, StatOptions, SumOptions,
};
pub(crate) use explain::{AskedOperation, ExplainOptions};
pub(crate) use server::{ConfigAction, DemoOptions, ServeOptions};
pub(crate) use smoke::SmokeOptions;
pub(crate) use token::{AttenuateOptions, InspectOptions, MacaroonLimits, MacaroonOptions, TokenAction};

/// Moves files straight from one storage site to another.
#[derive(Debug, Parser)]
#[command(name = "crossload", version, max_term_width = 100, propagate_version = true)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a directory, or what a configuration file says, over HTTP and WebDAV
    Serve(ServeOptions),
    /// Copy files and directories between servers and this machine
    #[command(visible_alias = "cp")]
    Copy(CopyOptions),
    /// List a directory
    Ls(ListOptions),
    /// Show what is known of a file or directory
    Stat(StatOptions),
    /// Print the checksum of a file
    Sum(SumOptions),
    /// Make directories
    Mkdir(MakeDirectoryOptions),
    /// Remove files and directories
    Rm(RemoveOptions),
    /// Give a file or directory another name on the same server
    Mv(RenameOptions),
    /// Print files
    Cat(CatOptions),
    /// Look into tokens, ask for macaroons, and narrow them
    #[command(subcommand)]
    Token(TokenAction),
    /// Say whether something may be done on a server, why, and what would make it pass
    Explain(ExplainOptions),
    /// Examine a server's configuration and all that it names, and say what to change
    Check(CheckOptions),
    /// Probe an endpoint: uploads, downloads, checksums, macaroons, third-party copies
    Smoke(SmokeOptions),
    /// Measure endpoints: throughput, requests, TLS; print tables, write pages with plots, compare runs
    #[command(subcommand)]
    Bench(BenchLoad),
    /// Describe or check the configuration file
    #[command(subcommand)]
    Config(ConfigAction),
    /// Show third-party copies between two endpoints on this machine
    Demo(DemoOptions),
}

impl Command {
    /// The name that error messages begin with.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Serve(_) => "serve",
            Self::Copy(_) => "copy",
            Self::Ls(_) => "ls",
            Self::Stat(_) => "stat",
            Self::Sum(_) => "sum",
            Self::Mkdir(_) => "mkdir",
            Self::Rm(_) => "rm",
            Self::Mv(_) => "mv",
            Self::Cat(_) => "cat",
            Self::Token(TokenAction::Inspect(_)) => "token inspect",
            Self::Token(TokenAction::Macaroon(_)) => "token macaroon",
            Self::Token(TokenAction::Attenuate(_)) => "token attenuate",
            Self::Explain(_) => "explain",
            Self::Check(_) => "check",
            Self::Smoke(_) => "smoke",
            Self::Bench(_) => "bench",
            Self::Config(_) => "config",
            Self::Demo(_) => "demo",
        }
    }
}

#[cfg(test)]
mod tests;
