//! Numbers and texts as bytes, little-endian.
//!
//! The reader takes any bytes: it never reads beyond the end, and asks whether there is enough for a list before it makes room
//! for one.

use crate::snapshot::SnapshotError;

#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

#[derive(Debug)]
pub(crate) struct Reader<'b>(pub(crate) &'b [u8]);

macro_rules! numbers {
    ($($name:ident: $number:ty),*) => {
        impl Writer {
            $(pub(crate) fn $name(&mut self, value: $number) {
                self.0.extend_from_slice(&value.to_le_bytes());
            })*
        }

        impl Reader<'_> {
            $(pub(crate) fn $name(&mut self) -> Result<$number, SnapshotError> {
                let (bytes, rest) = self.0.split_first_chunk().ok_or(SnapshotError::Damaged)?;
                self.0 = rest;
                Ok(<$number>::from_le_bytes(*bytes))
            })*
        }
    };
}

numbers!(u8: u8, i8: i8, u32: u32, f32: f32, u64: u64, i64: i64, f64: f64, u128: u128);

impl Writer {
    pub(crate) fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.u8(flag.into());
    }

    /// The length of a list that follows.
    pub(crate) fn count(&mut self, count: usize) {
        self.u64(count as u64);
    }
}

impl<'b> Reader<'b> {
    pub(crate) fn text(&mut self) -> Result<&'b str, SnapshotError> {
        let length = self.count(1, usize::MAX)?;
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        str::from_utf8(text).map_err(|_| SnapshotError::Damaged)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, SnapshotError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(SnapshotError::Damaged),
        }
    }

    /// The length of a list whose entries take `bytes` or more each: at most `most`, and no more than there is left.
    pub(crate) fn count(&mut self, bytes: usize, most: usize) -> Result<usize, SnapshotError> {
        let count = usize::try_from(self.u64()?).map_err(|_| SnapshotError::Damaged)?;
        match count <= most && count <= self.0.len() / bytes {
            true => Ok(count),
            false => Err(SnapshotError::Damaged),
        }
    }

    /// A number that is one, from `least` to `most`.
    pub(crate) fn within(&mut self, least: f64, most: f64) -> Result<f64, SnapshotError> {
        let value = self.f64()?;
        if (least..=most).contains(&value) { Ok(value) } else { Err(SnapshotError::Damaged) }
    }

    /// The number of something of which there are `count`.
    pub(crate) fn index(&mut self, count: usize) -> Result<u32, SnapshotError> {
        let index = self.u32()?;
        if (index as usize) < count { Ok(index) } else { Err(SnapshotError::Damaged) }
    }
}
