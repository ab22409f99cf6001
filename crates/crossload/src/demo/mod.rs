//! stub
pub(crate) fn run(_options: crate::command_line::DemoOptions) -> Result<(), crate::failure::Failure> { Ok(()) }
