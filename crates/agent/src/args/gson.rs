//! What is checked of arguments that the provider's Gson reads (`generic=gson`).

use hessian::json::JsonReader;
use hessian::transcode::{InputOptions, Schema, TranscodeError, json_to_hessian_by};
use hessian::{Encoder, JavaType, Limits};
use java_json::number::{GENERIC_NUMBER, InGenericCall};

use super::{ArgumentList, bad_argument};
use crate::error::CallError;

impl ArgumentList<'_> {
    /// Refuses whole numbers beyond 64 bits whose type is not known, as in other generic calls:
    /// for a `long`, Gson makes the nearest one of them.
    ///
    /// # Errors
    /// [`Code::BadArguments`](crate::error::Code::BadArguments) with such a number.
    pub fn check_gson_numbers(
        &self,
        types: &[JavaType],
        schema: &dyn Schema,
    ) -> Result<(), CallError> {
        for index in 0..self.len() {
            let ty = types.get(index);
            let text = self.json_at(index, ty);
            if !InGenericCall::may_have_nothing(&text) {
                continue;
            }
            let options = InputOptions { schema, as_maps: true, ..InputOptions::default() };
            let (mut reader, mut unused) = (JsonReader::new(&text, Limits::of_whole()), Vec::new());
            let written =
                json_to_hessian_by(&mut reader, ty, &mut Encoder::new(&mut unused), &options);
            // What else does not fit has been looked at, or is for the provider to say.
            if let Err(TranscodeError::Value { offset, found, expected }) = written
                && *expected == *GENERIC_NUMBER
            {
                let what = format!(
                    "JSON at byte {offset}: {found} is beyond 64 bits, and the provider's Gson may \
                     change it; send the parameter types"
                );
                return Err(bad_argument(index, ty, &what));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn whole_numbers_beyond_64_bits_need_a_type() {
        let check = |body: &str, types: &[&str]| {
            let types: Vec<_> = types.iter().map(|ty| JavaType::parse(ty).unwrap()).collect();
            ArgumentList::json(body.as_bytes()).unwrap().check_gson_numbers(&types, &())
        };
        for body in ["[9223372036854775808]", "[1,{\"a\":[-9223372036854775809]}]"] {
            let error = check(body, &[]).unwrap_err();
            assert_eq!(error.code, Code::BadArguments);
            assert!(error.message.contains("beyond 64 bits"), "{}", error.message);
        }
        let error = check("[9223372036854775808]", &[]).unwrap_err();
        let place = "argument 0: JSON at byte 0: 9223372036854775808 is beyond 64 bits";
        assert!(error.message.starts_with(place), "{}", error.message);
        for (body, ty) in [
            ("[9223372036854775807]", None),
            ("[\"9223372036854775808\"]", None),
            ("[9223372036854775808]", Some("java.math.BigInteger")),
            ("[[9223372036854775808]]", Some("java.util.List<java.math.BigInteger>")),
            ("[\"Dec 31, 1999\"]", Some("java.util.Date")),
        ] {
            assert_eq!(check(body, ty.as_slice()).map_err(|error| error.message), Ok(()), "{body}");
        }
    }
}
