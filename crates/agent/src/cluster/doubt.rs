//! What a call ends with that several endpoints have had.
//!
//! The last failure may say that nobody has begun the call, while an endpoint before may have
//! carried it out. Then that one's failure is told. Callers make a call again that nobody has
//! begun.

use crate::error::CallError;

/// The first failure of a call after which it may have been carried out.
#[derive(Debug, Default)]
pub struct Doubt(Option<Box<CallError>>);

impl Doubt {
    /// What is left of a call that has failed like this.
    pub fn of(error: &CallError) -> Self {
        let mut doubt = Self::default();
        doubt.note(error);
        doubt
    }

    /// The call has failed at one more endpoint.
    pub fn note(&mut self, error: &CallError) {
        if self.0.is_none() && !error.retry().is_unbegun() {
            self.0 = Some(Box::new(error.clone()));
        }
    }

    /// What the caller is told when the last endpoint has said this.
    pub fn told(self, last: CallError) -> CallError {
        match self.0 {
            Some(first) if last.retry().is_unbegun() => {
                let then = last.code.row().name;
                let message = format!("{}; another try ended with {then}", first.message);
                CallError { message: message.into(), ..*first }
            }
            _ => last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn what_may_have_been_carried_out_is_not_called_unbegun() {
        let error = |code| CallError::new(code, "text").at("h:1");
        let full = || error(Code::ThreadPoolExhausted);
        assert_eq!(Doubt::default().told(full()), full());
        assert_eq!(Doubt::of(&full()).told(full()), full());
        let mut doubt = Doubt::of(&error(Code::Timeout));
        doubt.note(&error(Code::ConnectionBroken));
        let told = doubt.told(full());
        assert_eq!(told.code, Code::Timeout);
        assert_eq!(&*told.message, "text; another try ended with thread_pool_exhausted");
        let exception = error(Code::Exception);
        assert_eq!(Doubt::of(&error(Code::Timeout)).told(exception.clone()), exception);
    }
}
