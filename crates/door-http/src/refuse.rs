//! The end of a request, and what this door adds to the answer to an error: methods that are
//! offered, the size of the file, the XML of errors about locks, and pages for browsers.

use http_server::Fate;
use http_wire::webdav::{LockFault, lock_error};
use http_wire::{ContentType, ResponseBuilder};
use types::{Error, ErrorCode, LogicalPath, Result};

use crate::error_page;
use crate::exchange::FileExchange;
use crate::frame;
use crate::methods::methods;

impl FileExchange<'_, '_> {
    /// Ends the request: answers with the error, if there is one and it can be answered; logs it;
    /// and returns what becomes of the connection.
    pub(crate) async fn finish(&mut self, result: Result<()>) -> Fate {
        let answered = match result {
            Ok(()) => Ok(()),
            Err(error) => {
                let error = self.exports.with_client_path(error, &self.http.path);
                match self.http.fail(&error) {
                    true => {
                        let (kind, body) = self.body_of(&error);
                        Box::pin(self.refuse(&error, kind, &body)).await
                    }
                    false => Err(error),
                }
            }
        };
        self.http.finish(answered).await
    }

    /// Answers with an error whose body is given, such as the last line of a copy.
    pub(crate) async fn refuse_with(&mut self, error: &Error, body: &str) -> Result<()> {
        self.http.record.error = Some(error.into());
        self.refuse(error, ContentType::Text, body).await
    }

    async fn refuse(&mut self, error: &Error, kind: ContentType, body: &str) -> Result<()> {
        let code = error.code();
        let unsatisfied = self.unsatisfied_size.filter(|_| code == ErrorCode::RangeUnsatisfiable);
        let tells_methods = matches!(
            code,
            ErrorCode::MethodNotAllowed | ErrorCode::DirectoryExists | ErrorCode::NotImplemented
        );
        let offered = tells_methods.then(|| methods(self.has_locks()));
        let policy = &self.door.content_policy;
        let is_read = matches!(&*self.http.record.method, "GET" | "HEAD");
        let fill = |mut head: ResponseBuilder| {
            head = match kind {
                ContentType::Html => head.page(policy),
                // A browser gets a page instead.
                ContentType::Text if is_read => head.content_type(kind).varies_by_accept(),
                kind => head.content_type(kind),
            };
            if let Some(size) = unsatisfied {
                head = head.content_range_unsatisfied(size);
            }
            match offered {
                Some(methods) => head.allow(methods),
                None => head,
            }
        };
        self.http.refuse_with(error, body, fill).await
    }

    /// The body of an error's answer, and its type: XML for errors about locks, which says where
    /// the lock is; a page for browsers; and text for all others.
    fn body_of(&self, error: &Error) -> (ContentType, String) {
        match self.lock_fault_of(error.code()) {
            Some(fault) => {
                let at = error.subject().and_then(|subject| LogicalPath::parse(subject).ok());
                (
                    ContentType::Xml,
                    lock_error(fault, at.as_ref(), &self.http.text_of(error)),
                )
            }
            None if self.page_at.is_some() || self.http.is_refused_browser => {
                (ContentType::Html, self.page_about(error))
            }
            None => (ContentType::Text, self.http.text_of(error)),
        }
    }

    fn page_about(&self, error: &Error) -> String {
        let sent = self.page_at.as_deref();
        let way = sent.map(|sent| frame::way(&self.http.path, sent));
        let (id, program) = (&self.http.record.request_id, &self.http.server.server_name);
        error_page::write(error, way.as_deref(), id, program)
    }

    fn lock_fault_of(&self, code: ErrorCode) -> Option<LockFault> {
        let usual = (code == ErrorCode::Locked).then_some(LockFault::TokenNeeded);
        self.lock_fault.or(usual)
    }
}
