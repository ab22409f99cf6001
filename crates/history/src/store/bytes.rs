//! Numbers of variable length, as in LEB128: seven bits a byte, the lowest first.

/// The text is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Torn;

/// Writes numbers and texts.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// A number that may be negative, small ones in few bytes.
    pub(super) fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// Reads what [`Writer`] wrote.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn number(&mut self) -> Result<u64, Torn> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first().ok_or(Torn)?;
            self.0 = rest;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Torn)
    }

    pub(super) fn signed(&mut self) -> Result<i64, Torn> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A count of things that take at least a byte each, so that nonsense reserves no memory.
    pub(super) fn count(&mut self) -> Result<usize, Torn> {
        let count = usize::try_from(self.number()?).map_err(|_| Torn)?;
        (count <= self.0.len()).then_some(count).ok_or(Torn)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Torn> {
        let length = self.count()?;
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        std::str::from_utf8(text).map_err(|_| Torn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_come_back() {
        let (numbers, signed) = ([0, 1, 127, 128, 1 << 40, u64::MAX], [0, -1, 1, i64::MIN, i64::MAX]);
        let mut writer = Writer::default();
        numbers.iter().for_each(|number| writer.number(*number));
        signed.iter().for_each(|number| writer.signed(*number));
        writer.text("Grüße");
        let mut reader = Reader(&writer.0);
        assert_eq!(numbers.map(|_| reader.number().unwrap()), numbers);
        assert_eq!(signed.map(|_| reader.signed().unwrap()), signed);
        assert_eq!(reader.text(), Ok("Grüße"));
        assert_eq!(reader.number(), Err(Torn));
        assert_eq!(Reader(&[0xff; 11]).number(), Err(Torn));
        assert_eq!(Reader(&[9, b'a']).text(), Err(Torn));
    }
}
