//! JSON objects as objects of a Java class.

use std::borrow::Cow;
use std::rc::Rc;

use super::{
    Builtin, ClassMembers, JsonKind, JsonReader, JsonToHessian, MemberName, Rule, ScannedMember,
    TranscodeError,
};
use crate::JavaType;
use crate::encode::Mark;
use java_json::ClassType;
use java_json::expected;
use java_json::json;
use java_json::named::{NamedClass, ObjectForm, field_type, is_own, known_enum};
use java_json::unknown::is_optional_class;

/// So many classes are remembered in one value; there are seldom more.
const MAX_KNOWN: usize = 8;
/// After so many objects that were not like the one before every object is looked through: each
/// may have been written in vain, with all that is inside it.
const MAX_MISSES: u32 = 16;

/// The class of an object.
#[derive(Clone, Copy)]
struct Of<'c> {
    /// As it is written.
    name: &'c str,
    /// What its fields are known by.
    key: &'c str,
    /// The class that is declared, which may be a superclass.
    declared: Option<&'c ClassType>,
}

/// Where an object begins that may have to be taken back.
pub(super) struct Before<'a> {
    json: JsonReader<'a>,
    mark: Mark,
    n_known: usize,
}

impl<'a, 's> JsonToHessian<'_, 'a, '_, '_, 's> {
    /// A JSON object as an object of `declared` or of the class that its member `class` names, or
    /// as a map if there is neither.
    pub(super) fn object(&mut self, declared: Option<&ClassType>) -> Result<(), TranscodeError> {
        if let Some(class) = declared
            && !self.as_maps
            && (self.object_as_before(class.key())?
                || !self.is_enum(class) && self.object_at_once(class))
        {
            return Ok(());
        }
        self.object_by_look(declared, &[])
    }

    /// The same, after it was looked through. A collection or map that it stands for holds what
    /// `args` say.
    pub(super) fn object_by_look(
        &mut self,
        declared: Option<&ClassType>,
        args: &[JavaType],
    ) -> Result<(), TranscodeError> {
        let base = self.members.len();
        let offset = self.json.position();
        // Nothing comes after the outermost object that could be like it.
        let may_repeat = self.json.is_inside();
        let (name, end) = self.scan_object()?;
        let named = NamedClass::of_object(offset, name.as_deref(), self.schema)?;
        let members = self.members.get(base..).unwrap_or_default();
        let only_value = match members {
            [member] if member.name == "value" => Some(member.at),
            _ => None,
        };
        let n_members = members.len();
        let builtin = named.as_ref().and_then(|named| named.builtin);
        if builtin == Some(Builtin::BitSet) && only_value.is_none() {
            self.members.truncate(base);
            return self.bit_set();
        }
        if self.constant(name.as_deref(), declared, base)? {
            self.members.truncate(base);
            self.json.jump_out(end);
            return Ok(());
        }
        // Also for one that only names the type of its value: it stands for that value.
        self.enter();
        self.json.begin_object()?;
        self.json.count(n_members)?;
        let is_object = || only_value.and_then(|at| self.kind_at(at)) == Some(JsonKind::Object);
        match ObjectForm::of(named, declared, args, only_value.is_some(), is_object) {
            // Java makes null of an argument with a value of the JDK in place of a bean.
            ObjectForm::Any(_) | ObjectForm::Map(_) | ObjectForm::Value(_)
                if declared.is_some_and(|class| !self.as_maps && is_own(class)) =>
            {
                let (found, expected) =
                    ("an object of another class", declared.map(ClassType::name));
                let expected = expected.unwrap_or_default().into();
                return Err(TranscodeError::Kind { offset, found, expected });
            }
            ObjectForm::Untyped | ObjectForm::Any(_) => self.map(None, base, &[])?,
            ObjectForm::Map(named) => {
                self.map(Builtin::map_type(named.class), base, named.args_or(args))?;
            }
            ObjectForm::Value(ty) => self.member(base, Some(&ty))?,
            ObjectForm::Named(named) => {
                let of = Of { name: named.class, key: named.key(), declared };
                self.object_of(of, base, false)?;
            }
            ObjectForm::Declared(class) => {
                let of = Of { name: class.name(), key: class.key(), declared };
                self.object_of(of, base, may_repeat)?;
            }
        }
        self.leave();
        self.members.truncate(base);
        self.json.jump_out(end);
        Ok(())
    }

    /// Whether the object that comes next, where a map is declared, says by its member `class`
    /// which map of java.util it is. Otherwise that is a key like any other.
    pub(super) fn names_map(&mut self) -> Result<bool, TranscodeError> {
        Ok(NamedClass::is_of_map(self.next_class()?.as_deref()))
    }

    /// The class that the object that comes next names.
    pub(super) fn next_class(&mut self) -> Result<Option<Cow<'a, str>>, TranscodeError> {
        if !self.may_have_class() {
            return Ok(None);
        }
        let base = self.members.len();
        let (name, _) = self.scan_object()?;
        self.members.truncate(base);
        Ok(name)
    }

    /// Whether the object that comes next, whose members were looked through, is a constant of an
    /// enum that is known. It is written then, and the reader is somewhere in the object.
    fn constant(
        &mut self,
        named: Option<&str>,
        declared: Option<&ClassType>,
        base: usize,
    ) -> Result<bool, TranscodeError> {
        let offset = self.json.position();
        let wrong = |writer: &Self, class: &str| {
            writer.wrong_value(offset, &expected::enum_values(writer.schema, class))
        };
        let class = match known_enum(self.schema, named, declared.map(ClassType::name)) {
            Ok(Some(class)) => class,
            Ok(None) => return Ok(false),
            Err(class) => return Err(wrong(self, class)),
        };
        let at = match self.members.get(base..).unwrap_or_default() {
            [it] if it.name == "name" || it.name == "value" && named.is_some() => Some(it.at),
            _ => None,
        };
        let Some(at) = at.filter(|&at| self.kind_at(at) == Some(JsonKind::String)) else {
            return Err(wrong(self, class));
        };
        self.json.jump(at);
        self.enum_name(class)?;
        Ok(true)
    }

    fn is_enum(&self, class: &ClassType) -> bool {
        self.schema.is_enum(class.name()) == Some(true)
    }

    /// What stands at a place that was looked through.
    fn kind_at(&self, at: usize) -> Option<JsonKind> {
        let mut json = self.json.scan();
        json.jump(at);
        json.peek().ok()
    }

    /// A JSON object where a class is declared that is none in JSON: it has to say by its member
    /// `class` what it is, which may be a subclass.
    pub(super) fn named_object(&mut self, declared: &ClassType) -> Result<(), TranscodeError> {
        let Some(name) = self.next_class()? else {
            return Err(self.wrong_kind(declared.name()));
        };
        if NamedClass::of(&name).is_some_and(|named| !named.may_stand_for(declared, self.schema)) {
            return Err(self.wrong_class(declared.name()));
        }
        self.object_by_look(None, declared.args())
    }

    /// An object of a class that was met before, if it has the same members in the same order. If
    /// it has not, all is as it was.
    fn object_as_before(&mut self, key: &str) -> Result<bool, TranscodeError> {
        let known = self.known.iter().position(|known| &*known.key == key);
        let Some(index) = known.filter(|_| self.may_guess()) else {
            return Ok(false);
        };
        let before = self.here();
        let Some((number, simple)) =
            self.known.get(index).map(|known| (known.number, Rc::clone(&known.simple)))
        else {
            return Ok(false);
        };
        let mut object = self.json.begin_object()?;
        self.enc.object_head(number);
        let mut at = 0;
        loop {
            at += self.run_members(&mut object, simple.get(at..).unwrap_or_default());
            if at == simple.len() {
                break;
            }
            // Few steps, and the list may have grown meanwhile.
            let known = self.known.get(index);
            let Some((lead, ty)) =
                known.and_then(|known| Some((known.leads.get(at)?, *known.types.get(at)?)))
            else {
                return Ok(self.look_again(before));
            };
            if !self.json.next_key_is(&mut object, lead)? {
                return Ok(self.look_again(before));
            }
            self.value(ty)?;
            at += 1;
        }
        if self.json.next_member(&mut object)? {
            return Ok(self.look_again(before));
        }
        Ok(true)
    }

    /// Whether objects are still written before it is known whether they are as they are taken to
    /// be.
    pub(super) fn may_guess(&self) -> bool {
        self.has_runs && self.n_misses < MAX_MISSES
    }

    /// What to go back to if what is written now has to be taken back.
    pub(super) fn here(&self) -> Before<'a> {
        Before { json: self.json.clone(), mark: self.enc.mark(), n_known: self.known.len() }
    }

    /// Takes back an object that has other members than the one before.
    pub(super) fn look_again(&mut self, before: Before<'a>) -> bool {
        *self.json = before.json;
        self.enc.go_back(before.mark);
        // Class definitions that came since are gone.
        self.known.truncate(before.n_known);
        self.n_misses += 1;
        false
    }

    /// Remembers an object's members. One that is called `class` might be a class the next time.
    pub(super) fn remember(&mut self, key: &str, base: usize, number: u32) {
        let members = self.members.get(base..).unwrap_or_default();
        let is_new = self.known.iter().all(|known| &*known.key != key);
        let is_fit = self.places.is_none() && members.iter().all(|member| member.name != "class");
        if is_new && is_fit && self.known.len() < MAX_KNOWN {
            let names: Vec<_> = members.iter().map(|member| member.name.clone()).collect();
            let lead = |(index, name): (usize, &Cow<'_, str>)| {
                let mut lead = Vec::from(if index == 0 { &b""[..] } else { &b","[..] });
                json::write_string(&mut lead, name);
                lead.push(b':');
                lead.into()
            };
            let leads = names.iter().enumerate().map(lead).collect();
            let schema = self.schema;
            let types: Vec<_> = names.iter().map(|name| schema.field_type(key, name)).collect();
            let simple = |((index, name), ty): ((usize, &Cow<'_, str>), &Option<&JavaType>)| {
                (MemberName::new(name, index != 0), Rule::of(*ty))
            };
            let simple = names.iter().enumerate().zip(&types).map(simple).collect();
            self.known.push(ClassMembers { key: key.into(), leads, simple, types, number });
        }
    }

    /// The members that were looked through, as a map whose keys and values are of the types
    /// `args`, if any.
    fn map(
        &mut self,
        tag: Option<&str>,
        base: usize,
        args: &[JavaType],
    ) -> Result<(), TranscodeError> {
        self.enc.map_begin(tag);
        for index in base..self.members.len() {
            if let Some(name) = self.members.get(index).map(|member| member.name.clone()) {
                self.key(&name, args.first())?;
            }
            self.member(index, args.get(1))?;
        }
        self.enc.map_end();
        Ok(())
    }

    /// The members that were looked through, as an object, or as the map of which the provider
    /// makes one.
    fn object_of(
        &mut self,
        of: Of<'_>,
        base: usize,
        may_remember: bool,
    ) -> Result<(), TranscodeError> {
        if self.is_map(of.name) {
            self.enc.map_begin(None);
            if !is_optional_class(of.name) {
                self.class_entry(of.name);
            }
            for index in base..self.members.len() {
                if let Some(member) = self.members.get(index) {
                    self.enc.string(&member.name);
                }
                self.member(index, self.field_type(index, of))?;
            }
            self.enc.map_end();
            return Ok(());
        }
        let members = self.members.get(base..).unwrap_or_default();
        let number = self.enc.class_number(of.name, members);
        self.enc.object_head(number);
        if may_remember {
            self.remember(of.key, base, number);
        }
        self.as_object(|writer| {
            (base..writer.members.len())
                .try_for_each(|index| writer.member(index, writer.field_type(index, of)))
        })
    }

    /// Whether an object of this class is written as a map.
    pub(super) fn is_map(&self, class: &str) -> bool {
        self.as_maps && !self.schema.takes_no_map(class)
    }

    /// What names the class in a map that stands for an object.
    pub(super) fn class_entry(&mut self, class: &str) {
        self.enc.string("class");
        self.enc.string(class);
    }

    /// The type of a member that was looked through.
    fn field_type(&self, index: usize, of: Of<'_>) -> Option<&'s JavaType> {
        let name = &self.members.get(index)?.name;
        field_type(self.schema, of.key, of.declared.map(ClassType::key), name)
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
        let mut scan = self.passed.begin(self.json)?;
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
            self.members.push(ScannedMember { name: key, at: scan.position() });
            self.passed.skip(&mut scan)?;
        }
        self.passed.end(&scan);
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
