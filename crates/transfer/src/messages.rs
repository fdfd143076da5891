//! The messages of a transfer, as bytes. No socket here; `docs/transfer.md` says when which is
//! sent.
//!
//! All numbers are unsigned (but for one) and big endian, as on the link. A message has exactly
//! the length that its fields have; the last field of some takes the rest.

use bytes::BufMut;

use crate::TransferError;
use crate::checksum::Totals;
use crate::handout::{Handed, LineRequest};
use crate::line_step::LineStep;
use crate::lines::LineEnds;
use crate::source::SourceIdentity;

/// A message of fixed form.
pub trait Message: Sized {
    /// Appends the message to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads a message, which is all of `bytes`.
    ///
    /// # Errors
    /// [`TransferError::BadMessage`] if its length or a field is wrong;
    /// [`TransferError::UnknownProcess`].
    fn decode(bytes: &[u8]) -> Result<Self, TransferError>;
}

/// Client to server: begin a transfer. The answer is [`OpenReply`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OpenRequest {
    /// The first line wanted.
    pub first: u64,
    /// How many callers will ask.
    pub callers: u32,
    /// What the server does to each line.
    pub step: LineStep,
}

/// Server to client: a transfer has begun.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OpenReply {
    /// The transfer's number, which no other one has had.
    pub session: u64,
    /// The source.
    pub source: SourceIdentity,
}

/// Client to server: a caller's request for a line. The answer is a [`NextReply`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NextRequest {
    /// From [`OpenReply`].
    pub session: u64,
    /// Who asks, for the how-manieth time.
    pub ask: LineRequest,
}

/// Client to server: is anybody there? The answer is a [`LookReply`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LookRequest {
    /// From [`OpenReply`], or 0 for none.
    pub session: u64,
}

/// Server to client: what there is, and how far a transfer is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LookReply {
    /// The source.
    pub source: SourceIdentity,
    /// How far into the source lines have been handed out, in bytes, to a block; 0 without a
    /// session.
    pub offset: u64,
}

/// Server to client: why a request is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// What a client can do about it.
    pub code: RefusalCode,
    /// The same for people.
    pub text: String,
}

/// What a client can do about a [`Refusal`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefusalCode {
    /// Nothing.
    Failed,
    /// Open a new transfer, from the oldest line that is missing: the server has forgotten this
    /// one.
    UnknownSession,
    /// Ask again: the same request is being answered at this moment.
    BeingAnswered,
    /// Come back later: there are as many transfers as the server takes.
    Busy,
}

/// Client to server: every caller has been told of the end. The answer is a [`Totals`], and the
/// server forgets the transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CloseRequest {
    /// From [`OpenReply`].
    pub session: u64,
}

/// Client to server: what do the first lines add up to? The answer is a [`Totals`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BeforeRequest {
    /// How many lines.
    pub lines: u64,
    /// What the server does to each line.
    pub step: LineStep,
}

impl Message for OpenRequest {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first.to_be_bytes());
        out.extend_from_slice(&self.callers.to_be_bytes());
        out.extend_from_slice(self.step.process().name().as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, TransferError> {
        let mut fields = Fields::of("open", bytes);
        let first = u64::from_be_bytes(fields.take()?);
        let callers = u32::from_be_bytes(fields.take()?);
        Ok(Self { first, callers, step: fields.step()? })
    }
}

impl Message for OpenReply {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.session.to_be_bytes());
        out.extend_from_slice(&self.source.len.to_be_bytes());
        out.extend_from_slice(&self.source.modified_ns.to_be_bytes());
        encode_ends(self.source.ends, out);
    }

    fn decode(bytes: &[u8]) -> Result<Self, TransferError> {
        let mut fields = Fields::of("opened", bytes);
        let session = u64::from_be_bytes(fields.take()?);
        let len = u64::from_be_bytes(fields.take()?);
        let modified_ns = i128::from_be_bytes(fields.take()?);
        let ends = fields.ends()?;
        Ok(Self { session, source: SourceIdentity { len, modified_ns, ends } })
    }
}

impl NextRequest {
    /// The length of its encoding.
    pub const LEN: usize = 20;

    /// Its encoding.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let (session, ask) = bytes.split_at_mut(8);
        let (caller, turn) = ask.split_at_mut(4);
        session.copy_from_slice(&self.session.to_be_bytes());
        caller.copy_from_slice(&self.ask.caller.to_be_bytes());
        turn.copy_from_slice(&self.ask.turn.to_be_bytes());
        bytes
    }
}

impl Message for NextRequest {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, TransferError> {
        let mut fields = Fields::of("next", bytes);
        let session = u64::from_be_bytes(fields.take()?);
        let caller = u32::from_be_bytes(fields.take()?);
        let turn = u64::from_be_bytes(fields.take()?);
        fields.end()?;
        Ok(Self { session, ask: LineRequest { caller, turn } })
    }
}

impl Message for LookRequest {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.session.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, TransferError> {
        let mut fields = Fields::of("look", bytes);
        let session = u64::from_be_bytes(fields.take()?);
        fields.end()?;
        Ok(Self { session })
    }
}

impl Message for LookReply {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.source.len.to_be_bytes());
        out.extend_from_slice(&self.source.modified_ns.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        encode_ends(self.source.ends, out);
    }

    fn decode(bytes: &[u8]) -> Result<Self, TransferError> {
        let mut fields = Fields::of("standing", bytes);
        let len = u64::from_be_bytes(fields.take()?);
        let modified_ns = i128::from_be_bytes(fields.take()?);
        let offset = u64::from_be_bytes(fields.take()?);
        let ends = fields.ends()?;
        Ok(Self { source: SourceIdentity { len, modified_ns, ends }, offset })
    }
}

impl Message for Refusal {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.code.number().to_be_bytes());
        out.extend_from_slice(self.text.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, TransferError> {
        let mut fields = Fields::of("refusal", bytes);
        let code = RefusalCode::from_number(u64::from_be_bytes(fields.take()?));
        let text = String::from_utf8_lossy(fields.rest).into_owned();
        Ok(Self { code, text })
    }
}

impl RefusalCode {
    const ALL: [Self; 4] = [Self::Failed, Self::UnknownSession, Self::BeingAnswered, Self::Busy];

    /// As the number of an answer to [`NextRequest`], so that both of the highest bits are set.
    fn number(self) -> u64 {
        let code = match self {
            Self::Failed => 0,
            Self::UnknownSession => 1,
            Self::BeingAnswered => 2,
            Self::Busy => 3,
        };
        code | NextReply::REFUSED
    }

    /// A code of a later version means what it says, but nothing that can be done.
    fn from_number(number: u64) -> Self {
        Self::ALL.into_iter().find(|code| code.number() == number).unwrap_or(Self::Failed)
    }
}

impl From<&TransferError> for Refusal {
    fn from(error: &TransferError) -> Self {
        let code = match error {
            TransferError::UnknownSession { .. } => RefusalCode::UnknownSession,
            TransferError::BeingAnswered { .. } => RefusalCode::BeingAnswered,
            TransferError::TooManyTransfers { .. } => RefusalCode::Busy,
            _ => RefusalCode::Failed,
        };
        Self { code, text: error.to_string() }
    }
}

impl Message for CloseRequest {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.session.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, TransferError> {
        let mut fields = Fields::of("close", bytes);
        let session = u64::from_be_bytes(fields.take()?);
        fields.end()?;
        Ok(Self { session })
    }
}

impl Message for BeforeRequest {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lines.to_be_bytes());
        out.extend_from_slice(self.step.process().name().as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, TransferError> {
        let mut fields = Fields::of("before", bytes);
        let lines = u64::from_be_bytes(fields.take()?);
        Ok(Self { lines, step: fields.step()? })
    }
}

impl Message for Totals {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lines.to_be_bytes());
        out.extend_from_slice(&self.bytes.to_be_bytes());
        out.extend_from_slice(&self.sum.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self, TransferError> {
        let mut fields = Fields::of("totals", bytes);
        let lines = u64::from_be_bytes(fields.take()?);
        let bytes = u64::from_be_bytes(fields.take()?);
        let sum = u64::from_be_bytes(fields.take()?);
        fields.end()?;
        Ok(Self { lines, bytes, sum })
    }
}

impl Handed<'_> {
    /// Appends the answer to `out`: a number, and the line.
    pub fn encode(&self, out: &mut impl BufMut) {
        match self {
            Self::Line { number, line } => {
                out.put_u64(*number);
                out.put_slice(line);
            }
            Self::End { count } => out.put_u64(count | NextReply::END),
        }
    }
}

/// The answer to a [`NextRequest`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NextReply<'a> {
    /// A line, or the end.
    Handed(Handed<'a>),
    /// Neither.
    Refused(Refusal),
}

impl<'a> NextReply<'a> {
    /// Set in the number of an answer that is not a line; the rest of it is the number of lines.
    const END: u64 = 1 << 63;
    /// Both are set in the number of a refusal; the rest of it is the code.
    const REFUSED: u64 = 3 << 62;

    /// Reads an answer; the line stays where it is.
    ///
    /// # Errors
    /// [`TransferError::BadMessage`] if it is too short, or an end that is too long.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, TransferError> {
        let mut fields = Fields::of("line", bytes);
        let number = u64::from_be_bytes(fields.take()?);
        if number & Self::END == 0 {
            return Ok(Self::Handed(Handed::Line { number, line: fields.rest }));
        }
        if number & Self::REFUSED == Self::REFUSED {
            return Refusal::decode(bytes).map(Self::Refused);
        }
        fields.end()?;
        Ok(Self::Handed(Handed::End { count: number & !Self::END }))
    }
}

/// What ends lines, as the last field. Nothing stands for `\r\n`, which is all that earlier
/// versions know: they refuse messages that say more, so they never take lines apart by the wrong
/// rule.
fn encode_ends(ends: LineEnds, out: &mut Vec<u8>) {
    if ends != LineEnds::Crlf {
        out.extend_from_slice(ends.name().as_bytes());
    }
}

/// A message that is being read.
struct Fields<'a> {
    message: &'static str,
    len: usize,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn of(message: &'static str, bytes: &'a [u8]) -> Self {
        Self { message, len: bytes.len(), rest: bytes }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], TransferError> {
        let (field, rest) = self.rest.split_first_chunk().ok_or_else(|| self.bad())?;
        self.rest = rest;
        Ok(*field)
    }

    fn step(&self) -> Result<LineStep, TransferError> {
        // Whoever sends a long name has no step of ours in mind; nothing of it is kept.
        std::str::from_utf8(self.rest)
            .ok()
            .filter(|name| name.len() < 64)
            .ok_or_else(|| self.bad())?
            .parse()
    }

    fn ends(&self) -> Result<LineEnds, TransferError> {
        let named = |ends: &LineEnds| self.rest == ends.name().as_bytes();
        match self.rest {
            [] => Ok(LineEnds::Crlf),
            _ => [LineEnds::Lf, LineEnds::Any].into_iter().find(named).ok_or_else(|| self.bad()),
        }
    }

    fn end(&self) -> Result<(), TransferError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.bad()) }
    }

    fn bad(&self) -> TransferError {
        TransferError::BadMessage { message: self.message, len: self.len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Debug;

    fn encoded(message: &impl Message) -> Vec<u8> {
        let mut out = Vec::new();
        message.encode(&mut out);
        out
    }

    /// Comes back as it was; and neither is a shorter or longer one a message.
    fn there_and_back<M: Message + Debug + PartialEq>(message: &M) {
        let bytes = encoded(message);
        assert_eq!(&M::decode(&bytes).unwrap(), message);
        for len in 0..bytes.len() {
            assert!(M::decode(&bytes[..len]).is_err());
        }
        assert!(M::decode(&[&bytes[..], b"x"].concat()).is_err());
    }

    #[test]
    fn bytes_of_the_frequent_messages() {
        let next = NextRequest { session: 1, ask: LineRequest { caller: 2, turn: 3 } };
        assert_eq!(encoded(&next), [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
        let mut out = Vec::new();
        Handed::Line { number: 258, line: b"ab\r\n" }.encode(&mut out);
        Handed::End { count: 5 }.encode(&mut out);
        assert_eq!(out, b"\0\0\0\0\0\0\x01\x02ab\r\n\x80\0\0\0\0\0\0\x05");
    }

    /// By the usual rule a message is what earlier versions send and take. By another one it is
    /// longer, and they refuse it.
    #[test]
    fn ends_of_lines_that_are_not_usual() {
        let opened = |ends| OpenReply {
            session: 1,
            source: SourceIdentity { len: 2, modified_ns: 3, ends },
        };
        let usual = encoded(&opened(LineEnds::Crlf));
        assert_eq!(usual.len(), 32);
        for (ends, name) in [(LineEnds::Lf, &b"lf"[..]), (LineEnds::Any, b"any")] {
            let bytes = encoded(&opened(ends));
            assert_eq!(bytes, [&usual, name].concat());
            assert_eq!(OpenReply::decode(&bytes).unwrap(), opened(ends));
            let standing = LookReply { source: opened(ends).source, offset: 4 };
            let bytes = encoded(&standing);
            assert_eq!(bytes.len(), 32 + name.len());
            assert_eq!(LookReply::decode(&bytes).unwrap(), standing);
        }
        for wrong in [&b"l"[..], b"an", b"crlf", b"lfx", b"LF", b"\0"] {
            assert!(OpenReply::decode(&[&usual, wrong].concat()).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn all_messages(a: u64, b: u64, c: u64, d: i128, e: u32, contest: bool) {
            let step = if contest { LineStep::Contest } else { LineStep::Unchanged };
            there_and_back(&OpenRequest { first: a, callers: e, step });
            let source = SourceIdentity { len: b, modified_ns: d, ends: LineEnds::Crlf };
            there_and_back(&OpenReply { session: a, source });
            there_and_back(&NextRequest { session: a, ask: LineRequest { caller: e, turn: b } });
            there_and_back(&CloseRequest { session: a });
            there_and_back(&LookRequest { session: a });
            there_and_back(&LookReply { source, offset: c });
            there_and_back(&BeforeRequest { lines: a, step });
            there_and_back(&Totals { lines: a, bytes: b, sum: c });
        }

        #[test]
        fn all_answers(number in 0..u64::MAX / 4, line: Vec<u8>, text: String) {
            for answer in [Handed::Line { number, line: &line }, Handed::End { count: number }] {
                let mut out = Vec::new();
                answer.encode(&mut out);
                prop_assert_eq!(NextReply::decode(&out).unwrap(), NextReply::Handed(answer));
            }
            for code in RefusalCode::ALL {
                let refusal = Refusal { code, text: text.clone() };
                let out = encoded(&refusal);
                prop_assert_eq!(NextReply::decode(&out).unwrap(), NextReply::Refused(refusal));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = OpenRequest::decode(&bytes);
            let _ = BeforeRequest::decode(&bytes);
            let _ = Refusal::decode(&bytes);
            if let Ok(NextReply::Handed(answer)) = NextReply::decode(&bytes) {
                let mut out = Vec::new();
                answer.encode(&mut out);
                prop_assert_eq!(out, bytes);
            }
        }
    }
}
