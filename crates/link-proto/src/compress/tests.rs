//! Packing and unpacking by themselves.

use super::*;

fn frame(body: &[u8]) -> Vec<u8> {
    let body_len = u32::try_from(body.len()).unwrap();
    let header = Header { body_len, kind: FrameKind::Chunk as u8, ..Header::default() };
    [&header.to_bytes()[..], body].concat()
}

/// Bytes in which LZ4 finds nothing.
fn noise(len: usize) -> Vec<u8> {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_be_bytes()[3]
    };
    (0..len).map(|_| next()).collect()
}

/// Everything that `packed` holds, and how many COMPRESSED frames there were.
fn unpacked(mut packed: &[u8], meter: &mut CompressionMeter) -> (Vec<u8>, usize) {
    let (mut all, mut n_packed, mut raw) = (Vec::new(), 0, BytesMut::new());
    while let Some((head, rest)) = packed.split_first_chunk::<HEADER_LEN>() {
        let header = Header::parse(head);
        assert!(header.check().is_ok());
        let (body, rest) = rest.split_at(header.body_len as usize);
        if header.kind == FrameKind::Compressed as u8 {
            meter.unpack(body, &mut raw).unwrap();
            all.extend_from_slice(&raw);
            n_packed += 1;
        } else {
            all.extend_from_slice(head);
            all.extend_from_slice(body);
        }
        packed = rest;
    }
    (all, n_packed)
}

fn pack(packer: &mut Packer, frames: &[u8], meter: &mut CompressionMeter) -> BytesMut {
    let (mut out, mut packed) = (BytesMut::from(frames), BytesMut::new());
    packer.pack(&mut out, &mut packed, meter);
    assert!(out.is_empty());
    packed
}

#[test]
fn pieces_are_cut_between_frames() {
    let frames: Vec<u8> = (0..300).flat_map(|n| frame(&vec![7; n * 5])).collect();
    let mut meter =
        CompressionMeter { clock: Some(|| Duration::from_secs(1)), ..CompressionMeter::default() };
    let packed = pack(&mut Packer::new(), &frames, &mut meter);
    assert!(packed.len() < frames.len() / 20);
    let (all, n_packed) = unpacked(&packed, &mut meter);
    assert!(all == frames);
    assert_eq!(n_packed, frames.len().div_ceil(PIECE_LEN));
    let done = meter.done;
    assert_eq!(
        (done.raw_out_bytes, done.packed_out_bytes),
        (all.len() as u64, packed.len() as u64)
    );
    assert_eq!((done.raw_in_bytes, done.packed_in_bytes), (all.len() as u64, packed.len() as u64));
    assert_eq!(done.cpu, Duration::ZERO, "the clock stood still");
}

#[test]
fn the_longest_frame_is_a_piece_of_its_own() {
    let longest = frame(&vec![1; crate::header::MAX_BODY_LEN]);
    let frames = [frame(&[2; 300]), longest, frame(&[3; 300])].concat();
    let mut meter = CompressionMeter::default();
    let packed = pack(&mut Packer::new(), &frames, &mut meter);
    let (all, n_packed) = unpacked(&packed, &mut meter);
    assert!(all == frames);
    assert_eq!(n_packed, 3);
}

#[test]
fn little_leaves_as_it_is() {
    let frames = frame(&[0; MIN_PIECE_LEN - HEADER_LEN - 1]);
    let mut meter = CompressionMeter::default();
    assert_eq!(pack(&mut Packer::new(), &frames, &mut meter), frames);
    assert_eq!(meter.done, CompressionTotals::default());
}

/// Random data is tried ever more rarely; what can be compressed is found again.
#[test]
fn data_without_gain_is_left_alone() {
    let (mut packer, mut meter) = (Packer::new(), CompressionMeter::default());
    let frames: Vec<u8> = noise(1_000_000).chunks(5_000).flat_map(frame).collect();
    for _ in 0..100 {
        assert!(pack(&mut packer, &frames, &mut meter) == frames);
    }
    assert!((5..20).contains(&meter.done.n_given_up), "{:?}", meter.done);
    assert_eq!(meter.done.raw_out_bytes, 0);
    let good = frame(&[0; 50_000]);
    let n_bytes: usize = std::iter::repeat_with(|| pack(&mut packer, &good, &mut meter))
        .take_while(|packed| *packed == good)
        .map(|packed| packed.len())
        .sum();
    assert!(n_bytes <= MAX_PAUSE_LEN + good.len(), "{n_bytes}");
    assert!(pack(&mut packer, &good, &mut meter).len() < 1000);
}

#[test]
fn lengths_are_checked_before_space_is_kept() {
    let refused = |raw_len: u32, block: &[u8]| {
        let (mut raw, mut meter) = (BytesMut::new(), CompressionMeter::default());
        let body = [&raw_len.to_be_bytes()[..], block].concat();
        let error = meter.unpack(&body, &mut raw).unwrap_err();
        assert_eq!(meter.done, CompressionTotals::default());
        (error.to_string(), raw.capacity())
    };
    let (told, kept) = refused(u32::MAX, &[0]);
    assert!(told.contains("raw length is 4294967295, over the limit of 131088"), "{told}");
    assert_eq!(kept, 0);
    // Three literals: not two, not four.
    for (raw_len, block) in
        [(2, &b"\x30abc"[..]), (4, b"\x30abc"), (3, b"\x30ab"), (0, b"\0"), (9, b"")]
    {
        let (told, _) = refused(raw_len, block);
        let expected = format!("bad COMPRESSED of {raw_len} bytes: the block must unpack");
        assert!(told.starts_with(&expected), "{told}");
    }
    let mut raw = BytesMut::new();
    CompressionMeter::default().unpack(b"\0\0\0\x03\x30abc", &mut raw).unwrap();
    assert_eq!(raw, "abc");
    let error = CompressionMeter::default().unpack(b"\0\0", &mut raw).unwrap_err();
    assert!(matches!(error, LinkError::Truncated { kind: 13, .. }), "{error}");
}
