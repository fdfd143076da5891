//! Tests of the decoder on bytes written by hand.
