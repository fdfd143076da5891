//! Calls that end before an endpoint is asked, and what their callers are told.

use super::refusable::check_scalars;
use super::*;
use crate::args::parse_types;
use crate::invocation::CallOrigin;
use crate::route::Plan;
use crate::routes::NewRoute;
use crate::testing::{on_worker, worker_setup};
use crate::worker::Worker;

const SERVICE: &str = "com.acme.Echo";

fn invocation<'a>(types: Option<&'a str>, body: &'a str) -> Invocation<'a> {
    Invocation {
        name: RouteName {
            interface: SERVICE,
            version: "",
            group: "",
            method: "echo",
            types,
            generic: None,
        },
        args: ArgumentList::json(body.as_bytes()).unwrap(),
        timeout: None,
        timeout_key: "",
        attachments: Vec::new(),
        origin: CallOrigin::default(),
        clock: None,
        is_copy: false,
        not_at: None,
    }
}

fn worker() -> Rc<Worker> {
    Worker::new(worker_setup(Vec::new()))
}

/// A route of the method with these types, as a definition tells.
fn route(worker: &Worker, types: &str, plan: Plan) -> Rc<ClusterRoute> {
    let name = invocation(None, "[]").name;
    let service = ServiceKey::new(SERVICE, "", "").unwrap();
    let cluster = worker.outbound.cluster(0, service).unwrap();
    let parameters = ParameterTypes::Given(parse_types(types).unwrap());
    worker.outbound.routes.insert(0, &name, 9, NewRoute { cluster, parameters, plan }).unwrap()
}

#[test]
fn nothing_is_called_by_an_agent_that_shuts_down() {
    on_worker(async || {
        let worker = worker();
        worker.outbound.stop();
        let call = invocation(Some("int"), "[1]");
        let outcome = invoke(&worker.outbound, 0, &call, Instant::now()).await;
        assert_eq!(outcome.unwrap_err().code, Code::Draining);
    });
}

#[test]
fn a_call_that_nobody_can_take_ends_at_once() {
    on_worker(async || {
        let worker = worker();
        for (types, code) in [("int", Code::ServiceNotFound), ("List<", Code::BadRequest)] {
            let call = invocation(Some(types), "[1]");
            let outcome = invoke(&worker.outbound, 0, &call, Instant::now()).await;
            assert_eq!(outcome.unwrap_err().code, code, "{types}");
        }
    });
}

#[test]
fn scalars_have_to_fit_the_types_of_a_definition() {
    on_worker(async || {
        let worker = worker();
        let route = route(&worker, "int,java.lang.String", Plan::default());
        for (body, fits) in [
            ("[1, \"a\"]", true),
            ("[3000000000, \"a\"]", false),
            ("[1.5, \"a\"]", false),
            ("[true, \"a\"]", false),
        ] {
            let checked = check_scalars(&route, &invocation(None, body));
            assert_eq!(checked.is_ok(), fits, "{body}: {checked:?}");
            if let Err(error) = checked {
                assert_eq!(error.code, Code::BadArguments);
                assert!(error.message.contains("x-dubbo-parameter-types"), "{}", error.message);
            }
        }
    });
}

#[test]
fn the_last_arguments_go_into_an_array_where_a_method_takes_any_number() {
    on_worker(async || {
        let worker = worker();
        let texts = |plan, body| {
            let route = route(&worker, "java.lang.String,int[]", plan);
            let packed = packed(&route, &invocation(None, body))?;
            Some(packed.into_iter().map(|it| String::from_utf8(it).unwrap()).collect::<Vec<_>>())
        };
        let any_number = || Plan { n_packed: Some(2), ..Plan::default() };
        let one = || Plan { may_pack: true, ..Plan::default() };
        assert_eq!(texts(any_number(), "[\"a\",1,2]").unwrap(), ["\"a\"", "[1,2]"]);
        assert_eq!(texts(one(), "[\"a\",1]").unwrap(), ["\"a\"", "[1]"]);
        assert_eq!(texts(one(), "[\"a\",[1]]"), None, "it is an array already");
        assert_eq!(texts(Plan::default(), "[\"a\",1]"), None, "nothing says so");
    });
}

/// An endpoint that was asked with the last of the time is not to blame.
#[test]
fn a_call_that_waited_for_the_registry_says_so() {
    let second = std::time::Duration::from_secs(1);
    let Some(started) = Instant::now().checked_sub(second) else { return };
    let told = |code, look_up_ms| {
        let mut error = CallError::new(code, "no answer from h:1 within 1000 ms").at("h:1");
        blame_look_up(&mut error, look_up_ms, started);
        String::from(error.message)
    };
    let blamed = told(Code::Timeout, 990);
    assert!(blamed.contains("1000 ms; 990 ms of this passed before the call was sent"), "{blamed}");
    let fair = "no answer from h:1 within 1000 ms";
    assert_eq!(told(Code::Timeout, 20), fair);
    assert_eq!(told(Code::Timeout, 0), fair);
    assert_eq!(told(Code::Unreachable, 990), fair);
}
