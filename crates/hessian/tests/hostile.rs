//! Bytes and texts that mean harm: each is refused by an error that names rule and place, and none
//! takes more memory than the limits allow.
#![expect(unsafe_code, reason = "an allocator that counts, for the tests of memory")]

mod counting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use counting::peak;
use hessian::json::JsonReader;
use hessian::transcode::{
    InputOptions, JsonOptions, OutRoom, RefStyle, TextRoom, TranscodeError, hessian_to_json,
    json_to_hessian_by,
};
use hessian::{Decoder, Encoder, JavaType, Limits, write_int, write_string};

fn to_json(bytes: &[u8], opts: &JsonOptions) -> Result<usize, TranscodeError> {
    let mut out = Vec::new();
    hessian_to_json(&mut Decoder::new(bytes, Limits::default()), &mut out, opts)?;
    Ok(out.len())
}

fn from_json(text: &[u8], ty: Option<&JavaType>, refs: bool) -> Result<usize, TranscodeError> {
    let mut out = Vec::new();
    let mut reader = JsonReader::new(text, Limits::default());
    let input = InputOptions { refs, ..InputOptions::default() };
    json_to_hessian_by(&mut reader, ty, &mut Encoder::new(&mut out), &input)?;
    reader.finish()?;
    Ok(out.len())
}

/// Every way of reading refuses the bytes; the error has this offset and these words. A few bytes
/// never make more than a few KiB.
#[track_caller]
fn refused(what: &str, bytes: &[u8], offset: usize, rule: &str) {
    let (error, n_bytes) = peak(|| to_json(bytes, &JsonOptions::default()).unwrap_err());
    let text = error.to_string();
    assert!(error.offset() == offset && text.contains(rule), "{what}: {text} ({})", error.offset());
    assert!(text.contains(&offset.to_string()), "{what}: {text}");
    assert!(n_bytes < 4096 + 8 * bytes.len(), "{what}: {n_bytes} bytes");
    let (result, n_bytes) = peak(|| Decoder::new(bytes, Limits::default()).read_value().is_err());
    assert!(result && n_bytes < 65_536 + 64 * bytes.len(), "{what}: {n_bytes} bytes");
}

#[test]
fn lengths_that_are_lies() {
    let huge = |head: &[u8]| [head, b"I\x7f\xff\xff\xff"].concat();
    refused("a list", &huge(b"\x58"), 1, "longer than the bytes that follow");
    refused("a typed list", &huge(b"V\x04[int"), 6, "longer than the bytes that follow");
    refused("a negative list", b"\x58I\xff\xff\xff\xff", 1, "negative");
    refused("fields", &huge(b"C\x01a"), 3, "longer than the bytes that follow");
    refused("negative fields", b"C\x01aI\x80\0\0\0", 3, "negative");
    refused("text", b"S\xff\xffabc", 3, "65532 more bytes");
    refused("binary", b"B\xff\xffabc", 3, "65532 more bytes");
    refused("chunks without an end", &b"R\0\x01a".repeat(1000), 4000, "1 more bytes");
    let too_long = b"R\xff\xff".iter().copied().chain(std::iter::repeat_n(b'a', 0xffff));
    let too_long: Vec<u8> = too_long.collect::<Vec<_>>().repeat(129);
    refused("9 MiB of text", &too_long, 0, "limit of 8388608");
}

#[test]
fn numbers_that_lead_nowhere() {
    refused("class", b"\x60", 0, "class definition 0");
    refused("class", b"C\x01a\x90Oa", 5, "an int");
    refused("class", b"C\x01a\x90O\x91", 4, "class definition 1");
    refused("class", b"OI\xff\xff\xff\xff", 0, "class definition -1");
    refused("type", b"V\x91\x90", 1, "type number 1");
    refused("type", b"M\x8fZ", 1, "type number -1");
    refused("reference", b"\x51\x90", 0, "reference 0");
    refused("reference", b"\x79\x51\x91", 1, "reference 1");
    refused("reference", b"\x79\x51I\x80\0\0\0", 1, "reference -2147483648");
}

#[test]
fn tags_that_mean_nothing_there() {
    refused("no value", b"G", 0, "start of a value");
    refused("an end", b"Z", 0, "start of a value");
    refused("a type that is a list", b"M\x78Z", 1, "an int");
    refused("a field's name that is null", b"C\x01a\x91N", 4, "a string");
    refused("a chunk that goes on as binary", b"R\0\x01aB\0\x01a", 4, "a string");
    refused("a definition without an object", b"C\x01a\x90", 4, "1 more bytes");
    refused("half a map", b"H\x01aZ", 3, "start of a value");
}

#[test]
fn text_that_is_none() {
    refused("a stray byte", b"\x01\xff", 0, "UTF-8");
    refused("an overlong form", b"\x01\xc0\x80", 0, "UTF-8");
    refused("beyond Unicode", b"\x02\xf5\x80\x80\x80", 0, "UTF-8");
    refused("inside a list", b"\x7a\x90\x02a\xff", 2, "UTF-8");
    refused("as a class", b"C\x01\xff\x90\x60", 1, "UTF-8");
    // Half a pair is Java's own way to write half a pair.
    assert_eq!(to_json(b"\x01\xed\xa0\x80", &JsonOptions::default()), Ok("\"\u{fffd}\"".len()));
}

#[test]
fn depth_ends_at_the_limit() {
    refused("lists", &b"\x79".repeat(100_000), 64, "deeper than 64");
    refused("maps", &b"H\x90".repeat(100_000), 128, "deeper than 64");
    let objects: Vec<u8> = [b"C\x01a\x91\x01b".to_vec(), b"\x60".repeat(100_000)].concat();
    refused("objects", &objects, 70, "deeper than 64");
    refused("map keys", &b"H".repeat(100_000), 64, "deeper than 64");
    let open = "[".repeat(100_000);
    let error = from_json(open.as_bytes(), None, false).unwrap_err();
    assert_eq!((error.offset(), error.to_string().contains("64 levels")), (64, true), "{error}");
}

/// What one byte of a message may cost, at most: a class definition's field, an element of a tree.
const PER_ITEM: usize = 64;

#[test]
fn memory_stays_within_the_limits() {
    // Smaller ones than the default, for the sake of time.
    const LEN: usize = 1 << 20;
    let limits = Limits { max_items: LEN / 8, max_len: LEN, ..Limits::default() };
    let max = PER_ITEM * limits.max_items + 2 * limits.max_len;
    let filled = |head: &[u8], fill: u8| {
        let mut out = head.to_vec();
        write_int(&mut out, 1_000_000);
        out.resize(LEN, fill);
        out
    };
    let types = (0..100_000).fold(b"\x57".to_vec(), |mut out, n: u32| {
        out.push(b'\x70');
        write_string(&mut out, &n.to_string());
        out
    });
    for (what, bytes) in [
        ("fields", filled(b"C\x01a", 0)),
        ("definitions", b"C\0\x90".repeat(LEN / 3)),
        ("nulls", filled(b"\x58", b'N')),
        ("lists", filled(b"\x58", b'\x78')),
        ("types", types),
    ] {
        let json = |out: &mut Vec<u8>| {
            let mut decoder = Decoder::new(&bytes, limits);
            hessian_to_json(&mut decoder, out, &JsonOptions::default()).is_err()
        };
        let (is_refused, n_bytes) = peak(|| json(&mut Vec::new()));
        assert!(is_refused && n_bytes < max, "{what} to JSON: {n_bytes}");
        let (result, n_bytes) = peak(|| Decoder::new(&bytes, limits).skip_value());
        assert!(result.is_err() && n_bytes < max, "{what} skipped: {n_bytes}");
        let (_, n_bytes) = peak(|| Decoder::new(&bytes, limits).read_value().is_err());
        // A tree is for tests and tools, and has larger elements.
        assert!(n_bytes < 4 * max, "{what} as a tree: {n_bytes}");
    }
}

#[test]
fn references_that_repeat_without_end_are_cut() {
    // Each list holds the one before twice: 2^60 elements in 300 bytes.
    let mut laughs = vec![0x57];
    laughs.extend(b"\x57\x90Z");
    for n in 1..60 {
        laughs.push(0x57);
        for _ in 0..2 {
            laughs.push(0x51);
            write_int(&mut laughs, n);
        }
        laughs.push(b'Z');
    }
    laughs.push(b'Z');
    let opts = JsonOptions { max_out_len: 1 << 20, ..JsonOptions::default() };
    let (error, n_bytes) = peak(|| to_json(&laughs, &opts).unwrap_err());
    let rule = error.to_string();
    assert!(rule.contains("1048576") || rule.contains("deeper"), "{rule}");
    assert!(n_bytes < 4 << 20, "{n_bytes}");
    let paths = JsonOptions { refs: RefStyle::Path, ..opts };
    let (len, n_bytes) = peak(|| to_json(&laughs, &paths));
    assert!(len.is_ok_and(|len| len < 10_000) && n_bytes < 65_536, "{n_bytes}");
}

/// `n` orders in a list: `write` writes the fields of each; the customer is a reference to that of
/// the first one, of 1 kB.
fn orders(n: usize, fields: &[&str], write: impl Fn(&mut Encoder<'_>, usize)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.list_begin(None, n);
    let names: Vec<&str> = fields.iter().copied().chain(["customer"]).collect();
    for index in 0..n {
        encoder.object_begin("com.acme.Order", &names);
        write(&mut encoder, index);
        if index == 0 {
            encoder.object_begin("com.acme.Customer", &["name", "address"]);
            encoder.string("Ann");
            encoder.string(&"a".repeat(1000));
        } else {
            // The list is number 0, the first order 1, its customer 2.
            encoder.reference(2);
        }
    }
    bytes
}

/// Graphs of objects as programs have them are within the limit, and so is all that has no
/// references. What they expand to is what the limit was chosen by.
#[test]
fn what_programs_send_is_within_the_limit() {
    let long_names: Vec<String> = (0..20).map(|n| format!("{}{n}", "name".repeat(12))).collect();
    let long_names: Vec<&str> = long_names.iter().map(|name| &**name).collect();
    let cases = [
        ("no field but a shared one", orders(10_000, &[], |_, _| {}), 340),
        (
            "a number and a shared field",
            orders(10_000, &["id"], |out, index| out.int(100_000 + i32::try_from(index).unwrap())),
            180,
        ),
        (
            "an order",
            orders(10_000, &["id", "at", "status", "total"], |out, index| {
                out.long(7_000_000_000 + i64::try_from(index).unwrap());
                out.date_ms(1_704_164_645_678);
                out.string("DELIVERED");
                out.double(19.95);
            }),
            32,
        ),
        (
            "20 fields of long names that are null",
            orders(10_000, &long_names, |out, _| (0..20).for_each(|_| out.null())),
            96,
        ),
        ("nulls", [b"X\x49\x00\x0f\xff\xff".to_vec(), vec![b'N'; 0xf_ffff]].concat(), 6),
        (
            "control characters",
            {
                let mut bytes = Vec::new();
                write_string(&mut bytes, &"\u{1}".repeat(8_000_000));
                bytes
            },
            6,
        ),
    ];
    for (what, bytes, times) in cases {
        let opts = JsonOptions { max_out_len: usize::MAX, ..JsonOptions::default() };
        let len = to_json(&bytes, &opts).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(len <= times * bytes.len(), "{what}: {len} of {}", bytes.len());
        assert!(times / 2 * bytes.len() < len, "{what}: {len} of {}", bytes.len());
        assert!(len <= JsonOptions::max_len_of(bytes.len()), "{what}: {len} of {}", bytes.len());
    }
}

/// Grants a text so much at a time, up to a limit, and counts how much that is.
struct Granted {
    most: AtomicUsize,
    max: usize,
}

impl TextRoom for Granted {
    fn extend(&self, len: usize) -> Option<usize> {
        let end = (len + 4096).min(self.max);
        self.most.fetch_max(end, Ordering::Relaxed);
        (len <= end).then_some(end)
    }
}

/// Whatever makes a text long, there is never more of it than was granted, but for one value.
#[test]
fn a_text_asks_for_room_while_it_grows() {
    let mut by_maps = b"\x57H\x01k\x30\xc8".to_vec();
    by_maps.extend([b'v'; 200]);
    by_maps.push(b'Z');
    let mut by_classes = b"\x57C".to_vec();
    write_string(&mut by_classes, &"c".repeat(5000));
    by_classes.extend(b"\x91\x01a");
    let mut by_lists = vec![0x57];
    for n in 0..40 {
        by_lists.push(0x57);
        if n == 0 {
            by_lists.extend(b"\x01x");
        } else {
            for _ in 0..3 {
                by_lists.push(0x51);
                write_int(&mut by_lists, n);
            }
        }
        by_lists.push(b'Z');
    }
    by_maps.extend(b"\x51\x91".repeat(10_000));
    by_classes.extend(b"\x60N".repeat(10_000));
    for bytes in [&mut by_maps, &mut by_classes, &mut by_lists] {
        bytes.push(b'Z');
    }
    for bytes in [by_maps, by_classes, by_lists] {
        let room = Arc::new(Granted { most: AtomicUsize::new(0), max: 1 << 20 });
        let granted: Arc<dyn TextRoom> = Arc::<Granted>::clone(&room);
        let opts = JsonOptions {
            class_name: true,
            max_out_len: usize::MAX,
            room: Some(OutRoom(granted)),
            ..JsonOptions::default()
        };
        let mut out = Vec::new();
        let mut decoder = Decoder::new(&bytes, Limits::default());
        let error = hessian_to_json(&mut decoder, &mut out, &opts).unwrap_err();
        assert!(matches!(error, TranscodeError::OutputLen { .. }), "{error}");
        let most = room.most.load(Ordering::Relaxed);
        assert!(out.len() <= most + 16 * 1024 && most == 1 << 20, "{} of {most}", out.len());
    }
}

#[test]
fn long_paths_of_references_are_cut() {
    // A reference of three bytes to what stands under a name of 60,000.
    let mut bytes = b"\x57H".to_vec();
    write_string(&mut bytes, &"x".repeat(60_000));
    bytes.extend(b"\x78Z");
    bytes.extend(b"\x51\x92".repeat(10_000));
    bytes.push(b'Z');
    let opts = JsonOptions { refs: RefStyle::Path, max_out_len: 1 << 20, ..JsonOptions::default() };
    let (error, n_bytes) = peak(|| to_json(&bytes, &opts).unwrap_err());
    assert!(matches!(error, TranscodeError::OutputLen { .. }), "{error}");
    assert!(n_bytes < 4 << 20, "{n_bytes}");
}

#[test]
fn dates_that_java_does_not_have() {
    const FARTHEST: i64 = 366_000_000_000;
    let read = |day: i64| {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        encoder.object_begin("java.time.LocalDate", &["epochDay"]);
        encoder.long(day);
        to_json(&bytes, &JsonOptions::default())
    };
    for day in [-FARTHEST - 1, FARTHEST + 1, i64::MIN, i64::MAX] {
        let error = read(day).unwrap_err();
        assert!(error.to_string().contains("java.time"), "{day}: {error}");
    }
    assert!(read(-FARTHEST).is_ok() && read(FARTHEST).is_ok());
}

#[test]
fn json_that_is_none_names_its_place() {
    for (text, offset, rule) in [
        (&b"\"\\ud800\""[..], 1, "surrogate"),
        (b"[\"a\\udc00\"]", 3, "surrogate"),
        (b"\"\\ud800\\ud800\"", 1, "surrogate"),
        (b"\"\xff\"", 1, "UTF-8"),
        (b"\"\xed\xa0\x80\"", 1, "UTF-8"),
        (b"{\"\xff\":1}", 2, "UTF-8"),
        (b"\"\x01\"", 1, "control"),
        (b"[1,2", 4, "end"),
        (b"{\"a\" 1}", 5, "colon"),
        (b"01", 0, "number"),
        (b"[NaN]", 1, "value"),
    ] {
        let error = from_json(text, None, false).unwrap_err();
        let message = error.to_string();
        let what = text.escape_ascii();
        assert!(error.offset() == offset, "{what}: {message} ({})", error.offset());
        assert!(
            message.contains(rule) && message.contains(&offset.to_string()),
            "{what}: {message}"
        );
    }
    let long = [&b"\""[..], &b"x".repeat((8 << 20) + 1), b"\""].concat();
    let (error, n_bytes) = peak(|| from_json(&long, None, false).unwrap_err());
    assert!(error.to_string().contains("8388608") && n_bytes < 4096, "{error}: {n_bytes}");
}

#[test]
fn json_takes_memory_by_its_length() {
    let many = |item: &str| format!("[{}1]", format!("{item},").repeat(100_000));
    for (what, text, ty) in [
        ("numbers", many("1"), None),
        ("objects", many("{}"), Some("java.util.List<a.B>")),
        ("big numbers", many("1e-400"), None),
        ("members", format!("{{{}\"z\":1}}", "\"\":1,".repeat(100_000)), Some("a.B")),
        ("paths", format!("[[],{{\"$ref\":\"${}\"}}]", "[0]".repeat(100_000)), None),
        ("nested", format!("{}{}", "[{\"a\":".repeat(31), "}]".repeat(31)), Some("a.B[]")),
    ] {
        let ty = ty.map(|ty| JavaType::parse(ty).unwrap());
        let (result, n_bytes) = peak(|| from_json(text.as_bytes(), ty.as_ref(), true));
        let max = 32 * text.len() + PER_ITEM * 100_000;
        assert!(n_bytes < max, "{what}: {n_bytes} bytes for {} ({result:?})", text.len());
    }
}

#[test]
fn descriptors_that_are_none_name_their_place() {
    for (text, offset) in [
        ("Ljava/lang/String", 17),
        ("IX", 1),
        ("[", 1),
        ("L;", 1),
        ("Ljava lang;", 5),
        ("I;", 1),
        ("Lé;V!", 5),
    ] {
        let error = JavaType::parse_descriptors(text).unwrap_err().to_string();
        assert!(error.contains(&format!("byte {offset}")), "{text}: {error}");
    }
    for text in ["java.util.List<", "java.util.List<int", "a<b>>", "a[", "a b", "", "a..", "<"] {
        assert!(JavaType::parse(text).is_err(), "{text}");
    }
    for (n, words) in [(4000, ["32 levels", "ends"]), (100_000, ["8192", "8192"])] {
        for deep in ["[".repeat(n), "a<".repeat(n), "a".to_owned() + &"[]".repeat(n)] {
            let (result, n_bytes) = peak(|| JavaType::parse(&deep));
            let message = result.unwrap_err().to_string();
            assert!(words.iter().any(|part| message.contains(part)), "{message}");
            assert!(n_bytes < 8192, "{n_bytes}");
        }
    }
    let long = format!("[La/{};", "b".repeat(JavaType::MAX_NAME_LEN));
    let error = JavaType::parse(&long).unwrap_err().to_string();
    assert_eq!(error, "the name at byte 2 is longer than 1024 bytes");
    let many = "I".repeat(1_000_000);
    let (result, n_bytes) = peak(|| JavaType::parse_descriptors(&many));
    assert!(result.is_err() && n_bytes < 65_536, "{n_bytes}");
}
