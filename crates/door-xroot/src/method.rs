//! The names of requests in logs and metrics.

use xroot_wire::Opcode;

/// The name of a request in logs and metrics.
pub(crate) fn method_name(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Authenticate => "authenticate",
        Opcode::Query => "query",
        Opcode::ChangeMode => "chmod",
        Opcode::Close => "close",
        Opcode::ListDirectory => "list",
        Opcode::GetFile => "getfile",
        Opcode::Protocol => "protocol",
        Opcode::Login => "login",
        Opcode::MakeDirectory => "mkdir",
        Opcode::Rename => "rename",
        Opcode::Open => "open",
        Opcode::Ping => "ping",
        Opcode::Checkpoint => "checkpoint",
        Opcode::Read => "read",
        Opcode::Remove => "remove",
        Opcode::RemoveDirectory => "rmdir",
        Opcode::Sync => "sync",
        Opcode::Stat => "stat",
        Opcode::Set => "set",
        Opcode::Write => "write",
        Opcode::FileAttributes => "attributes",
        Opcode::Prepare => "prepare",
        Opcode::StatMany => "stat_many",
        Opcode::EndSession => "end_session",
        Opcode::Bind => "bind",
        Opcode::ReadVector => "read_vector",
        Opcode::PageWrite => "page_write",
        Opcode::Locate => "locate",
        Opcode::Truncate => "truncate",
        Opcode::SignatureVerify => "signature",
        Opcode::PageRead => "page_read",
        Opcode::WriteVector => "write_vector",
        Opcode::Clone => "clone",
    }
}
