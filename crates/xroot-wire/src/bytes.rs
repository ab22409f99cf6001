//! Reading and writing of big-endian fields.

/// Takes fields from the front of some bytes; `None` when they do not suffice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// The bytes up to the next NUL, which is taken too and must be there.
    pub(crate) fn until_nul(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let front = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(front)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The `N` bytes of a parameter block from `at` on. The places are constants of the protocol,
/// within the block.
pub(crate) fn field<const N: usize>(block: &[u8; 16], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&block[at..at + N]);
    value
}

/// A text of an answer: everything up to the first NUL, or to the end where a server sends none.
pub(crate) fn text_bytes(body: &[u8]) -> &[u8] {
    body.iter().position(|byte| *byte == 0).map_or(body, |end| &body[..end])
}

/// The same as text; bytes that are not UTF-8 are shown as the replacement character.
pub(crate) fn text(body: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text_bytes(body))
}

/// A length as the protocol's signed 32-bit number; what does not fit was refused before.
pub(crate) fn length_i32(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}
