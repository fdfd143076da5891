//! Numbers in their shortest forms, put into a place of a fixed length.

use crate::tag;

/// Puts a tag that holds a part of the value, or none, and the last `LEN` bytes of the value.
#[inline]
fn put<const LEN: usize>(place: &mut [u8], tag: u8, value: u64) -> usize {
    let bytes = value.to_be_bytes();
    if let (Some((first, rest)), Some(last)) = (place.split_first_mut(), bytes.last_chunk::<LEN>())
        && let Some(rest) = rest.first_chunk_mut::<LEN>()
    {
        *first = tag;
        *rest = *last;
    }
    1 + LEN
}

/// Puts a 32-bit integer; the place has at least 9 bytes. Returns how many it took.
#[inline]
pub(crate) fn put_int(place: &mut [u8], value: i32) -> usize {
    let [_, b2, b1, b0] = value.to_be_bytes();
    let all = i64::from(value).cast_unsigned();
    match value {
        -0x10..=0x2f => put::<0>(place, tag::INT_ZERO.wrapping_add(b0), all),
        -0x800..=0x7ff => put::<1>(place, tag::INT_BYTE_ZERO.wrapping_add(b1), all),
        -0x40000..=0x3ffff => put::<2>(place, tag::INT_SHORT_ZERO.wrapping_add(b2), all),
        _ => put::<4>(place, tag::INT, all),
    }
}

/// Puts a 64-bit integer.
#[inline]
pub(crate) fn put_long(place: &mut [u8], value: i64) -> usize {
    let [.., b2, b1, b0] = value.to_be_bytes();
    let all = value.cast_unsigned();
    match value {
        -0x08..=0x0f => put::<0>(place, tag::LONG_ZERO.wrapping_add(b0), all),
        -0x800..=0x7ff => put::<1>(place, tag::LONG_BYTE_ZERO.wrapping_add(b1), all),
        -0x40000..=0x3ffff => put::<2>(place, tag::LONG_SHORT_ZERO.wrapping_add(b2), all),
        _ if i32::try_from(value).is_ok() => put::<4>(place, tag::LONG_INT, all),
        _ => put::<8>(place, tag::LONG, all),
    }
}

/// Puts a double.
#[inline]
pub(crate) fn put_double(place: &mut [u8], value: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "compared with the value afterwards")]
    let (int, mills) = (value as i32, (value * 1000.0) as i32);
    #[expect(clippy::float_cmp, reason = "a short form is right only if it is exactly the value")]
    let (is_int, is_mills) = (f64::from(int) == value, 0.001 * f64::from(mills) == value);
    let is_minus_zero = value == 0.0 && value.is_sign_negative();
    if is_int && !is_minus_zero {
        let all = i64::from(int).cast_unsigned();
        match int {
            0 => return put::<0>(place, tag::DOUBLE_ZERO, 0),
            1 => return put::<0>(place, tag::DOUBLE_ONE, 0),
            -0x80..=0x7f => return put::<1>(place, tag::DOUBLE_BYTE, all),
            -0x8000..=0x7fff => return put::<2>(place, tag::DOUBLE_SHORT, all),
            _ => {}
        }
    }
    if is_mills && !is_minus_zero {
        put::<4>(place, tag::DOUBLE_MILL, i64::from(mills).cast_unsigned())
    } else {
        put::<8>(place, tag::DOUBLE, value.to_bits())
    }
}
