//! A call of which the provider may refuse the form: what its definition says may be out of date.

use std::rc::Rc;
use std::time::Instant;

use flow::Rewrites;
use hessian::ClassType;
use hessian::transcode::Schema;
use hessian::transcode::builtin::Builtin;
use tracing::debug;

use super::{MAX_REWRITES, packed, send_anew, send_till_read};
use crate::args::ArgumentList;
use crate::call::{Outcome, Times};
use crate::error::{CallError, Code};
use crate::invocation::Invocation;
use crate::map_form::MapForm;
use crate::outbound::Outbound;
use crate::resolve::refusal::{RefusedCall, TypesAnswer};
use crate::resolve::{self, by_maps, refusal};
use crate::route::constants::{self, Constant, ConstantRule, NotedConstants};
use crate::route::{Judgement, ParameterTypes, TypesVerdict};
use crate::routes::ClusterRoute;

/// A call that is made in another form, or explained, where its provider refuses it.
pub(super) struct RefusableCall<'a> {
    pub(super) outbound: &'a Outbound,
    pub(super) registry: usize,
    pub(super) invocation: &'a Invocation<'a>,
    pub(super) route: &'a Rc<ClusterRoute>,
    pub(super) times: Times,
}

impl RefusableCall<'_> {
    /// Makes it.
    pub(super) async fn make(self) -> Outcome {
        let mut rewrites = self.rewrites();
        if self.route.plan.is_guess {
            match self.verdict().await {
                TypesVerdict::None => {}
                TypesVerdict::Refused => {
                    check_scalars(self.route, self.invocation)
                        .inspect_err(|error| self.count(error))?;
                    return self.make_generic(&mut rewrites, self.times).await;
                }
                TypesVerdict::Wrong => return self.make_generic(&mut rewrites, self.times).await,
            }
        }
        match send_till_read(self.route, self.invocation, self.times, &mut rewrites).await {
            Err(error) => self.after_failure(error, rewrites).await,
            answered => answered,
        }
    }

    /// What becomes of a call that was sent once, and failed.
    #[cold]
    pub(super) async fn after(self, error: CallError) -> Outcome {
        let (mut rewrites, failed) = (self.rewrites(), Err(error));
        match send_anew(self.route, self.invocation, self.times, &mut rewrites, failed).await {
            Err(error) => self.after_failure(error, rewrites).await,
            answered => answered,
        }
    }

    async fn after_failure(self, error: CallError, rewrites: Rewrites) -> Outcome {
        if error.code == Code::BadArguments
            && error.provider_status.is_none()
            && let Some((form, constants)) = self.unproved()
        {
            return Box::pin(self.by_names(rewrites, form, constants)).await;
        }
        if self.route.plan.is_guess {
            return self.without_definition(error, rewrites).await;
        }
        if !error.is_unreadable() {
            return Err(error);
        }
        let refused = RefusedCall { route: self.route, started: self.times.now };
        let (outbound, invocation) = (self.outbound, self.invocation);
        let explained = refusal::explain(outbound, self.registry, invocation, refused, error);
        Err(Box::pin(explained).await)
    }

    /// The constants in the arguments, if the call was not sent because of one that may be no name
    /// and there is a form in which the provider refuses it.
    fn unproved(&self) -> Option<(MapForm, Vec<Constant>)> {
        let ParameterTypes::Given(types) = &self.route.parameters else { return None };
        let form = self.route.cluster.map_form()?;
        let plan = &self.route.plan;
        let packed = packed(self.route, self.invocation);
        let list = packed.as_ref().map(|texts| ArgumentList::of_texts(texts));
        let constants = list.as_ref().unwrap_or(&self.invocation.args).constants(types, plan);
        let is_taken = |it: &Constant| plan.takes_constant(&it.class, &it.name);
        (!constants.iter().all(is_taken)).then_some((form, constants))
    }

    /// A call with constants that may be no names goes as maps. Its answer proves that they are.
    async fn by_names(
        self,
        mut rewrites: Rewrites,
        form: MapForm,
        constants: Vec<Constant>,
    ) -> Outcome {
        let Self { outbound, registry, invocation, route, times } = self;
        let ParameterTypes::Given(types) = &route.parameters else {
            debug_assert!(false, "such calls have types");
            return Err(CallError::new(Code::Internal, "a call lost its types"));
        };
        // Java makes no `EnumSet` of what is in a generic call.
        let is_enum_set = |class: &ClassType| class.builtin() == Some(Builtin::EnumSet);
        let listed = constants.iter().all(|it| route.plan.lists(it));
        if listed && types.iter().any(|ty| ty.find_class(&is_enum_set).is_some()) {
            route.plan.constants.prove(&constants);
            // Otherwise there are more than a route remembers.
            if constants.iter().all(|it| route.plan.takes_constant(&it.class, &it.name)) {
                return Box::pin(self.make()).await;
            }
        }
        let by_maps = by_maps::route(outbound, registry, invocation, route, types, form)
            .inspect_err(|error| self.count(error))?;
        let anew = RefusableCall { route: &by_maps, ..self };
        let error = match Box::pin(anew.make()).await {
            Ok(reply) => {
                if reply.came.is_some() && !reply.is_unheard && reply.failure.is_none() {
                    route.plan.constants.prove(&constants);
                }
                return Ok(reply);
            }
            Err(error) => error,
        };
        // A map is not always read as the object is. Then the definition has to do.
        let now = Instant::now();
        let is_refused = matches!(error.code, Code::BadArguments | Code::ProviderRejected);
        // Without an endpoint it was not sent, for a value that no form has.
        if !is_refused
            || error.endpoint.is_none()
            || constants::is_no_constant(&error)
            || !listed
            || !rewrites.allow(now, error.retry())
        {
            return Err(error);
        }
        let constants: Vec<Constant> = constants
            .into_iter()
            .filter(|it| !route.plan.takes_constant(&it.class, &it.name))
            .collect();
        route.plan.constants.prove(&constants);
        let times = Times { now, ..times };
        let second = send_till_read(route, invocation, times, &mut rewrites).await;
        if second.is_err() {
            route.plan.constants.forget(&constants);
            return Err(error);
        }
        second
    }

    /// A call whose types a definition tells, which may be out of date, has failed; then a generic
    /// one follows. That has no types, so that Java makes values fit, by cutting them off: it is
    /// made only if the values fit the scalar types that the definition tells. Where the provider
    /// says that it has no method with these types, they count for nothing.
    async fn without_definition(self, error: CallError, mut rewrites: Rewrites) -> Outcome {
        let Self { invocation, route, times, .. } = self;
        match error.code {
            // A generic call was sent with these types, and without them Java would cut values
            // off.
            Code::BadArguments if route.parameters.is_generic() => return Err(error),
            // The arguments do not fit the types: they were not sent.
            Code::BadArguments => check_scalars(route, invocation)?,
            // The provider knows no such method, or not with these types, or cannot read the
            // arguments. All were written, so that they fit.
            Code::MethodNotFound | Code::ProviderRejected => {}
            _ => return Err(error),
        }
        let now = Instant::now();
        if !rewrites.allow(now, error.retry()) {
            return Err(error);
        }
        let second = self.make_generic(&mut rewrites, Times { now, ..times }).await;
        if let Ok(reply) = &second
            && error.code != Code::BadArguments
        {
            Box::pin(self.judge(&error, &reply.endpoint)).await;
        }
        second.map_err(|second| both(route, &error, constants::advise(second, &route.plan)))
    }

    /// Finds out whether the types are to blame for a refusal, after which `answered_by` has
    /// carried out a generic call. One caller's arguments may be to blame, and calls of others go
    /// on with the types: a verdict needs the provider's word on the types.
    async fn judge(&self, refusal: &CallError, answered_by: &str) {
        let judgement = &self.route.plan.judgement;
        let now = Instant::now();
        if judgement.get().is_fresh(now) {
            return;
        }
        // Calls that are refused meanwhile need not ask, too.
        judgement.set(Judgement::new(TypesVerdict::None, now));
        let is_who_refused = |endpoint| refusal.endpoint.as_deref() == Some(endpoint);
        let verdict = match self.ask().await {
            // Another provider may be of another mind.
            Some(answer) if !answer.knows_types && is_who_refused(&*answer.endpoint) => {
                TypesVerdict::Wrong
            }
            Some(_) => TypesVerdict::None,
            // It has carried out a call of this method, so it is not starting or leaving.
            None if refusal.code == Code::MethodNotFound && is_who_refused(answered_by) => {
                TypesVerdict::Refused
            }
            None => TypesVerdict::None,
        };
        judgement.set(Judgement::new(verdict, Instant::now()));
        debug!(service = %self.route.cluster.service, method = &*self.route.method, %refusal,
            ?verdict, "a provider refuses a call with the types of its definition");
    }

    /// What counts against the types. What has counted for long is looked at again.
    async fn verdict(&self) -> TypesVerdict {
        let judgement = &self.route.plan.judgement;
        let (judged, now) = (judgement.get(), self.times.now);
        match judged.verdict() {
            verdict if judged.is_fresh(now) => verdict,
            TypesVerdict::None => TypesVerdict::None,
            // A provider that still refuses the types says so once more.
            TypesVerdict::Refused => {
                judgement.set(Judgement::default());
                TypesVerdict::None
            }
            TypesVerdict::Wrong => {
                // Calls that come meanwhile go by what was known.
                judgement.set(Judgement::new(TypesVerdict::Wrong, now));
                let knows_types = Box::pin(self.ask()).await.is_some_and(|it| it.knows_types);
                if knows_types {
                    judgement.set(Judgement::default());
                }
                judgement.get().verdict()
            }
        }
    }

    /// Asks a provider whether it knows the types.
    async fn ask(&self) -> Option<TypesAnswer> {
        let refused = RefusedCall { route: self.route, started: self.times.now };
        refusal::ask_for_types(self.outbound, self.registry, self.invocation, refused).await
    }

    async fn make_generic(&self, rewrites: &mut Rewrites, times: Times) -> Outcome {
        let Self { outbound, registry, invocation, route, .. } = *self;
        let generic = resolve::generic_instead(outbound, registry, invocation, route)
            .inspect_err(|error| self.count(error))?;
        send_till_read(&generic, invocation, times, rewrites).await
    }

    fn rewrites(&self) -> Rewrites {
        Rewrites::new(self.times.deadline, MAX_REWRITES)
    }

    fn count(&self, error: &CallError) {
        self.route.cluster.count_without_endpoint(self.times.now, error.code);
    }
}

/// Checks that the arguments fit the scalar types that the definition tells, as far as it does.
pub(super) fn check_scalars(
    route: &ClusterRoute,
    invocation: &Invocation<'_>,
) -> Result<(), CallError> {
    let ParameterTypes::Given(types) = &route.parameters else { return Ok(()) };
    let packed = packed(route, invocation);
    let list = packed.as_ref().map(|texts| ArgumentList::of_texts(texts));
    let args = list.as_ref().unwrap_or(&invocation.args);
    // The provider knows the constants of its enums best.
    let noted = NotedConstants::of(&route.plan);
    let schema: &dyn Schema = match route.plan.constants.rule() {
        ConstantRule::Certain => &route.plan,
        _ => &noted,
    };
    args.check_scalars(types, schema, false, |_| false).map_err(|error| {
        let origin = route.plan.schema.as_ref().map_or(String::new(), |it| it.origin.to_string());
        let message = format!(
            "{}; the types come from {origin}; if they are wrong, send the right ones (header \
             x-dubbo-parameter-types)",
            error.summary()
        );
        CallError { message: message.into(), ..error }
    })
}

/// The failure of a call that was tried by its definition, and then as a generic call.
fn both(route: &ClusterRoute, first: &CallError, second: CallError) -> CallError {
    let Some(schema) = &route.plan.schema else { return second };
    let origin = schema.origin.to_string();
    if first.code == Code::BadArguments {
        let message = format!(
            "{} (types from {origin}); a generic call failed, too: {}",
            first.summary(),
            second.summary()
        );
        return CallError { message: message.into(), endpoint: second.endpoint, ..first.clone() };
    }
    let message = format!(
        "{}; the first try, with the types from {origin}, failed: {}",
        second.summary(),
        first.summary()
    );
    CallError { message: message.into(), provider_status: None, ..second }
}
