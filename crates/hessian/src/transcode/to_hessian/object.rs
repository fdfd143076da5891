//! JSON objects as objects of a Java class.

use std::borrow::Cow;

use super::{Builtin, JsonKind, JsonReader, Member, TranscodeError, Writer};
use crate::JavaType;

impl<'a> Writer<'_, 'a, '_, '_, '_> {
    /// A JSON object as an object of `declared` or of the class that its member `class` names, or
    /// as a map if there is neither.
    pub(super) fn object(&mut self, declared: Option<&str>) -> Result<(), TranscodeError> {
        let base = self.members.len();
        let offset = self.json.position();
        let (named, end) = self.scan_object()?;
        let no_class = TranscodeError::Text { offset, expected: "the name of a class" };
        let builtin = match named.as_deref() {
            Some("") => return Err(no_class),
            // Generic arguments do not change what a class is.
            Some(name) => Builtin::of_declared(name.split('<').next().unwrap_or(name)),
            None => None,
        };
        // Arrays in both spellings, and primitive types.
        let is_plain = named.as_deref().is_some_and(|name| {
            name.starts_with('[') || name.ends_with("[]") || 1 < name.len() && !name.contains('.')
        });
        let plain = named.as_deref().filter(|_| is_plain).and_then(|name| {
            JavaType::parse(name).ok().filter(|ty| !matches!(ty, JavaType::Class(_)))
        });
        let members = self.members.get(base..).unwrap_or_default();
        let has_only_value = matches!(members, [member] if member.name == "value");
        let n_members = members.len();
        // Also for one that only names the type of its value: it stands for that value.
        self.enter();
        self.json.begin_object()?;
        self.json.count(n_members)?;
        match (named.as_deref().or(declared), builtin) {
            (None, _) => self.map(None, base)?,
            (Some(class), Some(Builtin::Map)) => self.map(Builtin::map_type(class), base)?,
            (Some(_), Some(Builtin::Any)) => self.map(None, base)?,
            // `{"class": "java.util.Date", "value": 0}`: of a class that is no JSON object.
            (Some(class), _) if has_only_value && (builtin.is_some() || plain.is_some()) => {
                let ty = match plain {
                    Some(ty) => ty,
                    None => JavaType::parse(class).map_err(|_| no_class)?,
                };
                self.member(base, Some(&ty))?;
            }
            (Some(class), _) => {
                self.enc.object_begin(class, self.members.get(base..).unwrap_or_default());
                let schema = self.schema;
                for index in base..self.members.len() {
                    let member = self.members.get(index);
                    // Of a subclass that nobody knows, the fields of its superclass are known.
                    let field_type = |class| schema.field_type(class, &member?.name);
                    let ty = field_type(class).or_else(|| field_type(declared?));
                    self.member(index, ty)?;
                }
            }
        }
        self.leave();
        self.members.truncate(base);
        self.json.jump_out(end);
        Ok(())
    }

    /// The members that were looked through, as a map.
    fn map(&mut self, tag: Option<&str>, base: usize) -> Result<(), TranscodeError> {
        self.enc.map_begin(tag);
        for index in base..self.members.len() {
            if let Some(member) = self.members.get(index) {
                self.enc.string(&member.name);
            }
            self.member(index, None)?;
        }
        self.enc.map_end();
        Ok(())
    }

    /// The value of one member that was looked through. What is inside it is taken off again.
    fn member(&mut self, index: usize, ty: Option<&JavaType>) -> Result<(), TranscodeError> {
        let n_members = self.members.len();
        if let Some(member) = self.members.get(index) {
            self.json.jump(member.at);
            if let Some(places) = &mut self.places {
                places.at_key(member.name.clone());
            }
        }
        self.value(ty)?;
        debug_assert_eq!(self.members.len(), n_members);
        Ok(())
    }

    /// Looks through the object that comes next: its members but `class` go to the end of
    /// `members`; the class that it names is returned, and where it ends. The reader stays.
    fn scan_object(&mut self) -> Result<(Option<Cow<'a, str>>, usize), TranscodeError> {
        let mut scan = self.json.scan();
        scan.peek()?;
        let is_known = scan.position() < self.scanned;
        if !is_known {
            self.ends.clear();
        }
        if self.members.capacity() == 0 {
            self.members.reserve(32);
        }
        let mut class = None;
        let mut object = scan.begin_object()?;
        while let Some(key) = scan.next_key(&mut object)? {
            let kind = scan.peek()?;
            if key == "class" && kind == JsonKind::String {
                class = Some(scan.read_string()?);
                continue;
            }
            self.members.push(Member { name: key, at: scan.position() });
            match kind {
                JsonKind::Array | JsonKind::Object if is_known => {
                    let start = scan.position();
                    let found = self.ends.binary_search_by_key(&start, |&(start, _)| start);
                    match found.ok().and_then(|index| self.ends.get(index)) {
                        Some(&(_, end)) => scan.jump(end),
                        None => scan.skip_value().map(|_| ())?,
                    }
                }
                JsonKind::Array | JsonKind::Object => skip_noting(&mut scan, &mut self.ends)?,
                _ => scan.skip_value().map(|_| ())?,
            }
        }
        self.scanned = self.scanned.max(scan.position());
        Ok((class, scan.position()))
    }

    /// Whether an object may have a member named `class`. (One that is written with escapes is
    /// taken for a class only if another is not.)
    pub(super) fn may_have_class(&mut self) -> bool {
        let (text, from) = (self.json.text(), self.json.position());
        *self.has_class.get_or_insert_with(|| {
            let rest = text.get(from..).unwrap_or_default();
            memchr::memmem::find(rest, b"\"class\"").is_some()
        })
    }
}

/// Reads past a value and notes where its arrays and objects begin and end, in order.
fn skip_noting(
    scan: &mut JsonReader<'_>,
    ends: &mut Vec<(usize, usize)>,
) -> Result<(), TranscodeError> {
    let kind = scan.peek()?;
    if !matches!(kind, JsonKind::Array | JsonKind::Object) {
        scan.skip_value()?;
        return Ok(());
    }
    let index = ends.len();
    ends.push((scan.position(), 0));
    if kind == JsonKind::Array {
        let mut array = scan.begin_array()?;
        while scan.next_element(&mut array)? {
            skip_noting(scan, ends)?;
        }
    } else {
        let mut object = scan.begin_object()?;
        while scan.next_raw_key(&mut object)?.is_some() {
            skip_noting(scan, ends)?;
        }
    }
    if let Some(end) = ends.get_mut(index) {
        end.1 = scan.position();
    }
    Ok(())
}
