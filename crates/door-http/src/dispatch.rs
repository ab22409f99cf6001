//! From a request to the verb or service that answers it.

use endpoint::LinkLimit;
use http_server::{Exchange, Fate, Server, Service};
use http_wire::webdav::LastPropfind;
use http_wire::{Method, RequestHead};
use types::{Error, ErrorCode, Phase, Result, Side};

use crate::exchange::FileExchange;
use crate::route::Route;
use crate::shared::Shared;
use crate::{
    announce, copy, delegation, delete, get, lock, missing, mkcol, options, post, propfind, proppatch, put, question,
    rename, why,
};

impl Service for Shared {
    /// Clients repeat a PROPFIND with the same body.
    type Memory = LastPropfind;

    fn server(&self) -> &Server {
        &self.server
    }

    /// Beside many uploads, all other requests go first.
    fn gives_way(&self, head: &RequestHead) -> bool {
        head.method == Method::Put && self.settings.site.activity.has_many_uploads()
    }

    async fn answer(
        &self,
        exchange: &mut Exchange<'_>,
        head: Result<RequestHead>,
        last_propfind: &mut LastPropfind,
    ) -> Fate {
        let mut exchange = FileExchange::begin(self, exchange, last_propfind);
        let limit = head.as_ref().ok().and_then(RequestHead::link_limit);
        exchange.link_limit = limit.map(LinkLimit::parse);
        let result = match head {
            Ok(head) => {
                let result = match exchange.take_capability(&head) {
                    Ok(()) => dispatch(&mut exchange, &head).await,
                    Err(error) => Err(error),
                };
                if result.is_err() && head.wants_page() {
                    exchange.page_at = Some(head.target.path_raw);
                }
                result
            }
            Err(error) => Err(error),
        };
        exchange.finish(result).await
    }
}

async fn dispatch(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<()> {
    let report = exchange.door.settings.space_report.as_ref();
    let is_read = matches!(head.method, Method::Get | Method::Head);
    if let Some(report) = report.filter(|report| is_read && report.is_at(&exchange.http.path)) {
        return Box::pin(announce::space(exchange, report.as_ref())).await;
    }
    let has_delegation = exchange.door.settings.delegations.is_some();
    // Large and rare futures are boxed: the room for the largest would be moved for each request.
    match Route::of(&head.method, &exchange.http.path, has_delegation) {
        Route::Get => {
            let result = get::answer(exchange, head).await;
            missing::answered(exchange, result)
        }
        Route::Propfind => propfind::answer(exchange, head).await,
        Route::Options => options::answer(exchange).await,
        Route::Put => {
            let result = Box::pin(put::answer(exchange, head)).await;
            exchange.settle_capability(&result);
            result
        }
        Route::Delete => Box::pin(delete::answer(exchange, head)).await,
        Route::Mkcol => Box::pin(mkcol::answer(exchange, head)).await,
        Route::Move => Box::pin(rename::answer(exchange, head)).await,
        Route::Copy => {
            let result = Box::pin(copy::answer(exchange, head)).await;
            missing::answered(exchange, result)
        }
        Route::Proppatch => Box::pin(proppatch::answer(exchange, head)).await,
        Route::Lock => Box::pin(lock::lock(exchange, head)).await,
        Route::Unlock => Box::pin(lock::unlock(exchange, head)).await,
        Route::Macaroon => Box::pin(post::macaroon(exchange, head)).await,
        Route::Token => Box::pin(post::token(exchange, head)).await,
        Route::Discovery => Box::pin(post::discover(exchange, head)).await,
        Route::Why => Box::pin(why::answer(exchange, head)).await,
        Route::Explain => Box::pin(question::answer(exchange, head)).await,
        Route::Node => Box::pin(announce::tell(exchange, head)).await,
        Route::NodeOrder => Box::pin(announce::order(exchange, head)).await,
        Route::Delegation(asked) => Box::pin(delegation::answer(exchange, asked)).await,
        Route::Unknown => {
            let error = Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open);
            Err(error.with_detail("OPTIONS lists the methods offered"))
        }
    }
}
