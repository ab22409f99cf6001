//! HTTP and WebDAV by the programs that people use: curl, gfal2, davix, rclone, litmus, mounts and
//! a browser.

mod browser;
mod curl;
mod davix;
mod gfal;
mod listing;
mod litmus;
mod rclone;
mod webdav_clients;
mod webdav_trees;
