//! Compares the checksums of the two sides.

use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Phase, Result, Side};

use crate::options::{Order, Uncompared, Verification, Verified};

/// The algorithms to request from a peer: the expected one first, then those kept here, then those
/// common in the grid.
pub(crate) fn wanted(order: &Order) -> Vec<ChecksumAlgorithm> {
    let mut wanted: Vec<_> = order.expected.iter().map(Checksum::algorithm).collect();
    let common = [
        ChecksumAlgorithm::Adler32,
        ChecksumAlgorithm::Crc32c,
        ChecksumAlgorithm::Md5,
    ];
    for algorithm in order.keep.iter().copied().chain(common) {
        if !wanted.contains(&algorithm) {
            wanted.push(algorithm);
        }
    }
    wanted
}

/// The algorithms to compute while data moves: those kept, and the expected one.
pub(crate) fn computed(order: &Order) -> Vec<ChecksumAlgorithm> {
    let mut algorithms = order.keep.clone();
    algorithms.extend(order.expected.iter().map(Checksum::algorithm));
    algorithms.sort_unstable();
    algorithms.dedup();
    algorithms
}

/// Checks before data moves: whether the source has the expected checksum, and whether verification
/// is possible at all.
///
/// # Errors
/// `checksum_precondition`, `checksum_unavailable`.
pub(crate) fn check_announced(order: &Order, announced: &[Checksum]) -> Result<()> {
    if let Some(expected) = &order.expected
        && let Some(theirs) = announced
            .iter()
            .find(|theirs| theirs.algorithm() == expected.algorithm())
        && theirs != expected
    {
        let error = Error::new(ErrorCode::ChecksumPrecondition, Side::Source, Phase::Checksum);
        return Err(error.with_detail(format!("the source has {theirs}, the client expects {expected}")));
    }
    if order.verification == Verification::Required && announced.is_empty() {
        return Err(Error::new(
            ErrorCode::ChecksumUnavailable,
            Side::Source,
            Phase::Checksum,
        ));
    }
    Ok(())
}

/// Compares after the data moved: `ours` was computed from it, `theirs` was reported by the side
/// `other`.
///
/// # Errors
/// `checksum_mismatch` if any pair of one algorithm differs, `checksum_unavailable` if verification
/// is required and nothing can be compared.
pub(crate) fn compare(order: &Order, ours: &[Checksum], theirs: &[Checksum], other: Side) -> Result<Verified> {
    let mut agreed = None;
    for expected in order.expected.iter().chain(theirs) {
        let Some(own) = ours.iter().find(|own| own.algorithm() == expected.algorithm()) else {
            continue;
        };
        if own != expected {
            let error = Error::new(ErrorCode::ChecksumMismatch, other, Phase::Checksum);
            return Err(error.with_detail(format!("the data has {own}, expected is {expected}")));
        }
        agreed.get_or_insert_with(|| own.clone());
    }
    match (agreed, order.verification) {
        (Some(checksum), _) => Ok(Verified::Agreed(checksum)),
        (None, Verification::Required) => Err(Error::new(ErrorCode::ChecksumUnavailable, other, Phase::Checksum)),
        (None, Verification::Never) => Ok(Verified::SizeOnly(Uncompared::NotAsked)),
        (None, Verification::WhenAvailable) => Ok(Verified::SizeOnly(match other {
            Side::Destination => Uncompared::NoneAtDestination,
            _ => Uncompared::NoneAtSource,
        })),
    }
}

/// Blames errors of our store on the side that the store has in this transfer.
pub(crate) fn blame_store(error: Error, side: Side) -> Error {
    if error.side() == Side::Active {
        error.at_side(side)
    } else {
        error
    }
}

/// Whether both sides have a checksum of the same algorithm.
pub(crate) fn are_comparable(ours: &[Checksum], theirs: &[Checksum]) -> bool {
    let mut theirs = theirs.iter();
    theirs.any(|theirs| ours.iter().any(|own| own.algorithm() == theirs.algorithm()))
}

/// Algorithms that the peer reported and we have not computed, if nothing else can be compared.
pub(crate) fn missing(ours: &[Checksum], theirs: &[Checksum]) -> Vec<ChecksumAlgorithm> {
    if are_comparable(ours, theirs) {
        Vec::new()
    } else {
        theirs.iter().take(1).map(Checksum::algorithm).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(verification: Verification, expected: Option<Checksum>) -> Order {
        Order {
            verification,
            expected,
            ..Order::default()
        }
    }

    #[test]
    fn a_difference_in_any_common_algorithm_fails() {
        let order = order(Verification::WhenAvailable, None);
        let ours = [Checksum::adler32(1), Checksum::crc32c(2)];
        let theirs = [Checksum::adler32(1), Checksum::crc32c(3)];
        let error = compare(&order, &ours, &theirs, Side::Source).unwrap_err();
        assert_eq!(
            (error.code(), error.side()),
            (ErrorCode::ChecksumMismatch, Side::Source)
        );
        assert_eq!(
            compare(&order, &ours, &theirs[..1], Side::Source).unwrap(),
            Verified::Agreed(Checksum::adler32(1))
        );
    }

    #[test]
    fn nothing_to_compare_is_an_error_only_when_required() {
        let ours = [Checksum::adler32(1)];
        let lax = order(Verification::WhenAvailable, None);
        let without = |side| Ok(Verified::SizeOnly(side));
        for (side, why) in [
            (Side::Source, Uncompared::NoneAtSource),
            (Side::Destination, Uncompared::NoneAtDestination),
        ] {
            assert_eq!(
                compare(&lax, &ours, &[], side).map_err(|error| error.code()),
                without(why)
            );
        }
        let strict = order(Verification::Required, None);
        assert_eq!(
            compare(&strict, &ours, &[], Side::Source).unwrap_err().code(),
            ErrorCode::ChecksumUnavailable
        );
        assert_eq!(
            check_announced(&strict, &[]).unwrap_err().code(),
            ErrorCode::ChecksumUnavailable
        );
    }

    #[test]
    fn what_the_client_expects_is_checked_before_and_after() {
        let order = order(Verification::WhenAvailable, Some(Checksum::adler32(7)));
        assert_eq!(
            check_announced(&order, &[Checksum::adler32(8)]).unwrap_err().code(),
            ErrorCode::ChecksumPrecondition
        );
        assert!(check_announced(&order, &[Checksum::crc32c(8)]).is_ok());
        assert_eq!(
            compare(&order, &[Checksum::adler32(8)], &[], Side::Source)
                .unwrap_err()
                .code(),
            ErrorCode::ChecksumMismatch
        );
    }

    #[test]
    fn an_algorithm_that_only_the_peer_has_is_computed() {
        let md5 = Checksum::from_hex(ChecksumAlgorithm::Md5, &"0".repeat(32)).unwrap();
        assert_eq!(
            missing(&[Checksum::adler32(1)], std::slice::from_ref(&md5)),
            [ChecksumAlgorithm::Md5]
        );
        assert!(missing(&[Checksum::adler32(1)], &[Checksum::adler32(1), md5]).is_empty());
    }
}
