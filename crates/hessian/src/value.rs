//! A value as a tree, for tests, tools and the cold paths. The hot paths go without it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Decoder, Encoder, HessianError, Name, ValueKind};

/// One Hessian value. Lists, maps and objects are numbered in the order in which they begin;
/// [`Value::Ref`] takes such a number, so that shared values and cycles can be told.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A 32-bit integer.
    Int(i32),
    /// A 64-bit integer.
    Long(i64),
    /// A double.
    Double(f64),
    /// A date, in milliseconds since 1970 UTC.
    Date(i64),
    /// A string.
    String(String),
    /// A `byte[]`.
    Binary(Vec<u8>),
    /// A list or array.
    List {
        /// `[int`, `java.util.LinkedList`, or nothing for `java.util.ArrayList`.
        ty: Option<Arc<str>>,
        /// The elements.
        items: Vec<Value>,
    },
    /// A map.
    Map {
        /// `java.util.TreeMap`, or nothing for `java.util.HashMap`.
        ty: Option<Arc<str>>,
        /// Keys and values, in the order of the message.
        entries: Vec<(Value, Value)>,
    },
    /// An object.
    Object {
        /// Its class, shared by the objects of one message.
        class: Arc<Class>,
        /// One value for each field of the class.
        fields: Vec<Value>,
    },
    /// A list, map or object that began before.
    Ref(u32),
}

/// A class definition that owns its names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Class {
    /// The Java name.
    pub name: String,
    /// The names of the fields, in order.
    pub fields: Vec<String>,
}

impl Value {
    /// A string.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self::String(text.to_owned())
    }

    /// A list without a type.
    #[must_use]
    pub fn list(items: Vec<Value>) -> Self {
        Self::List { ty: None, items }
    }

    /// A map without a type.
    #[must_use]
    pub fn map(entries: Vec<(Value, Value)>) -> Self {
        Self::Map { ty: None, entries }
    }

    /// An object with a class of its own.
    #[must_use]
    pub fn object(class: &str, fields: Vec<(&str, Value)>) -> Self {
        let (names, fields) =
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).unzip();
        let class = Arc::new(Class { name: class.to_owned(), fields: names });
        Self::Object { class, fields }
    }
}

impl Encoder<'_> {
    /// Any value. An object with fewer or more values than its class has fields is a bug of the
    /// caller: it is filled up with nulls, or cut.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.null(),
            Value::Bool(value) => self.bool(*value),
            Value::Int(value) => self.int(*value),
            Value::Long(value) => self.long(*value),
            Value::Double(value) => self.double(*value),
            Value::Date(ms) => self.date_ms(*ms),
            Value::String(text) => self.string(text),
            Value::Binary(bytes) => self.binary(bytes),
            Value::List { ty, items } => {
                self.list_begin(ty.as_deref(), items.len());
                items.iter().for_each(|item| self.value(item));
            }
            Value::Map { ty, entries } => {
                self.map_begin(ty.as_deref());
                for (key, value) in entries {
                    self.value(key);
                    self.value(value);
                }
                self.map_end();
            }
            Value::Object { class, fields } => {
                debug_assert_eq!(class.fields.len(), fields.len(), "one value for each field");
                self.object_begin(&class.name, &class.fields);
                for index in 0..class.fields.len() {
                    self.value(fields.get(index).unwrap_or(&Value::Null));
                }
            }
            Value::Ref(index) => self.reference(*index),
        }
    }
}

impl Decoder<'_> {
    /// The next value as a tree.
    ///
    /// # Errors
    /// [`HessianError`] if the value is wrong, cut off, or passes a limit.
    pub fn read_value(&mut self) -> Result<Value, HessianError> {
        self.value_in(&mut SharedNames::default())
    }

    fn value_in(&mut self, shared: &mut SharedNames) -> Result<Value, HessianError> {
        Ok(match self.peek()? {
            ValueKind::Null => {
                self.read_null()?;
                Value::Null
            }
            ValueKind::Bool => Value::Bool(self.read_bool()?),
            ValueKind::Int => Value::Int(self.read_int()?),
            ValueKind::Long => Value::Long(self.read_long()?),
            ValueKind::Double => Value::Double(self.read_double()?),
            ValueKind::Date => Value::Date(self.read_date_ms()?),
            ValueKind::String => Value::String(self.read_string()?.into_owned()),
            ValueKind::Binary => Value::Binary(self.read_binary()?.into_owned()),
            ValueKind::Ref => Value::Ref(u32::try_from(self.read_ref()?).unwrap_or(u32::MAX)),
            ValueKind::List => {
                let mut list = self.read_list_begin()?;
                let ty = list.ty().map(|ty| shared.name(ty));
                // The announced length is not trusted for more than a small piece of memory.
                let mut items = Vec::with_capacity(list.left().unwrap_or(0).min(64));
                while list.next(self)? {
                    items.push(self.value_in(shared)?);
                }
                Value::List { ty, items }
            }
            ValueKind::Map => {
                let mut map = self.read_map_begin()?;
                let ty = map.ty().map(|ty| shared.name(ty));
                let mut entries = Vec::new();
                while map.next(self)? {
                    let key = self.value_in(shared)?;
                    entries.push((key, self.value_in(shared)?));
                }
                Value::Map { ty, entries }
            }
            ValueKind::Object => {
                let mut object = self.read_object_begin()?;
                let class = shared.class(self, object.class());
                let mut fields = Vec::with_capacity(object.n_fields().min(64));
                while object.next(self).is_some() {
                    fields.push(self.value_in(shared)?);
                }
                Value::Object { class, fields }
            }
        })
    }
}

/// The names of a tree: one copy of each, however many values bear it. A message of a few bytes
/// a value would otherwise become a tree of one long name a value.
#[derive(Default)]
struct SharedNames {
    /// By the number of the class definition.
    classes: Vec<Option<Arc<Class>>>,
    /// By the place in the message, so that equal names need not be compared.
    names: HashMap<*const u8, Arc<str>>,
}

impl SharedNames {
    fn name(&mut self, name: &Name<'_>) -> Arc<str> {
        match name {
            Name::Shared(text) => Arc::clone(text),
            Name::Borrowed(text) => {
                Arc::clone(self.names.entry(text.as_ptr()).or_insert_with(|| Arc::from(*text)))
            }
        }
    }

    fn class(&mut self, dec: &Decoder<'_>, index: usize) -> Arc<Class> {
        if self.classes.len() <= index {
            self.classes.resize(index + 1, None);
        }
        let make = || {
            let (name, fields) = match dec.class(index) {
                Some(def) => {
                    (def.name.to_string(), def.fields.iter().map(|f| f.to_string()).collect())
                }
                None => (String::new(), Vec::new()),
            };
            Arc::new(Class { name, fields })
        };
        match self.classes.get_mut(index) {
            Some(slot) => Arc::clone(slot.get_or_insert_with(make)),
            None => make(),
        }
    }
}
