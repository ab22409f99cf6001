//! The end of a request, and what this door adds to the answer to an error: methods that are
//! offered, the size of the file, and the XML of errors about locks.

use http_server::Fate;
use http_wire::webdav::{LockFault, lock_error};
use http_wire::{ContentType, ResponseBuilder};
use types::{Error, ErrorCode, LogicalPath, Result};

use crate::exchange::FileExchange;
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
                        let body = self.words_of(&error);
                        Box::pin(self.refuse(&error, &body)).await
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
        self.refuse(error, body).await
    }

    async fn refuse(&mut self, error: &Error, body: &str) -> Result<()> {
        let code = error.code();
        let unsatisfied = self.unsatisfied_size.filter(|_| code == ErrorCode::RangeUnsatisfiable);
        let tells_methods = matches!(
            code,
            ErrorCode::MethodNotAllowed | ErrorCode::DirectoryExists | ErrorCode::NotImplemented
        );
        let offered = tells_methods.then(|| methods(self.has_locks()));
        let kind = match self.lock_fault_of(code) {
            Some(_) => ContentType::Xml,
            None => ContentType::Text,
        };
        let fill = |mut head: ResponseBuilder| {
            head = head.content_type(kind);
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

    /// The body of an error's answer; XML for errors about locks, which says where the lock is.
    fn words_of(&self, error: &Error) -> String {
        let words = self.http.text_of(error);
        match self.lock_fault_of(error.code()) {
            Some(fault) => {
                let at = error.subject().and_then(|subject| LogicalPath::parse(subject).ok());
                lock_error(fault, at.as_ref(), &words)
            }
            None => words,
        }
    }

    fn lock_fault_of(&self, code: ErrorCode) -> Option<LockFault> {
        let usual = (code == ErrorCode::Locked).then_some(LockFault::TokenNeeded);
        self.lock_fault.or(usual)
    }
}
