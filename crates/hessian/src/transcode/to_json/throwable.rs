//! Java's exceptions.

use std::collections::HashMap;

use super::{HessianToJson, TranscodeError};
use crate::{Name, ObjectCursor, ValueKind, json};

/// What a field of an exception is called in JSON.
pub(super) fn key_of(field: &str) -> &str {
    match field {
        "detailMessage" => "message",
        "suppressedExceptions" => "suppressed",
        other => other,
    }
}

/// A value that may stand under a name, and where it begins.
struct Candidate<'a> {
    field: Name<'a>,
    start: usize,
}

/// How much a value has to say: nothing, or what all exceptions have, or what its class has
/// declared.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Rank {
    Nothing,
    Usual,
    Own,
}

impl<'a> HessianToJson<'_, 'a, '_> {
    /// A Java exception: its class, message and cause, its stack trace as Java prints it, and its
    /// own fields. It is its own cause if it has none. A field of its own that is called `message`
    /// or `cause` takes the place of the usual one, unless it is null.
    pub(super) fn throwable(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        self.out.push(b'{');
        let class = object.class();
        self.class_member(class);
        // By the index of the field that comes next under the same name.
        let mut passed: HashMap<usize, Vec<Candidate<'a>>> = HashMap::new();
        while let Some(index) = object.next(self.dec) {
            let field = self.dec.class(class).and_then(|def| def.fields.get(index)).cloned();
            let Some(field) = field else { break };
            let candidate = Candidate { field, start: self.dec.position() };
            let mut others = passed.remove(&index).unwrap_or_default();
            if let Some(next) = self.hidden_by(class, index) {
                others.push(candidate);
                passed.insert(next, others);
                self.dec.skip_value()?;
                continue;
            }
            let key = key_of(&candidate.field);
            self.out.push(b',');
            let key_at = self.out.len();
            json::write_string(self.out, key);
            if let Some(paths) = &mut self.paths {
                paths.at_key(key_at..self.out.len());
            }
            self.out.push(b':');
            if others.is_empty() {
                self.throwable_member(key)?;
            } else {
                self.best_member(key, &others, &candidate)?;
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn throwable_member(&mut self, key: &str) -> Result<(), TranscodeError> {
        if key != "cause" || self.dec.peek()? != ValueKind::Ref {
            return self.value();
        }
        let offset = self.dec.position();
        let index = self.dec.read_ref()?;
        if self.is_innermost(index) {
            self.out.extend_from_slice(b"null");
            return Ok(());
        }
        self.reference_to(offset, index)
    }

    /// Writes the best of the values of one name: of those that were passed over, and the one that
    /// comes next. Of equals the last counts.
    fn best_member(
        &mut self,
        key: &str,
        passed: &[Candidate<'a>],
        last: &Candidate<'a>,
    ) -> Result<(), TranscodeError> {
        let mut best = (self.rank(key, last)?, last.start);
        for other in passed.iter().rev() {
            let rank = self.rank(key, other)?;
            if best.0 < rank {
                best = (rank, other.start);
            }
        }
        if best.1 == last.start {
            return self.throwable_member(key);
        }
        self.dec.skip_value()?;
        let back = self.dec.begin_replay_at(best.1);
        self.throwable_member(key)?;
        self.dec.end_replay(back);
        Ok(())
    }

    fn rank(&mut self, key: &str, candidate: &Candidate<'a>) -> Result<Rank, TranscodeError> {
        let back = self.dec.begin_replay_at(candidate.start);
        let rank = match self.dec.peek()? {
            ValueKind::Null => Rank::Nothing,
            ValueKind::Ref if key == "cause" => {
                let index = self.dec.read_ref()?;
                if self.is_innermost(index) { Rank::Nothing } else { Rank::Own }
            }
            _ if key == &*candidate.field => Rank::Own,
            _ => Rank::Usual,
        };
        self.dec.end_replay(back);
        Ok(rank)
    }

    /// Whether this is the number of the object that is being written.
    fn is_innermost(&self, index: usize) -> bool {
        self.dec.ref_start(index) == self.open.last().copied()
    }
}
