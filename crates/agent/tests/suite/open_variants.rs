//! Callers that leave version or group open: each endpoint is called by those of its own.

use crate::support::dubbo::{DubboConsumer, body_of_version};
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, consumer, dubbo_consumer, dubbo_exporting,
    exporting, register_service, wait_until,
};
use agent::{Agent, config};
use dubbo_proto::{Serialization, Status};
use registry::MemoryHub;

const IN_TURN: &str = "[defaults]\nbalance = \"round-robin\"\n";

/// Two providers of one interface, with the version and group of each.
struct TwoVariants([FakeProvider; 2]);

const VARIANTS: [(&str, &str); 2] = [("1.0", "a"), ("2.0", "b")];

impl TwoVariants {
    fn start() -> Self {
        Self([(), ()].map(|()| FakeProvider::start(Behaviour::Good)))
    }

    /// Agents of the providers, made from the lines of an export.
    fn agents(&self, agent: impl Fn(&str) -> Agent) -> [Agent; 2] {
        [0, 1].map(|at| {
            let ((version, group), app) = (VARIANTS[at], self.0[at].addr);
            agent(&format!(
                "interface = \"{SERVICE}\"\nversion = \"{version}\"\ngroup = \"{group}\"\n\
                 app = \"dubbo://{app}\"\n"
            ))
        })
    }

    /// Makes calls until each provider has had some. Whatever is called, a provider is called by
    /// its own version and group only.
    fn both_get(&self, what: &str, mut call: impl FnMut()) {
        let before = self.0.each_ref().map(FakeProvider::n_requests);
        wait_until(what, || {
            call();
            let had = self.0.iter().zip(before).filter(|(it, before)| *before < it.n_requests());
            (had.count() == 2).then_some(())
        });
        for (provider, (version, group)) in self.0.iter().zip(VARIANTS) {
            let request = provider.last_request();
            let attached = |name| request.attachment(name);
            assert_eq!((request.version(), attached("group")), (version, Some(group)), "{what}");
            assert!(attached("version").is_none_or(|it| it == version), "{what}");
        }
    }

    fn serve_open_callers(&self, hub: &MemoryHub) {
        let agent = consumer(hub, IN_TURN);
        let any = ["x-dubbo-service-version: *", "x-dubbo-service-group: *"];
        let listed = ["x-dubbo-service-version: *", "x-dubbo-service-group: a,b"];
        let mut http = Http::to(&agent);
        wait_until("both endpoints", || {
            let statuses = [(); 4].map(|()| post(&mut http, &any, &[STRING]).0);
            (statuses == [200; 4]).then_some(())
        });
        for open in [&any, &listed] {
            self.both_get("a call", || {
                assert_eq!(post(&mut http, open, &[STRING]), (200, "\"vip\"".to_owned()));
            });
            self.both_get("a call without types", || {
                assert_eq!(post(&mut http, open, &[]), (200, "\"generic echo\"".to_owned()));
            });
        }
        let agent = dubbo_consumer(hub, IN_TURN);
        let mut consumer = DubboConsumer::to(&agent);
        for group in ["*", "a,b"] {
            self.both_get("a Dubbo consumer", || {
                let attached = [("version", "*"), ("group", group), ("colour", "red")];
                let body = body_of_version("*", SERVICE, "attachment", "", &attached);
                consumer.send(Serialization::Hessian2, &body, 1);
                let answer = consumer.answer().1;
                assert_eq!((answer.status, answer.value()), (Status::Ok, &b"\x03red"[..]));
            });
        }
    }
}

fn post(http: &mut Http, open: &[&str; 2], more: &[&str]) -> (u16, String) {
    let headers = [&open[..], more].concat();
    let answer = http.post(&format!("/{SERVICE}/echo"), &headers, "[\"vip\"]");
    (answer.status, answer.body)
}

#[test]
fn straight_to_providers() {
    let (hub, providers) = (MemoryHub::new(), TwoVariants::start());
    let _registered = [0, 1].map(|at| {
        let (version, group) = VARIANTS[at];
        register_service(&hub, &format!("{group}/{SERVICE}:{version}"), providers.0[at].addr)
    });
    providers.serve_open_callers(&hub);
}

#[test]
fn over_links() {
    let (hub, providers) = (MemoryHub::new(), TwoVariants::start());
    let _agents = providers.agents(|export| exporting(&hub, export));
    providers.serve_open_callers(&hub);
}

#[test]
fn by_the_dubbo_listeners_of_agents() {
    let (own, hub, providers) = (MemoryHub::new(), MemoryHub::new(), TwoVariants::start());
    let agents = providers.agents(|export| dubbo_exporting(&own, export));
    let _registered = [0, 1].map(|at| {
        let (version, group) = VARIANTS[at];
        let listener = agents[at].addresses().dubbo_exports.unwrap();
        register_service(&hub, &format!("{group}/{SERVICE}:{version}"), listener)
    });
    providers.serve_open_callers(&hub);
}

/// The version and group of an endpoint of a list are those of its section.
#[test]
fn endpoints_of_a_list_are_called_by_those_of_their_section() {
    let providers = TwoVariants::start();
    let sections: String = VARIANTS
        .iter()
        .zip(&providers.0)
        .map(|((version, group), provider)| {
            format!(
                "[[registry.service]]\ninterface = \"{SERVICE}\"\nversion = \"{version}\"\n\
                 group = \"{group}\"\nendpoints = [\"dubbo://{}\"]\n",
                provider.addr
            )
        })
        .collect();
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 1\n\
         [[registry]]\nname = \"main\"\nkind = \"static\"\n{sections}\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n{IN_TURN}"
    );
    let agent = Agent::start(config::parse(&text, "test.toml").unwrap()).unwrap();
    let mut http = Http::to(&agent);
    let any = ["x-dubbo-service-version: *", "x-dubbo-service-group: *"];
    providers.both_get("a call", || {
        assert_eq!(post(&mut http, &any, &[STRING]).0, 200);
    });
}
