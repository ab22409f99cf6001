//! A file that an option names, and that a command may need more than once.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use clap::builder::{PathBufValueParser, TypedValueParser};
use config::read_bytes;
use zeroize::Zeroizing;

/// A file that an option names. What gives its content only once, such as a pipe of a shell
/// (`<(command)`), is read once and kept for as long as the option. A regular file is read each
/// time, because it may have been renewed.
#[derive(Clone)]
pub(crate) struct InputFile {
    path: PathBuf,
    kept: Arc<OnceLock<Zeroizing<Vec<u8>>>>,
}

impl InputFile {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            kept: Arc::default(),
        }
    }

    /// Its name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its content.
    ///
    /// # Errors
    /// It cannot be read, or has more bytes than this.
    pub(crate) fn read(&self, bytes_max: u64) -> Result<Zeroizing<Vec<u8>>> {
        if let Some(kept) = self.kept.get() {
            return Ok(kept.clone());
        }
        let is_regular = std::fs::metadata(&self.path)?.is_file();
        let bytes = Zeroizing::new(read_bytes(&self.path, bytes_max)?);
        match is_regular {
            true => Ok(bytes),
            false => Ok(self.kept.get_or_init(|| bytes).clone()),
        }
    }

    /// Its content, if it is a text.
    ///
    /// # Errors
    /// As [`InputFile::read`]; it is no text in UTF-8.
    pub(crate) fn read_text(&self, bytes_max: u64) -> Result<Zeroizing<String>> {
        let bytes = self.read(bytes_max)?;
        let text = std::str::from_utf8(&bytes);
        text.map(|text| Zeroizing::new(text.to_owned()))
            .map_err(|_| Error::new(ErrorKind::InvalidData, "it is no text in UTF-8"))
    }
}

/// Shows the name alone: the content may be a secret.
impl fmt::Debug for InputFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(formatter)
    }
}

/// Parses the value of an option.
pub(crate) fn input_file() -> impl TypedValueParser<Value = InputFile> {
    PathBufValueParser::new().map(InputFile::new)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_pipe_is_kept_and_a_file_is_read_again() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"secret").unwrap();
        drop(writer);
        let pipe = InputFile::new(format!("/proc/self/fd/{}", reader.as_raw_fd()).into());
        // The second read comes from another copy of the option.
        for copy in [pipe.clone(), pipe.clone()] {
            assert_eq!(*copy.read_text(6).unwrap(), "secret");
        }
        assert!(!format!("{pipe:?}").contains("secret"));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = InputFile::new(path.clone());
        assert_eq!(file.read(9).unwrap_err().kind(), ErrorKind::NotFound);
        for content in ["first", "second"] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(*file.read_text(9).unwrap(), content);
        }
        assert_eq!(file.read(5).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(file.read_text(9).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
