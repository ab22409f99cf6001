//! The routes of FTS's REST API.

mod cloud;
mod configure;
mod delegate;
mod files;
mod grants;
mod jobs;
mod lenient;
mod list;
mod operate;
mod query;
mod service;
mod shares;
mod submit;
mod values;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post, put};

use crate::settings::{Settings, unknown_method, unknown_path};

pub(crate) use configure::change_vo;
pub(crate) use operate::{ban_entry, banned_vo, entry};

/// All routes. Those of FTS that are missing here answer 404.
pub(crate) fn router() -> Router<Arc<Settings>> {
    Router::new()
        .route("/", get(service::root))
        .route("/whoami", get(service::whoami))
        .route("/status/hosts", get(service::hosts))
        .route("/optimizer", get(service::optimizer))
        .route("/optimizer/", get(service::optimizer))
        .route("/optimizer/current", get(service::limits))
        .route("/optimizer/evolution", get(service::evolution))
        .route("/autocomplete/{kind}", get(service::complete))
        .route("/delegation/{id}", get(delegate::describe).delete(delegate::remove))
        .route("/delegation/{id}/request", get(delegate::request))
        .route(
            "/delegation/{id}/credential",
            put(delegate::store).post(delegate::store),
        )
        .route("/delegation/{id}/voms", post(delegate::voms))
        .route("/jobs", get(list::jobs).post(submit::submit).put(submit::submit))
        .route("/jobs/", get(list::jobs).post(submit::submit).put(submit::submit))
        .route("/jobs/{id}", get(jobs::show).delete(jobs::cancel).post(jobs::change))
        .route("/jobs/{id}/files", get(jobs::files))
        .route("/jobs/{id}/files/{file}", delete(jobs::cancel_files))
        .route("/jobs/{id}/files/{file}/retries", get(jobs::attempts))
        .route("/jobs/{id}/files/{file}/log", get(jobs::log))
        .route("/jobs/{id}/{field}", get(jobs::field))
        .route("/files", get(list::files))
        .route("/files/", get(list::files))
        .route("/ban/se", get(operate::bans).post(operate::ban).delete(operate::unban))
        .route(
            "/ban/dn",
            get(operate::user_bans)
                .post(operate::ban_user)
                .delete(operate::unban_user),
        )
        .merge(configuration())
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
}

/// The routes of operators below `/config`.
fn configuration() -> Router<Arc<Settings>> {
    Router::new()
        .route(
            "/config/se",
            get(configure::storages)
                .post(configure::put_storages)
                .delete(configure::remove_storage),
        )
        .route("/config/links", get(configure::links).post(configure::put_link))
        .route(
            "/config/links/{name}",
            get(configure::one_link).delete(configure::remove_link),
        )
        .route(
            "/config/activity_shares",
            get(configure::shares).post(configure::put_shares),
        )
        .route(
            "/config/activity_shares/{vo}",
            get(configure::vo_shares).delete(configure::remove_shares),
        )
        .route(
            "/config/global",
            get(configure::vos)
                .post(configure::put_vos)
                .delete(configure::remove_vo),
        )
        .route(
            "/config/shares",
            get(shares::list).post(shares::put).delete(shares::remove),
        )
        .route(
            "/config/authorize",
            get(grants::list).post(grants::put).delete(grants::remove),
        )
        .route("/config/cloud_storage", get(cloud::storages).post(cloud::put_storage))
        .route(
            "/config/cloud_storage/{name}",
            get(cloud::storage).post(cloud::put_key).delete(cloud::remove_storage),
        )
        .route("/config/cloud_storage/{name}/{*id}", delete(cloud::remove_key))
        .route("/config/drain", post(operate::drain))
        .route("/config/audit", get(operate::audit))
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_routes_conflict() {
        // A conflict panics while the router is built.
        assert!(super::router().has_routes());
    }
}
