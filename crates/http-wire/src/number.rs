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

/// Appends the last `COUNT` decimal digits of a number that is not negative, with zeros in front.
pub(crate) fn push_digits<const COUNT: usize>(out: &mut Vec<u8>, mut number: i64) {
    let mut digits = [b'0'; COUNT];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits);
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
        let mut out = Vec::new();
        push_digits::<2>(&mut out, 7);
        push_digits::<4>(&mut out, 2026);
        assert_eq!(out, b"072026");
    }
}
