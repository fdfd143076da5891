//! Runs of simple values: texts of up to 31 ASCII characters without escapes, numbers of few
//! digits, `true`, `false` and `null`, with no white space between them.

use super::JsonToHessian;
use crate::encode::{put_double, put_int, put_long};
use crate::transcode::run::{NOTHING, Room, RunStep, run};
use crate::{JavaType, tag};
use java_json::ascii;
use java_json::builtin::Builtin;
use java_json::json::{LEAF_LEN, LeafRoom, MemberName, Sequence, Short, short_number};
use java_json::short_copy::push_front;

/// Beside a quote, as many bytes as are copied at once.
const CHUNK_LEN: usize = 1 + 32;

/// What simple values of a type are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rule {
    /// Whatever they look like.
    Any,
    Text,
    Boolean,
    Int,
    Long,
    Double,
    /// None of this type is.
    Never,
}

impl Rule {
    pub(super) fn of(ty: Option<&JavaType>) -> Self {
        let builtin = match ty {
            None => Some(Builtin::Any),
            Some(JavaType::Class(class)) => class.builtin(),
            Some(JavaType::Boolean) => Some(Builtin::Boolean),
            Some(JavaType::Int) => Some(Builtin::Int),
            Some(JavaType::Long) => Some(Builtin::Long),
            Some(JavaType::Double) => Some(Builtin::Double),
            Some(_) => None,
        };
        match builtin {
            Some(Builtin::Any) => Self::Any,
            Some(Builtin::String) => Self::Text,
            Some(Builtin::Boolean) => Self::Boolean,
            Some(Builtin::Int) => Self::Int,
            Some(Builtin::Long) => Self::Long,
            Some(Builtin::Double) => Self::Double,
            _ => Self::Never,
        }
    }
}

impl JsonToHessian<'_, '_, '_, '_, '_> {
    /// Writes the next value if it is simple, and of unknown type. Nothing is read of any other.
    #[inline]
    pub(super) fn simple(&mut self) -> bool {
        let Some(chunk) = self.json.rest().first_chunk() else { return self.plain() };
        let mut place = [0; LEAF_LEN];
        let (n_taken, n_put) = put(&mut place, chunk, Rule::Any, self.max_text_len());
        if n_taken == 0 {
            return self.plain();
        }
        push_front(self.enc.buffer(), &place, n_put);
        self.json.jump(self.json.position() + n_taken);
        true
    }

    /// Writes the simple values of members that have the next names of a known class, and says how
    /// many they were.
    pub(super) fn run_members(
        &mut self,
        object: &mut Sequence,
        members: &[(MemberName, Rule)],
    ) -> usize {
        let (rest, max_text_len) = (self.json.rest(), self.max_text_len());
        let is_next = |(lead, rule): &(MemberName, Rule)| {
            *rule != Rule::Never && rest.first_chunk().is_some_and(|text| lead.len_at(text) != 0)
        };
        if !self.has_runs || !members.first().is_some_and(is_next) {
            return 0;
        }
        let step = |n: usize, room: &mut Room, input: &[u8]| {
            let (Some((lead, rule)), Some(text)) = (members.get(n), input.first_chunk()) else {
                return NOTHING;
            };
            let len = lead.len_at(text);
            let Some(chunk) = input.get(len..).and_then(<[u8]>::first_chunk) else {
                return NOTHING;
            };
            let (n_taken, n_put) = put_first(room, chunk, *rule, max_text_len);
            if len == 0 || n_taken == 0 { NOTHING } else { (len + n_taken, n_put) }
        };
        let n_wanted = members.len().min(self.json.items_left());
        let (n, n_taken) = run(rest, self.enc.buffer(), usize::MAX, n_wanted, step);
        self.json.pass(object, n_taken, n);
        n
    }

    /// Writes the simple values of elements after the first, and says how many they were.
    pub(super) fn run_elements(&mut self, array: &mut Sequence, rule: Rule) -> usize {
        let (rest, max_text_len) = (self.json.rest(), self.max_text_len());
        let is_simple = rest.get(1).is_some_and(|&byte| may_be_simple(byte));
        if !self.has_runs || !is_simple || rule == Rule::Never {
            return 0;
        }
        let step = |_: usize, room: &mut Room, input: &[u8]| {
            let Some((b',', after)) = input.split_first() else { return NOTHING };
            let Some(chunk) = after.first_chunk() else { return NOTHING };
            let (n_taken, n_put) = put_first(room, chunk, rule, max_text_len);
            if n_taken == 0 { NOTHING } else { (1 + n_taken, n_put) }
        };
        let n_wanted = self.json.items_left();
        let (n, n_taken) = run(rest, self.enc.buffer(), usize::MAX, n_wanted, step);
        self.json.pass(array, n_taken, n);
        n
    }

    /// Writes the entries of a map of texts whose names and values are simple.
    pub(super) fn run_entries(&mut self, object: &mut Sequence, rule: Rule) {
        let (rest, max_text_len) = (self.json.rest(), self.max_text_len());
        let n_commas = usize::from(!object.is_first());
        if !self.has_runs || rest.get(n_commas) != Some(&b'"') || rule == Rule::Never {
            return;
        }
        let step = |n: usize, room: &mut Room, input: &[u8]| {
            let at = if n == 0 { n_commas } else { 1 };
            let Some(key) = input.get(at..).and_then(<[u8]>::first_chunk) else { return NOTHING };
            if at == 1 && input.first() != Some(&b',') {
                return NOTHING;
            }
            let (n_key, key_len) = put_first(room, key, Rule::Text, max_text_len);
            let after = input.get(at + n_key..).unwrap_or_default();
            let (Some((b':', after)), 1..) = (after.split_first(), n_key) else { return NOTHING };
            let place = room.get_mut(key_len..).and_then(<[u8]>::first_chunk_mut);
            let (Some(place), Some(chunk)) = (place, after.first_chunk()) else { return NOTHING };
            let (n_value, value_len) = put(place, chunk, rule, max_text_len);
            // A text that is no name is no key, although a null may be.
            if n_value == 0 || key[0] != b'"' {
                return NOTHING;
            }
            (at + n_key + 1 + n_value, key_len + value_len)
        };
        let n_wanted = self.json.items_left();
        let (n, n_taken) = run(rest, self.enc.buffer(), usize::MAX, n_wanted, step);
        self.json.pass(object, n_taken, n);
    }

    /// A simple text or number of a type that it fits. Nothing is read of any other value.
    pub(super) fn simple_of(&mut self, ty: &JavaType) -> bool {
        let builtin = match ty {
            JavaType::Class(class) => class.builtin(),
            JavaType::Int => Some(Builtin::Int),
            JavaType::Long => Some(Builtin::Long),
            JavaType::Double => Some(Builtin::Double),
            _ => None,
        };
        match (builtin, self.json.byte()) {
            (Some(Builtin::Any), _) | (Some(Builtin::String), Some(b'"')) => self.plain(),
            (
                Some(builtin @ (Builtin::Int | Builtin::Long | Builtin::Double)),
                Some(b'-' | b'0'..=b'9'),
            ) => self.simple_number(builtin),
            _ => false,
        }
    }

    fn simple_number(&mut self, builtin: Builtin) -> bool {
        let start = self.json.position();
        match (builtin, self.json.read_short_number()) {
            (Builtin::Int, Some(Short::Int(value))) if i32::try_from(value).is_ok() => {
                self.enc.int(i32::try_from(value).unwrap_or_default());
            }
            (Builtin::Long, Some(Short::Int(value))) => self.enc.long(value),
            (Builtin::Double, Some(Short::Double(value))) => self.enc.double(value),
            _ => {
                self.json.jump(start);
                return false;
            }
        }
        true
    }

    /// An ASCII text without escapes, or a number of few digits, of unknown type, with no white
    /// space before it. Nothing is read of any other value.
    pub(super) fn plain(&mut self) -> bool {
        match self.json.byte() {
            Some(b'"') => match self.json.take_plain_ascii() {
                Some(text) => self.enc.ascii(text),
                None => return false,
            },
            Some(b'-' | b'0'..=b'9') if self.has_decimals => return false,
            Some(b'-' | b'0'..=b'9') => match self.json.read_short_number() {
                Some(number) => self.number(number),
                None => return false,
            },
            _ => return false,
        }
        true
    }

    #[inline]
    pub(super) fn number(&mut self, number: Short) {
        match number {
            Short::Int(value) => match i32::try_from(value) {
                Ok(value) => self.enc.int(value),
                Err(_) => self.enc.long(value),
            },
            Short::Double(value) => self.enc.double(value),
        }
    }

    #[inline]
    fn max_text_len(&self) -> usize {
        self.json.max_len().min(tag::STRING_DIRECT_MAX)
    }
}

fn may_be_simple(byte: u8) -> bool {
    matches!(byte, b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
}

#[inline]
fn put_first(room: &mut Room, chunk: &[u8; CHUNK_LEN], rule: Rule, max_text_len: usize) -> RunStep {
    match room.first_chunk_mut() {
        Some(place) => put(place, chunk, rule, max_text_len),
        None => NOTHING,
    }
}

/// Puts the value at the front of the chunk, if it is simple.
#[inline]
fn put(place: &mut LeafRoom, chunk: &[u8; CHUNK_LEN], rule: Rule, max_text_len: usize) -> RunStep {
    let [first, text @ ..] = chunk;
    if *first != b'"' {
        return put_scalar(place, chunk, rule);
    }
    let len = ascii::plain_len(text);
    let is_text = matches!(rule, Rule::Any | Rule::Text);
    if !is_text || max_text_len < len || text.get(len) != Some(&b'"') {
        return NOTHING;
    }
    let [head, inside @ ..] = place;
    #[expect(clippy::cast_possible_truncation, reason = "at most 31")]
    let byte = len as u8;
    *head = byte;
    if let Some(inside) = inside.first_chunk_mut() {
        *inside = *text;
    }
    (len + 2, len + 1)
}

/// Puts the number or word at the front of the chunk.
#[inline(never)]
fn put_scalar(place: &mut LeafRoom, chunk: &[u8; CHUNK_LEN], rule: Rule) -> RunStep {
    let is_bool = matches!(rule, Rule::Any | Rule::Boolean);
    match chunk {
        [b't', b'r', b'u', b'e', ..] if is_bool => {
            place[0] = tag::TRUE;
            return (4, 1);
        }
        [b'f', b'a', b'l', b's', b'e', ..] if is_bool => {
            place[0] = tag::FALSE;
            return (5, 1);
        }
        [b'n', b'u', b'l', b'l', ..] if matches!(rule, Rule::Any | Rule::Text) => {
            place[0] = tag::NULL;
            return (4, 1);
        }
        _ => {}
    }
    let Some((number, n_taken)) = short_number(chunk) else { return NOTHING };
    let n_put = match (rule, number) {
        (Rule::Any | Rule::Int, Short::Int(value)) if i32::try_from(value).is_ok() => {
            put_int(place, i32::try_from(value).unwrap_or_default())
        }
        (Rule::Any | Rule::Long, Short::Int(value)) => put_long(place, value),
        (Rule::Any | Rule::Double, Short::Double(value)) => put_double(place, value),
        _ => return NOTHING,
    };
    (n_taken, n_put)
}
