//! Places in JSON text, for messages.

use super::{JsonError, JsonKind, JsonReader};
use crate::Limits;

/// Where in the text `offset` lies, as `$.orders[2].id`; for messages, after an error.
#[must_use]
pub fn path_at(text: &[u8], offset: usize) -> String {
    let mut path = String::from("$");
    let mut reader = JsonReader::new(text, Limits::of_whole());
    // An error ends the walk: the path so far is the answer.
    let _ = walk_to(&mut reader, offset, &mut path);
    path
}

/// Extends `path` by the members that lead to `offset`. Whether the offset was in this value.
fn walk_to(
    reader: &mut JsonReader<'_>,
    offset: usize,
    path: &mut String,
) -> Result<bool, JsonError> {
    use std::fmt::Write as _;
    let kind = reader.peek()?;
    if offset <= reader.pos {
        return Ok(true);
    }
    let len = path.len();
    match kind {
        JsonKind::Array => {
            let mut array = reader.begin_array()?;
            let mut index = 0usize;
            while reader.next_element(&mut array)? {
                let _ = write!(path, "[{index}]");
                if walk_to(reader, offset, path)? || offset < reader.pos {
                    return Ok(true);
                }
                path.truncate(len);
                index += 1;
            }
        }
        JsonKind::Object => {
            let mut object = reader.begin_object()?;
            while let Some(key) = reader.next_key(&mut object)? {
                let _ = write!(path, ".{key}");
                if walk_to(reader, offset, path)? || offset < reader.pos {
                    return Ok(true);
                }
                path.truncate(len);
            }
        }
        _ => {
            reader.skip_value()?;
        }
    }
    Ok(offset < reader.pos)
}
