//! The destination of a file.

use types::Result;

use super::super::place::Place;

/// The target of a source: the destination itself, or with `into` the source's name below it.
///
/// # Errors
/// The source has no name, such as `/`.
pub(super) fn target_of(source: &Place, destination: &Place, into: bool) -> Result<Place> {
    if !into || *destination == Place::Stdio {
        return Ok(destination.clone());
    }
    destination.child(&source.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_appended_below_directories_only() {
        let place = |text| Place::parse(text).unwrap();
        let (source, destination) = (place("https://a/d/f%20x"), place("https://b/e"));
        assert_eq!(target_of(&source, &destination, false).unwrap(), destination);
        let below = target_of(&source, &destination, true).unwrap();
        assert_eq!(below.to_string(), "https://b/e/f%20x");
        assert_eq!(target_of(&source, &Place::Stdio, true).unwrap(), Place::Stdio);
        assert!(
            target_of(&place("https://a/"), &destination, true).is_err(),
            "the root has no name"
        );
    }
}
