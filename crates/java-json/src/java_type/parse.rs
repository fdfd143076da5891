//! Spellings of Java types.

use super::{JavaType, TypeError, TypeParameter};

/// The JVM's own limit on array dimensions is 255; nobody comes near this one either.
const MAX_DEPTH: usize = 32;
/// The JVM's limit on a method's parameters.
const MAX_TYPES: usize = 255;

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

pub(super) fn descriptors(text: &str) -> Result<Vec<JavaType>, TypeError> {
    let mut parser = Parser { text, at: 0 };
    let mut types = Vec::new();
    while parser.peek().is_some() {
        if types.len() == MAX_TYPES {
            return Err(TypeError::TooMany { max: MAX_TYPES });
        }
        types.push(parser.descriptor()?);
    }
    Ok(types)
}

pub(super) fn any(text: &str) -> Result<JavaType, TypeError> {
    match text.trim().as_bytes() {
        [letter] if JavaType::from_letter(*letter).is_some() => {
            let mut parser = Parser::new(text)?;
            parser.descriptor()
        }
        _ => named(text),
    }
}

/// The same, but one letter is the name of a class.
pub(super) fn named(text: &str) -> Result<JavaType, TypeError> {
    let mut parser = Parser::new(text)?;
    let is_descriptor = matches!(parser.text.as_bytes(), [b'[', ..] | [b'L', .., b';']);
    let ty = if is_descriptor { parser.descriptor()? } else { parser.name(0)? };
    parser.finish()?;
    Ok(ty)
}

/// `com.acme.Page<T extends com.acme.Item, U>`
pub(super) fn declaration(text: &str) -> Result<(String, Vec<TypeParameter>), TypeError> {
    let mut parser = Parser::new(text)?;
    let name = parser.class_name()?;
    let mut parameters: Vec<TypeParameter> = Vec::new();
    parser.space();
    if parser.peek() == Some(b'<') {
        loop {
            parser.at += 1;
            parser.space();
            if parameters.len() == MAX_TYPES {
                return Err(TypeError::TooMany { max: MAX_TYPES });
            }
            let offset = parser.at;
            let parameter = parser.parameter()?;
            if parameters.iter().any(|known| known.name == parameter.name) {
                return Err(TypeError::Parameter { offset });
            }
            parameters.push(parameter);
            match parser.peek() {
                Some(b',') => {}
                Some(b'>') => break,
                _ => return Err(parser.unexpected()),
            }
        }
        parser.at += 1;
    }
    parser.finish()?;
    Ok((name, parameters))
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, TypeError> {
        let text = text.trim();
        match text.len() {
            len if JavaType::MAX_LEN < len => {
                Err(TypeError::TypeTooLong { len, max: JavaType::MAX_LEN })
            }
            _ => Ok(Self { text, at: 0 }),
        }
    }

    fn finish(&self) -> Result<(), TypeError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected()),
        }
    }

    /// `T`, `T extends com.acme.Item & java.io.Serializable`. Of several bounds the first one
    /// counts, as in Java; one that is a parameter itself tells nothing.
    fn parameter(&mut self) -> Result<TypeParameter, TypeError> {
        let offset = self.at;
        let name = self.word(|c| c.is_alphanumeric() || "_$".contains(c))?;
        let is_name = !name.is_empty() && !name.starts_with(|first: char| first.is_numeric());
        if !is_name || JavaType::from_name(&name, Vec::new()).is_primitive() {
            return Err(TypeError::Parameter { offset });
        }
        self.space();
        let mut bound = None;
        let mut is_bounded = self.keyword("extends");
        while is_bounded {
            let ty = self.name(1)?;
            bound.get_or_insert(ty);
            self.space();
            is_bounded = self.peek() == Some(b'&');
            self.at += usize::from(is_bounded);
        }
        let bound = match bound {
            Some(JavaType::Class(class)) if class.name().contains('.') => {
                JavaType::class(class.name())
            }
            _ => JavaType::class("java.lang.Object"),
        };
        Ok(TypeParameter { name: name.into(), bound })
    }

    /// A word with white space behind it, and that.
    fn keyword(&mut self, word: &str) -> bool {
        let rest = self.rest().strip_prefix(word);
        let is_there = rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_whitespace()));
        if is_there {
            self.at += word.len();
            self.space();
        }
        is_there
    }

    fn class_name(&mut self) -> Result<String, TypeError> {
        let start = self.at;
        let name = self.word(|c| c.is_alphanumeric() || "._$".contains(c))?;
        self.check_class_name(start, &name)?;
        Ok(name)
    }

    /// Whether the word at `start` is the name of a class.
    fn check_class_name(&self, start: usize, name: &str) -> Result<(), TypeError> {
        let Some(misplaced) = JavaType::misplaced(name) else { return Ok(()) };
        Err(Self { text: self.text, at: start + misplaced }.unexpected())
    }

    /// `[[I`, `Ljava/lang/String;`, and with dots, as `Class.getName` gives it for arrays.
    fn descriptor(&mut self) -> Result<JavaType, TypeError> {
        let start = self.at;
        while self.peek() == Some(b'[') {
            self.at += 1;
        }
        let n_dims = self.at - start;
        if MAX_DEPTH < n_dims {
            return Err(TypeError::TooDeep { offset: start, max: MAX_DEPTH });
        }
        let element = match self.peek() {
            Some(b'L') => {
                self.at += 1;
                let start = self.at;
                let name = self.word(|c| c.is_alphanumeric() || "/.$_".contains(c))?;
                let name = name.replace('/', ".");
                self.check_class_name(start, &name)?;
                if self.peek() != Some(b';') {
                    return Err(self.unexpected());
                }
                let ty = JavaType::class(&name);
                self.at += 1;
                ty
            }
            Some(letter) => {
                let ty = JavaType::from_letter(letter).ok_or_else(|| self.unexpected())?;
                self.at += 1;
                ty
            }
            None => return Err(self.unexpected()),
        };
        Ok((0..n_dims).fold(element, |ty, _| JavaType::Array(Box::new(ty))))
    }

    /// `java.util.Map<String, ? extends com.acme.Order[]>`, `int...`.
    fn name(&mut self, depth: usize) -> Result<JavaType, TypeError> {
        if MAX_DEPTH < depth {
            return Err(TypeError::TooDeep { offset: self.at, max: MAX_DEPTH });
        }
        self.space();
        if self.peek() == Some(b'?') && 0 < depth {
            return self.wildcard(depth);
        }
        let start = self.at;
        let name = self.word(|c| c.is_alphanumeric() || "._$".contains(c))?;
        // Three points for an array of variable length look like part of the name.
        let (name, n_varargs) = match name.strip_suffix("...") {
            Some(name) => (name.to_owned(), 1),
            None => (name.to_owned(), 0),
        };
        self.check_class_name(start, &name)?;
        let mut args = Vec::new();
        self.space();
        if self.peek() == Some(b'<') && !JavaType::from_name(&name, Vec::new()).is_primitive() {
            loop {
                self.at += 1;
                self.space();
                if args.len() == MAX_TYPES {
                    return Err(TypeError::TooMany { max: MAX_TYPES });
                }
                args.push(self.name(depth + 1)?);
                self.space();
                match self.peek() {
                    Some(b',') => {}
                    Some(b'>') => break,
                    _ => return Err(self.unexpected()),
                }
            }
            self.at += 1;
        }
        let n_dims = self.dimensions()? + n_varargs;
        let element = JavaType::from_name(&name, args);
        Ok((0..n_dims).fold(element, |ty, _| JavaType::Array(Box::new(ty))))
    }

    fn wildcard(&mut self, depth: usize) -> Result<JavaType, TypeError> {
        self.at += 1;
        self.space();
        if self.keyword("extends") || self.keyword("super") {
            let offset = self.at;
            // A wildcard of a wildcard is none.
            let bound = if self.peek() == Some(b'?') { None } else { Some(self.name(depth + 1)?) };
            return bound.ok_or(TypeError::Character { offset, found: '?' });
        }
        Ok(JavaType::class("java.lang.Object"))
    }

    fn dimensions(&mut self) -> Result<usize, TypeError> {
        let mut n_dims = 0;
        loop {
            self.space();
            if self.peek() != Some(b'[') {
                return Ok(n_dims);
            }
            self.at += 1;
            self.space();
            if self.peek() != Some(b']') {
                return Err(self.unexpected());
            }
            self.at += 1;
            n_dims += 1;
            if MAX_DEPTH < n_dims {
                return Err(TypeError::TooDeep { offset: self.at, max: MAX_DEPTH });
            }
        }
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> Result<String, TypeError> {
        let rest = self.rest();
        let len = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        if JavaType::MAX_NAME_LEN < len {
            return Err(TypeError::TooLong { offset: self.at, max: JavaType::MAX_NAME_LEN });
        }
        let word = rest.get(..len).unwrap_or_default().to_owned();
        self.at += len;
        Ok(word)
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn unexpected(&self) -> TypeError {
        match self.rest().chars().next() {
            Some(found) => TypeError::Character { offset: self.at, found },
            None => TypeError::End { offset: self.at },
        }
    }
}
