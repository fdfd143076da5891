use std::io::Write;

use proptest::prelude::*;

use super::*;

fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn all_lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    all_lines_by(LineEnds::Crlf, bytes)
}

fn all_lines_by(ends: LineEnds, bytes: &[u8]) -> Vec<Vec<u8>> {
    let file = file_of(bytes);
    let mut reader = Reader::new(Source::open_with(file.path(), ends).unwrap());
    let mut lines = Vec::new();
    while let Some(line) = reader.line(lines.len() as u64).unwrap() {
        lines.push(line.to_vec());
    }
    assert_eq!(reader.source().count(), Some(lines.len() as u64));
    lines
}

#[test]
fn ends_of_files() {
    assert_eq!(all_lines(b""), Vec::<Vec<u8>>::new());
    assert_eq!(all_lines(b"\r\n"), [b"\r\n"]);
    assert_eq!(all_lines(b"a\r\nb"), [&b"a\r\n"[..], b"b"]);
    assert_eq!(all_lines(b"a\r\n\r\n\n"), [&b"a\r\n"[..], b"\r\n", b"\n"]);
}

#[test]
fn lines_by_their_ends() {
    for ends in [LineEnds::Lf, LineEnds::Any] {
        assert_eq!(all_lines_by(ends, b""), Vec::<Vec<u8>>::new());
        assert_eq!(all_lines_by(ends, b"\n"), [b"\n"]);
        let lines = all_lines_by(ends, b"a\r\n\nb\rc\nd");
        assert_eq!(lines, [&b"a\r\n"[..], b"\n", b"b\rc\n", b"d"]);
        // An end, and a return before it, lie across the block's end.
        let bytes = [&vec![b'x'; BLOCK_LEN - 1][..], b"\r\nab\n", &vec![b'y'; BLOCK_LEN]].concat();
        let lens: Vec<_> = all_lines_by(ends, &bytes).iter().map(Vec::len).collect();
        assert_eq!(lens, [BLOCK_LEN + 1, 3, BLOCK_LEN]);
        // As many lines as a block can have.
        assert_eq!(all_lines_by(ends, &b"\n".repeat(2 * BLOCK_LEN)).len(), 2 * BLOCK_LEN);
    }
}

#[test]
fn advice_for_files_with_short_ends() {
    let advice = |bytes: &[u8], ends| {
        Source::open_with(file_of(bytes).path(), ends).unwrap().advice().unwrap()
    };
    let told = advice(b"a\nb\n", LineEnds::Crlf).unwrap();
    assert!(told.ends_with("use --lines lf"), "{told}");
    assert_eq!(advice(b"a\nb\n", LineEnds::Lf), None);
    for fine in [&b""[..], b"a", b"\r", b"a\nb\r\n"] {
        assert_eq!(advice(fine, LineEnds::Crlf), None);
    }
    let long = file_of(&b"a\n".repeat(MAX_LINE_LEN));
    let error = Reader::new(Source::open(long.path()).unwrap()).line(0).unwrap_err();
    assert!(error.to_string().ends_with("use --lines lf for \\n"), "{error}");
}

#[test]
fn lines_longer_than_a_block() {
    let mut bytes = vec![b'x'; BLOCK_LEN - 3];
    bytes.extend(b"\r\nab\r\n"); // this end lies across the block's end
    bytes.extend(vec![b'y'; MAX_LINE_LEN - 2]);
    bytes.extend(b"\r\nshort\r\n");
    bytes.extend(vec![b'z'; BLOCK_LEN + 1]);
    let lines = all_lines(&bytes);
    assert_eq!(
        lines.iter().map(Vec::len).collect::<Vec<_>>(),
        [BLOCK_LEN - 1, 4, MAX_LINE_LEN, 7, BLOCK_LEN + 1]
    );
    assert_eq!(lines.concat(), bytes);
}

#[test]
fn a_line_over_the_limit_is_named() {
    let mut bytes = b"first\r\n".to_vec();
    bytes.extend(vec![b'y'; MAX_LINE_LEN - 1]);
    bytes.extend(b"\r\n");
    let file = file_of(&bytes);
    let mut reader = Reader::new(Source::open(file.path()).unwrap());
    assert!(reader.line(0).unwrap().is_some());
    let error = reader.line(1).unwrap_err();
    assert!(matches!(error, TransferError::LineTooLong { number: 1, offset: 7, .. }), "{error}");
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Source::open(folder.path()).unwrap_err();
    assert!(matches!(error, TransferError::NotAFile { .. }), "{error}");
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = Source::open(&pipe).unwrap_err();
    assert!(matches!(error, TransferError::NotAFile { .. }), "{error}");
    let error = Source::open(&folder.path().join("none")).unwrap_err();
    assert!(error.to_string().starts_with("cannot open "), "{error}");
}

/// Whichever way the file is changed, the lines behind the change are refused.
#[test]
fn a_change_is_noticed() {
    let bytes = b"0123456789\r\n".repeat(BLOCK_LEN / 4);
    let lines = BLOCK_LEN as u64 / 4;
    for change in [
        |file: &File| file.set_len(BLOCK_LEN as u64 + 5),
        |file: &File| file.set_len(0),
        |file: &File| file.write_at(b"more", 12 * BLOCK_LEN as u64 / 4).map(drop),
        |file: &File| {
            file.write_at(b"x", 0)?;
            // Two changes within one tick of the file system's clock could look the same.
            file.set_modified(std::time::SystemTime::UNIX_EPOCH)
        },
    ] {
        let file = file_of(&bytes);
        let mut reader = Reader::new(Source::open(file.path()).unwrap());
        assert_eq!(reader.line(0).unwrap(), Some(&b"0123456789\r\n"[..]));
        change(file.as_file()).unwrap();
        let error = reader.line(lines - 1).unwrap_err();
        assert!(matches!(error, TransferError::SourceChanged { .. }), "{error}");
    }
}

#[test]
fn seeks_by_number() {
    let file = file_of(&b"abc\r\n".repeat(200_000));
    let source = Source::open(file.path()).unwrap();
    source.seek(0).unwrap();
    source.seek(150_000).unwrap();
    assert_eq!(source.count(), None);
    source.seek(200_000).unwrap();
    let error = source.seek(200_001).unwrap_err();
    assert!(matches!(error, TransferError::NoSuchLine { count: 200_000, .. }), "{error}");
}

/// Many readers, each somewhere else: every line is right, and memory stays bounded.
#[test]
fn readers_far_apart() {
    let mut bytes = Vec::new();
    for number in 0..400_000 {
        write!(bytes, "line {number}\r\n").unwrap();
    }
    let file = file_of(&bytes);
    let source = Source::open(file.path()).unwrap();
    let readers: Vec<_> = (0..8u64)
        .map(|start| {
            let mut reader = Reader::new(Arc::clone(&source));
            std::thread::spawn(move || {
                for step in 0..20_000 {
                    let number = (start * 50_000 + step * 7) % 400_000;
                    let line = reader.line(number).unwrap().unwrap();
                    assert_eq!(line, format!("line {number}\r\n").as_bytes());
                }
            })
        })
        .collect();
    for reader in readers {
        reader.join().unwrap();
    }
    assert!(source.spare().len() <= CACHED_BLOCKS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The lines put together are the file, whatever it holds, and each but the last has its end.
    #[test]
    fn lines_are_the_file(
        parts in proptest::collection::vec(("[a\r\n]{0,9}", 1..30_000usize), 0..12),
    ) {
        let bytes: Vec<u8> =
            parts.iter().flat_map(|(text, times)| text.repeat(*times).into_bytes()).collect();
        let text = std::str::from_utf8(&bytes).unwrap();
        let longest = text.split("\r\n").map(str::len).max().unwrap_or(0);
        prop_assume!(longest + 2 <= MAX_LINE_LEN);
        let lines = all_lines(&bytes);
        prop_assert_eq!(lines.concat(), bytes);
        for (at, line) in lines.iter().enumerate() {
            let ends = line.windows(2).filter(|pair| *pair == b"\r\n").count();
            prop_assert!(ends == 1 && line.ends_with(b"\r\n") || ends == 0 && at + 1 == lines.len());
        }
    }
}

#[test]
fn blocks_are_read_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines");
    crate::generate::generate(&path, 2_000_000, 1, false, &mut |_| {}).unwrap();
    let source = Source::open(&path).unwrap();
    source.read_ahead().unwrap();
    source.read_ahead().unwrap();
    let mut reader = Reader::new(Arc::clone(&source));
    reader.line(0).unwrap().unwrap();
    while source.state().cached(1).is_none() {
        std::thread::yield_now();
    }
    let (mut number, mut bytes) = (0, Vec::new());
    while let Some(line) = reader.line(number).unwrap() {
        bytes.extend_from_slice(line);
        number += 1;
    }
    assert!(bytes == std::fs::read(&path).unwrap());
    // The thread does not keep the source.
    let left = Arc::downgrade(&source);
    drop((source, reader));
    while left.upgrade().is_some() {
        std::thread::yield_now();
    }
}
