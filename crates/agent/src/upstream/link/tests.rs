use link_proto::SendError;
use wire::{Budget, Group};

use super::request::not_taken_whole;
use super::*;
use crate::memory::Memory;
use crate::upstream::Setup;

fn peer() -> LinkPeer {
    let memory = Memory::new(Budget::new(usize::MAX), Group::new()).endpoint();
    let setup = SharedSetup::new(Setup::new(&crate::config::ClusterPolicy::default()));
    LinkPeer::new("h:1", "test", setup, Rc::new(memory), Threads::one_per_core())
}

fn error(status: Status, payload: &'static [u8]) -> CallError {
    let outcome = peer().outcome(status, codec::UNSET, payload.into(), None);
    let error = outcome.expect_err("it is no answer");
    assert_eq!(error.endpoint.as_deref(), Some("h:1"));
    error
}

#[test]
fn a_providers_status_arrives_through_its_agent() {
    let failed = error(Status::DUBBO_STATUS, b"\x46broken");
    assert_eq!(failed.provider_status, Some(DubboStatus::from_u8(0x46)));
    assert_eq!(&*failed.message, "broken");
    assert_eq!(error(Status::DUBBO_STATUS, b"").code, Code::BadReply);
}

#[test]
fn what_an_agent_says_of_a_call_has_a_code() {
    assert_eq!(error(Status::BAD_REQUEST, b"x").code, Code::BadArguments);
    assert_eq!(error(Status::OVERLOADED, b"x").code, Code::Overloaded);
    assert_eq!(error(Status::UPSTREAM_UNREACHABLE, b"x").code, Code::Unreachable);
    assert!(peer().outcome(Status::OK, codec::UNSET, bytes::Bytes::new(), None).is_ok());
}

/// Modulo 32, this number is hessian2's.
#[test]
fn an_answer_in_an_unknown_codec_is_no_answer() {
    let outcome = peer().outcome(Status::OK, 34, bytes::Bytes::from_static(b"\x91"), None);
    let error = outcome.expect_err("nobody can read it");
    assert_eq!((error.code, error.endpoint.as_deref()), (Code::BadReply, Some("h:1")));
    assert!(error.message.contains("codec 34"), "{error}");
}

/// Only a change is news: whoever waits for the service is woken for nothing else.
#[test]
fn an_app_that_goes_and_comes_back_is_noticed_once() {
    let peer = peer();
    assert!(!peer.set_away("a.B", false), "it was never away");
    assert!(peer.set_away("a.B", true));
    assert!(!peer.set_away("a.B", true));
    assert!(peer.is_away("a.B") && !peer.is_away("a.C"));
    assert!(peer.set_away("a.C", true));
    assert!(peer.set_away("a.B", false));
    assert!(!peer.is_away("a.B") && peer.is_away("a.C"));
}

/// An older agent refuses the route of whole requests by its name. Nothing was begun.
#[test]
fn an_agent_that_is_too_old_is_named() {
    let old = not_taken_whole(CallError::new(Code::ProviderRejected, "method"));
    assert_eq!(old.code, Code::Refused);
    assert!(old.message.ends_with("upgrade it"), "{old}");
    let other = not_taken_whole(CallError::new(Code::Unreachable, "away"));
    assert_eq!((other.code, &*other.message), (Code::Unreachable, "away"));
}

#[test]
fn each_refusal_to_send_has_its_code() {
    for (error, code) in [
        (SendError::NoCredit, Code::Overloaded),
        (SendError::BufferFull, Code::Overloaded),
        (SendError::NotReady, Code::Unreachable),
        (SendError::Closing, Code::Unreachable),
        (SendError::TooLarge { len: 2, max: 1 }, Code::BodyTooLarge),
        (SendError::TooManyEntries { n: 2, max: 1 }, Code::BodyTooLarge),
        (SendError::RoutesFull { max: 0 }, Code::Refused),
    ] {
        assert_eq!(refused(&error).code, code, "{error}");
    }
    let too_large = refused(&SendError::TooLarge { len: 2, max: 1 }).message;
    assert!(too_large.contains("2 bytes, the limit is 1; the provider"), "{too_large}");
}
