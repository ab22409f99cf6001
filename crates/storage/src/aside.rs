//! Names for what is replaced, or is to replace something, where the back end hides nothing.

use std::any::Any;
use std::sync::Arc;

use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

/// A name for what is to replace something.
pub struct Beside {
    /// The name.
    pub path: LogicalPath,
    /// Ends with the work.
    pub held: Option<Arc<dyn Any + Send + Sync>>,
}

/// Begins the name of what has been replaced, until it is removed.
pub const REPLACED: &str = ".replaced-";
/// Begins the name of a copy that is not complete.
pub const COPIED: &str = ".copied-";
/// Bytes of the name of a file in the name beside it.
const ASIDE_NAME_BYTES: usize = 200;

/// A name in the same directory that nothing else has, and from which a person sees whose place it
/// is about: [`REPLACED`] for the old content, for instance.
///
/// # Errors
/// `exists` for the root, which has no name.
pub fn name_aside(path: &LogicalPath, mark: &str) -> Result<LogicalPath> {
    let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
        return Err(Error::new(ErrorCode::Exists, Side::Client, Phase::Open).with_subject(path));
    };
    let mut ends = (0..=name.len().min(ASIDE_NAME_BYTES)).rev();
    let end = ends.find(|end| name.is_char_boundary(*end)).unwrap_or_default();
    let number = u64::from_le_bytes(net::random::random());
    parent.join(&format!("{mark}{number:016x}-{}", &name[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_file_stays_in_its_directory_under_a_name_that_fits() {
        let long = "\u{e9}".repeat(127);
        for name in ["f", long.as_str()] {
            let old = LogicalPath::parse(&format!("/data/d/{name}")).unwrap();
            let aside = || name_aside(&old, REPLACED).unwrap();
            let (one, other) = (aside(), aside());
            assert!(one != other && one.parent() == old.parent(), "{one} {other}");
            let shown = one.name().unwrap();
            let kept = &name[..name.len().min(ASIDE_NAME_BYTES)];
            assert!(shown.len() <= 255 && shown.contains(kept), "{shown}");
        }
    }
}
