//! Values that bear the name of their class: enums, exceptions, objects, and all that stand where
//! another class was declared.

use std::borrow::Cow;

use java_json::EnumStyle;
use java_json::builtin::Builtin;
use java_json::json;
use java_json::time;
use java_json::write;

use super::{Hint, JsonbToJson, SUPPRESSED};
use crate::error::{JsonbError, Rule};
use crate::{names, tag};

/// Fields that all exceptions have, and what they are called in JSON.
const USUAL: [(&str, &str); 2] = [("detailMessage", "message"), (SUPPRESSED, "suppressed")];

impl JsonbToJson<'_, '_, '_> {
    /// The value behind the name of a class, both from `start`.
    pub(super) fn typed(&mut self, start: usize) -> Result<(), JsonbError> {
        self.dec.take()?;
        let name = self.dec.read_type()?.to_str();
        let class = names::full(&name);
        self.begin(start)?;
        let found = self.dec.peek()?;
        match found {
            tag::OBJECT => self.typed_object(&class)?,
            tag::ARRAY_0..=tag::ARRAY => self.array()?,
            tag::BINARY => {
                self.binary(if class == "[B" { Hint::Bytes } else { Hint::Nothing })?;
            }
            tag::REFERENCE => self.reference()?,
            tag::ZONED_DATE_TIME if class == "java.time.OffsetTime" => {
                self.leaf(found, Hint::OffsetTime)?;
            }
            _ if tag::is_text(found)
                && self.style.enums == EnumStyle::Object
                && Builtin::of_declared(&class).is_none()
                && !class.starts_with('[') =>
            {
                self.enum_object(&class)?;
            }
            _ => self.value(Hint::Nothing)?,
        }
        self.end();
        let is_text = tag::is_text(found) && self.style.enums == EnumStyle::Name;
        self.last_text_class = (self.opts.key_classes && is_text).then(|| class.into_owned());
        Ok(())
    }

    fn enum_object(&mut self, class: &str) -> Result<(), JsonbError> {
        self.out.push(b'{');
        if self.opts.class_name {
            write::write_class(self.out, class);
            self.out.push(b',');
        }
        self.out.extend_from_slice(b"\"name\":");
        self.dec.read_text()?.write_json(self.out);
        self.out.push(b'}');
        Ok(())
    }

    fn typed_object(&mut self, class: &str) -> Result<(), JsonbError> {
        match Builtin::of_declared(class) {
            Some(builtin @ (Builtin::Year | Builtin::YearMonth | Builtin::MonthDay)) => {
                self.calendar_part(builtin)
            }
            _ if self.has_throwables && self.is_throwable()? => self.throwable(class),
            _ if class == "java.lang.StackTraceElement" => self.stack_trace_element(),
            _ => self.object(Some(class)),
        }
    }

    /// A year, its month, or a day of any year, from its fields.
    fn calendar_part(&mut self, builtin: Builtin) -> Result<(), JsonbError> {
        let offset = self.dec.position();
        let (mut year, mut month, mut day) = (None, None, None);
        self.dec.take()?;
        while !self.dec.object_ends()? {
            let name = self.dec.read_text()?.to_str();
            match &*name {
                "year" => year = Some(i64::from(self.dec.int()?)),
                "month" => month = Some(self.dec.int()?),
                "day" => day = Some(self.dec.int()?),
                _ => self.dec.skip_value()?,
            }
        }
        let small =
            |part: Option<i32>| part.and_then(|n| u32::try_from(n).ok()).filter(|&n| n < 100);
        let (month, day) = (small(month), small(day));
        let mut text = Vec::new();
        match (builtin, year, month, day) {
            (Builtin::Year, Some(year), ..) => {
                json::write_i64(self.out, year);
                return Ok(());
            }
            (Builtin::YearMonth, Some(year), Some(month), _) => {
                time::write_year(&mut text, year);
                time::write_2(&mut text, b"-", month);
            }
            (Builtin::MonthDay, _, Some(month), Some(day)) => {
                time::write_2(&mut text, b"--", month);
                time::write_2(&mut text, b"-", day);
            }
            _ => return Err(JsonbError::Broken { offset, rule: Rule::Time }),
        }
        json::write_string(self.out, &String::from_utf8_lossy(&text));
        Ok(())
    }

    /// Whether the object that begins here has the field that exceptions have.
    fn is_throwable(&mut self) -> Result<bool, JsonbError> {
        let mut scan = self.dec.clone();
        scan.take()?;
        while !scan.object_ends()? {
            if !is_name(scan.peek()?) {
                return Ok(false);
            }
            if scan.read_text()?.to_str() == SUPPRESSED {
                return Ok(true);
            }
            scan.skip_value()?;
        }
        Ok(false)
    }

    /// A Java exception: its class, message and cause, its stack trace as Java prints it, and its
    /// own fields. One that is called `message` takes the place of the usual one, unless it is
    /// null.
    fn throwable(&mut self, class: &str) -> Result<(), JsonbError> {
        let hidden = self.hidden_members()?;
        self.dec.take()?;
        self.out.push(b'{');
        write::write_class(self.out, class);
        let (mut has_message, mut has_cause) = (false, false);
        let mut referring = None;
        while !self.dec.object_ends()? {
            let name = self.dec.read_text()?.to_str();
            let value = self.dec.peek()?;
            // The same field again, as in other objects.
            if value == tag::NULL && referring.as_ref() == Some(&name) {
                self.dec.skip_value()?;
                continue;
            }
            referring = (value == tag::REFERENCE).then(|| name.clone());
            if hidden.contains(&Some(&*name)) {
                self.dec.skip_value()?;
                continue;
            }
            let usual = USUAL.iter().find(|(usual, _)| *usual == name);
            let key = usual.map_or(&*name, |&(_, key)| key);
            has_message |= key == "message";
            has_cause |= key == "cause";
            self.out.push(b',');
            json::write_string(self.out, key);
            self.out.push(b':');
            match key {
                "stackTrace" => self.stack_trace()?,
                // Its own cause is what an exception without one has.
                "cause" if self.is_reference_to_parent()? => {
                    self.dec.skip_value()?;
                    self.out.extend_from_slice(b"null");
                }
                _ => self.value(Hint::Nothing)?,
            }
        }
        // Fields that are null may be left out.
        for (name, is_there) in [("message", has_message), ("cause", has_cause)] {
            if !is_there {
                self.out.push(b',');
                json::write_string(self.out, name);
                self.out.extend_from_slice(b":null");
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    /// The fields of the exception that begins here that give way to others of the same name in
    /// JSON.
    fn hidden_members(&mut self) -> Result<[Option<&'static str>; USUAL.len()], JsonbError> {
        let mut scan = self.dec.clone();
        scan.take()?;
        // For each of them, whether it is there, and whether one that the class has declared has a
        // value.
        let mut found = [(false, None); USUAL.len()];
        while !scan.object_ends()? {
            let name = scan.read_text()?.to_str();
            let has_value = scan.peek()? != tag::NULL;
            for ((usual, key), (is_usual, own)) in USUAL.iter().zip(&mut found) {
                *is_usual |= name == *usual;
                if name == *key {
                    *own = Some(has_value);
                }
            }
            scan.skip_value()?;
        }
        let mut hidden = [None; USUAL.len()];
        for (place, ((usual, key), found)) in hidden.iter_mut().zip(USUAL.into_iter().zip(found)) {
            *place = match found {
                (true, Some(true)) => Some(usual),
                (true, Some(false)) => Some(key),
                _ => None,
            };
        }
        Ok(hidden)
    }

    fn is_reference_to_parent(&mut self) -> Result<bool, JsonbError> {
        if self.dec.peek()? != tag::REFERENCE {
            return Ok(false);
        }
        let mut scan = self.dec.clone();
        scan.take()?;
        Ok(scan.read_text()?.to_str() == "..")
    }

    /// The elements of a stack trace: objects whose class was declared and so is not named.
    fn stack_trace(&mut self) -> Result<(), JsonbError> {
        let start = self.dec.position();
        if !(tag::ARRAY_0..=tag::ARRAY).contains(&self.dec.peek()?) {
            return self.value(Hint::Nothing);
        }
        self.begin(start)?;
        let len = self.dec.array()?;
        self.out.push(b'[');
        for index in 0..len {
            if index != 0 {
                self.out.push(b',');
            }
            match self.dec.peek()? {
                tag::OBJECT => self.stack_trace_element()?,
                _ => self.value(Hint::Nothing)?,
            }
        }
        self.out.push(b']');
        self.end();
        Ok(())
    }

    /// `com.acme.Shop.sell(Shop.java:12)`
    fn stack_trace_element(&mut self) -> Result<(), JsonbError> {
        let (mut class, mut method) = (Cow::Borrowed(""), Cow::Borrowed(""));
        let (mut file, mut line) = (None, 0);
        self.dec.take()?;
        while !self.dec.object_ends()? {
            if !is_name(self.dec.peek()?) {
                self.dec.skip_value()?;
                self.dec.skip_value()?;
                continue;
            }
            let name = self.dec.read_text()?.to_str();
            let is_text = tag::is_text(self.dec.peek()?);
            match &*name {
                "className" | "declaringClass" if is_text => class = self.dec.read_text()?.to_str(),
                "methodName" if is_text => method = self.dec.read_text()?.to_str(),
                "fileName" if is_text => file = Some(self.dec.read_text()?.to_str()),
                "lineNumber" => line = self.dec.int()?,
                _ => self.dec.skip_value()?,
            }
        }
        let place = match (line, file) {
            (-2, _) => "Native Method".to_owned(),
            (_, None) => "Unknown Source".to_owned(),
            (0.., Some(file)) => format!("{file}:{line}"),
            (_, Some(file)) => file.into_owned(),
        };
        json::write_string(self.out, &format!("{class}.{method}({place})"));
        Ok(())
    }
}

fn is_name(found: u8) -> bool {
    tag::is_text(found) || found == tag::SYMBOL
}
