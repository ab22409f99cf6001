//! Reading files of limited size.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::path::Path;

/// Largest file with a configuration, such as that of a server or of the endpoints of a mesh, in
/// bytes.
pub const CONFIGURATION_BYTES_MAX: u64 = 16 << 20;

/// Reads a file of at most so many bytes. The limit holds whatever the file is: devices and pipes
/// have no size, and a file may grow while it is read.
///
/// # Errors
/// It cannot be read, or is larger (`FileTooLarge`).
pub fn read_bytes(file: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 <= bytes_max {
        true => Ok(bytes),
        false => Err(Error::new(
            ErrorKind::FileTooLarge,
            format!("larger than the {bytes_max} bytes that are read of such a file"),
        )),
    }
}

/// As [`read_bytes`], for a text in UTF-8.
///
/// # Errors
/// As [`read_bytes`]; it is no text.
pub fn read_text(file: &Path, bytes_max: u64) -> Result<String> {
    let bytes = read_bytes(file, bytes_max)?;
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is no text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_for_files_without_a_size() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("text");
        std::fs::write(&file, "grün").unwrap();
        assert_eq!(read_text(&file, 5).unwrap(), "grün");
        for (file, limit) in [(file.as_path(), 4), (file.as_path(), 3), (Path::new("/dev/zero"), 1000)] {
            assert_eq!(read_text(file, limit).unwrap_err().kind(), ErrorKind::FileTooLarge);
        }
        std::fs::write(&file, b"\xff").unwrap();
        assert_eq!(read_text(&file, 5).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(
            read_text(&directory.path().join("none"), 5).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
}
