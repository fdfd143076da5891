//! References in JSON that become references in Hessian, by the numbers of what they name.

use java_json::references;

use super::{JsonToHessian, TranscodeError};

impl JsonToHessian<'_, '_, '_, '_, '_> {
    /// Begins an array or object, whose number in the message is the next.
    pub(super) fn enter(&mut self) {
        if let Some(places) = &mut self.places {
            places.enter(self.enc.ref_count());
        }
    }

    pub(super) fn leave(&mut self) {
        if let Some(places) = &mut self.places {
            places.leave();
        }
    }

    /// Whether an object with the member `$ref` comes next.
    pub(super) fn is_ref(&mut self) -> Result<bool, TranscodeError> {
        self.json.peek()?;
        Ok(references::is_ref(self.json)?)
    }

    /// Writes what the object with the member `$ref` names.
    pub(super) fn reference(&mut self) -> Result<(), TranscodeError> {
        let offset = self.json.position();
        let mut object = self.json.begin_object()?;
        self.json.next_key(&mut object)?;
        let path = self.json.read_string()?;
        let is_alone = self.json.next_key(&mut object)?.is_none();
        let number =
            self.places.as_ref().filter(|_| is_alone).and_then(|places| places.find(&path));
        let expected = "a reference to an array or object that began before";
        self.enc.reference(number.ok_or_else(|| self.wrong_value(offset, expected))?);
        Ok(())
    }
}
