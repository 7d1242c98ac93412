//! The packets of a key, as bytes: RFC 4880, sections 3 and 4.

use super::Problem;

const CUT: Problem = "ends too early: a part of it is missing";

/// Reads from the front, and never beyond the end.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        self.take(N)?.try_into().map_err(|_| CUT)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Problem> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Problem> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Problem> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn sized(&mut self, length: u32) -> Result<&'a [u8], Problem> {
        self.take(usize::try_from(length).map_err(|_| CUT)?)
    }

    /// Reads a part that is prefixed with its length in two bytes.
    pub(super) fn part(&mut self) -> Result<Self, Problem> {
        let length = self.u16()?;
        self.take(length.into()).map(Self)
    }

    /// Reads a number that is prefixed with its length in bits. Leading zeros are omitted.
    pub(super) fn number(&mut self) -> Result<&'a [u8], Problem> {
        let bits = self.u16()?;
        self.take(bits.div_ceil(8).into())
    }

    /// Reads a subpacket of a signature: its type and content.
    pub(super) fn subpacket(&mut self) -> Result<(u8, &'a [u8]), Problem> {
        let length = match self.u8()? {
            short @ ..192 => short.into(),
            u8::MAX => self.u32()?,
            high => two_bytes(high, self.u8()?),
        };
        // The highest bit marks a critical subpacket: implementations that do not know it have to reject the signature.
        let (kind, body) = self.sized(length)?.split_first().ok_or(CUT)?;
        Ok((kind & 0x7f, body))
    }

    pub(super) fn packet(&mut self) -> Result<Packet<'a>, Problem> {
        let head = self.u8()?;
        if head & 0x80 == 0 {
            return Err("is not an OpenPGP key");
        }
        let is_new = head & 0x40 != 0;
        let length = if is_new {
            match self.u8()? {
                short @ ..192 => short.into(),
                high @ 192..224 => two_bytes(high, self.u8()?),
                u8::MAX => self.u32()?,
                _ => return Err("has packets without a length, which no key has"),
            }
        } else {
            match head & 3 {
                0 => self.u8()?.into(),
                1 => self.u16()?.into(),
                2 => self.u32()?,
                _ => return Err("has packets without a length, which no key has"),
            }
        };
        let tag = if is_new { head & 0x3f } else { (head >> 2) & 0x0f };
        Ok(Packet { tag, body: self.sized(length)? })
    }
}

fn two_bytes(high: u8, low: u8) -> u32 {
    ((u32::from(high) - 192) << 8) + u32::from(low) + 192
}

#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) tag: u8,
    pub(super) body: &'a [u8],
}

/// Encodes a number: its length in bits, then its bytes without leading zeros.
pub(super) fn number(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let digits = &bytes[zeros..];
    let bits = digits.first().map_or(0, |first| 8 * digits.len() - first.leading_zeros() as usize);
    [&u16::try_from(bits).unwrap_or(u16::MAX).to_be_bytes()[..], digits].concat()
}

/// Pads a number with leading zeros to `N` bytes.
pub(super) fn filled<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    bytes.get_mut(N.checked_sub(digits.len())?..)?.copy_from_slice(digits);
    Some(bytes)
}
