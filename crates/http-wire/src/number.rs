//! Numbers as text behind other text, without a detour through a string of their own: a listing has
//! thousands of them.

/// Appends a number in decimal digits.
pub(crate) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes the last decimal digits of a number that is not negative over `digits`, with zeros in
/// front.
pub(crate) fn put_digits(digits: &mut [u8], mut number: i64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_everybody_writes_them() {
        for number in [0, 7, 10, 99, 12_345, u64::MAX] {
            let mut out = b"x".to_vec();
            push_number(&mut out, number);
            assert_eq!(out, format!("x{number}").into_bytes());
        }
        let mut text = *b"........";
        put_digits(&mut text[1..3], 7);
        put_digits(&mut text[4..], 12_026);
        assert_eq!(&text, b".07.2026");
    }
}
