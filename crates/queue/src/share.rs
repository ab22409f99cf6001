//! How users share places.

/// Whether a user may take one more of so many places: as many as are left for the others, which is
/// half when alone. `taken` has an entry for each place that is taken: whether it is the user's
/// own.
pub(crate) fn is_left(places: usize, taken: impl IntoIterator<Item = bool>) -> bool {
    let (mut all, mut own) = (0, 0);
    for is_own in taken {
        all += 1;
        own += usize::from(is_own);
    }
    own < places.saturating_sub(all)
}
