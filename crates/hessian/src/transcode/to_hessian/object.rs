//! JSON objects as objects of a Java class.

use std::borrow::Cow;

use super::{Builtin, JsonKind, JsonReader, TranscodeError, Writer};
use crate::JavaType;

impl<'a> Writer<'_, 'a, '_, '_, '_> {
    /// A JSON object as an object of `declared` or of the class that its member `class` names, or
    /// as a map if there is neither.
    pub(super) fn object(&mut self, declared: Option<&str>) -> Result<(), TranscodeError> {
        let base = self.keys.len();
        let offset = self.json.position();
        let named = self.scan_object()?;
        let is_named = named.is_some();
        if named.as_deref() == Some("") {
            return Err(TranscodeError::Text { offset, expected: "the name of a class" });
        }
        let Some(class) = named.as_deref().or(declared) else {
            self.keys.truncate(base);
            return self.members(None, None, None);
        };
        let builtin = Builtin::of_declared(class).filter(|_| is_named);
        let has_only_value = matches!(self.keys.get(base..), Some([key]) if key == "value");
        match builtin {
            Some(Builtin::Map | Builtin::Any) => {
                self.keys.truncate(base);
                let tag = Builtin::map_type(class).filter(|_| builtin == Some(Builtin::Map));
                self.enc.map_begin(tag);
                self.fields(None)?;
                self.enc.map_end();
                Ok(())
            }
            _ if has_only_value && is_named && (builtin.is_some() || class.starts_with('[')) => {
                let ty = JavaType::parse(class).map_err(|_| TranscodeError::Text {
                    offset,
                    expected: "the name of a class",
                })?;
                self.keys.truncate(base);
                self.only_value(&ty)
            }
            _ => {
                self.enc.object_begin(class, self.keys.get(base..).unwrap_or_default());
                self.keys.truncate(base);
                self.fields(Some(class))
            }
        }
    }

    /// The values of an object's members but `class`, each after its name if there is no class.
    fn fields(&mut self, class: Option<&str>) -> Result<(), TranscodeError> {
        let schema = self.schema;
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            if key == "class" && self.json.peek()? == JsonKind::String {
                self.json.skip_value()?;
                continue;
            }
            match class {
                Some(class) => self.value(schema.field_type(class, &key))?,
                None => {
                    self.enc.string(&key);
                    self.value(None)?;
                }
            }
        }
        Ok(())
    }

    /// `{"class": "java.util.Date", "value": 0}`: a value of a class that is no JSON object.
    fn only_value(&mut self, ty: &JavaType) -> Result<(), TranscodeError> {
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            if key == "class" {
                self.json.skip_value()?;
            } else {
                self.value(Some(ty))?;
            }
        }
        Ok(())
    }

    /// Looks through the object that comes next: its names but `class` go to the end of `keys`;
    /// the class that it names is returned. The reader stays where it is.
    fn scan_object(&mut self) -> Result<Option<Cow<'a, str>>, TranscodeError> {
        let mut scan = self.json.clone();
        scan.peek()?;
        let is_known = scan.position() < self.scanned;
        if !is_known {
            self.ends.clear();
        }
        if self.keys.capacity() == 0 {
            self.keys.reserve(32);
        }
        let mut class = None;
        let mut object = scan.begin_object()?;
        while let Some(key) = scan.next_key(&mut object)? {
            let kind = scan.peek()?;
            if key == "class" && kind == JsonKind::String {
                class = Some(scan.read_string()?);
                continue;
            }
            self.keys.push(key);
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
        Ok(class)
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
