//! Spellings of Java types.

use super::{JavaType, TypeError};

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
    let mut parser = Parser { text: text.trim(), at: 0 };
    let is_descriptor = match parser.text.as_bytes() {
        [letter] => JavaType::from_letter(*letter).is_some(),
        [b'[', ..] | [b'L', .., b';'] => true,
        _ => false,
    };
    let ty = if is_descriptor { parser.descriptor()? } else { parser.name(0)? };
    match parser.peek() {
        None => Ok(ty),
        Some(_) => Err(parser.unexpected()),
    }
}

/// Whether a class's name could be none: each part of it, package or class, has a name.
fn has_empty_part(name: &str) -> bool {
    name.split('.').any(str::is_empty)
}

impl Parser<'_> {
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
                let name = self.word(|c| c.is_alphanumeric() || "/.$_-".contains(c))?;
                let name = name.replace('/', ".");
                if has_empty_part(&name) || self.peek() != Some(b';') {
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
        if self.peek() == Some(b'?') {
            return self.wildcard(depth);
        }
        let name = self.word(|c| c.is_alphanumeric() || "._$-".contains(c))?;
        // Three points for an array of variable length look like part of the name.
        let (name, n_varargs) = match name.strip_suffix("...") {
            Some(name) => (name.to_owned(), 1),
            None => (name.to_owned(), 0),
        };
        if has_empty_part(&name) {
            return Err(self.unexpected());
        }
        let mut args = Vec::new();
        self.space();
        if self.peek() == Some(b'<') {
            loop {
                self.at += 1;
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
        let rest = self.rest();
        if rest.starts_with("extends ") {
            self.at += "extends ".len();
            return self.name(depth + 1);
        }
        if rest.starts_with("super ") {
            self.at += "super ".len();
            return self.name(depth + 1);
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
        while self.peek() == Some(b' ') {
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
