//! Tests of single rules of the state machine.
