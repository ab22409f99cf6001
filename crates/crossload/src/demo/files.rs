//! The files of the demo: generated or copied, and compared on both sides.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use types::limits::BUFFER_BYTES;

use crate::failure::Failure;

fn failed(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |cause| Failure::system(path.display(), &cause)
}

/// Writes a file of pseudo-random bytes (xorshift), which no layer can compress.
pub(super) fn generate(file: &Path, bytes: u64) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let mut target = File::create(file)?;
        let (mut state, mut buffer) = (0x9e37_79b9_7f4a_7c15_u64, vec![0_u8; BUFFER_BYTES]);
        let mut left = bytes;
        while left > 0 {
            for word in buffer.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.to_le_bytes());
            }
            let piece = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            target.write_all(&buffer[..piece])?;
            left -= piece as u64;
        }
        Ok(())
    };
    write().map_err(failed(file))
}

/// The size of all regular files in a directory, in bytes.
pub(super) fn size_of(directory: &Path) -> Result<u64, Failure> {
    let mut total = 0;
    walk(directory, &mut |path, is_directory| {
        if !is_directory {
            total += fs::metadata(path)?.len();
        }
        Ok(())
    })
    .map_err(failed(directory))?;
    Ok(total)
}

/// Copies the regular files of a directory; returns how many.
pub(super) fn copy_tree(from: &Path, to: &Path) -> Result<u64, Failure> {
    let mut count = 0;
    walk(from, &mut |path, is_directory| {
        let target = to.join(path.strip_prefix(from).unwrap_or(path));
        if is_directory {
            return fs::create_dir_all(target);
        }
        count += 1;
        fs::copy(path, target).map(drop)
    })
    .map_err(failed(from))?;
    Ok(count)
}

/// Compares the contents of all files of two directories; returns how many there are.
pub(super) fn compare(first: &Path, second: &Path) -> Result<u64, Failure> {
    let mut count = 0;
    walk(first, &mut |path, is_directory| {
        let other = second.join(path.strip_prefix(first).unwrap_or(path));
        if is_directory {
            return Ok(());
        }
        if digest(path)? != digest(&other)? {
            return Err(io::Error::other(format!("{} differs", other.display())));
        }
        count += 1;
        Ok(())
    })
    .map_err(failed(second))?;
    Ok(count)
}

fn digest(file: &Path) -> io::Result<Vec<u8>> {
    let (mut source, mut context) = (File::open(file)?, Context::new(&SHA256));
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    loop {
        match source.read(&mut buffer)? {
            0 => return Ok(context.finish().as_ref().to_vec()),
            count => context.update(&buffer[..count]),
        }
    }
}

/// Visits directories and regular files, each directory before its entries. Links are skipped.
fn walk(directory: &Path, visit: &mut dyn FnMut(&Path, bool) -> io::Result<()>) -> io::Result<()> {
    visit(directory, true)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), visit)?;
        } else if kind.is_file() {
            visit(&entry.path(), false)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_counted_and_differences_found() {
        let scratch = tempfile::tempdir().unwrap();
        let (one, two) = (scratch.path().join("one"), scratch.path().join("two"));
        fs::create_dir_all(one.join("sub")).unwrap();
        generate(&one.join("sub/f"), 300_001).unwrap();
        fs::write(one.join("g"), "x").unwrap();
        assert_eq!(size_of(&one).unwrap(), 300_002);
        assert_eq!(copy_tree(&one, &two).unwrap(), 2);
        assert_eq!(compare(&one, &two).unwrap(), 2);
        fs::write(two.join("g"), "y").unwrap();
        assert!(compare(&one, &two).is_err());
    }
}
