//! Values of java.time in the texts that fastjson 1.x reads.

use hessian::transcode::{hessian_to_json, json_to_hessian};
use hessian::{Decoder, Encoder};
use java_json::{JavaType, JsonOptions, Limits};

use super::Writer;
use crate::values::ValueError;

impl Writer<'_, '_, '_> {
    /// A value as the text that its class makes of it.
    pub(super) fn as_java_writes_it(
        &mut self,
        start: usize,
        class: &str,
    ) -> Result<(), ValueError> {
        let text = self.java_text(class)?;
        self.put(start, |out| out.extend_from_slice(&text));
        Ok(())
    }

    fn java_text(&mut self, class: &str) -> Result<Vec<u8>, ValueError> {
        let (ty, mut bytes) = (JavaType::class(class), Vec::new());
        json_to_hessian(&mut self.json, Some(&ty), &mut Encoder::new(&mut bytes))?;
        let (mut text, options) = (Vec::new(), JsonOptions::default());
        let mut decoder = Decoder::new(&bytes, Limits::of_whole());
        hessian_to_json(&mut decoder, &mut text, &options)?;
        Ok(text)
    }

    /// A `LocalDateTime`, with seconds, and with no digit or nine behind them. fastjson 1.2.83
    /// takes `.5` for 5 milliseconds, and reads a text without seconds, or with milliseconds, by
    /// the Julian calendar where that was in use.
    pub(super) fn local_date_time(&mut self, start: usize) -> Result<(), ValueError> {
        const SECONDS_LEN: usize = "T10:30:00".len();
        const NANOS_LEN: usize = ".123456789".len();
        let mut text = self.java_text("java.time.LocalDateTime")?;
        if text.pop_if(|last| *last == b'"').is_some() {
            let time = text.iter().rposition(|byte| *byte == b'T').unwrap_or(text.len());
            match text.len() - time {
                len if len < SECONDS_LEN => text.extend_from_slice(b":00"),
                SECONDS_LEN => {}
                _ => text.resize(time + SECONDS_LEN + NANOS_LEN, b'0'),
            }
            text.push(b'"');
        }
        self.put(start, |out| out.extend_from_slice(&text));
        Ok(())
    }
}
