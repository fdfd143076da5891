//! What a caller asks for by names and in JSON.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use flow::queue::CallerId;
use http::HeaderMap;

use crate::args::ArgumentList;
use crate::call::{Call, ONE_WAY, Payload, RoutedCall, Times};
use crate::route::{Route, RouteName};
use crate::stages::StageClock;

/// What a caller asks for, not yet checked.
///
/// This is no [`Call`], but what calls are made of: the method has names and no route yet, and how
/// long the call may take is known only with the route. Calls are as many as it takes, for each
/// may be of another route, with the arguments packed in another way.
pub struct Invocation<'a> {
    /// What is called.
    pub name: RouteName<'a>,
    /// With which arguments.
    pub args: ArgumentList<'a>,
    /// How long the caller wants to wait; the service's own timeout if it does not say.
    pub timeout: Option<Duration>,
    /// How the caller says that, for messages.
    pub timeout_key: &'static str,
    /// Attachments of this call.
    pub attachments: Vec<(&'a str, &'a str)>,
    /// Who asks.
    pub origin: CallOrigin<'a>,
    /// What stops the time of its stages, if anything does.
    pub clock: Option<Rc<StageClock>>,
    /// Whether it is a copy of a call, and goes by no rule for methods.
    pub is_copy: bool,
    /// The address of an endpoint whose answer was of no use.
    pub not_at: Option<Rc<str>>,
}

/// The caller of what an agent sends of its own accord: copies, and calls that it makes again.
pub(crate) const THIS_AGENT: CallerId = CallerId::known(0);

/// What is known of who makes a call, besides what the call itself says.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallOrigin<'a> {
    /// The caller, among those who take turns where calls wait.
    pub caller: CallerId,
    /// The address that it comes from.
    pub address: Option<IpAddr>,
    /// The headers that it came with, if it came by HTTP.
    pub headers: Option<&'a HeaderMap>,
}

impl<'a> Invocation<'a> {
    /// The invocation as a call of a route, with the arguments that the route wants.
    pub(crate) fn call(
        &'a self,
        route: &'a Rc<Route>,
        args: &'a ArgumentList<'a>,
        times: Times,
    ) -> RoutedCall<'a> {
        let attachments = &self.attachments;
        let one_way = attachments.contains(&ONE_WAY);
        let (payload, clock) = (Payload::Json(args), self.clock.as_ref());
        let headers = self.origin.headers;
        let not_at = self.not_at.as_deref();
        Call { method: route, payload, attachments, times, one_way, clock, headers, not_at }
    }
}
