//! Several links to one provider's agent: when they end in order, break, or carry nothing more.

use std::time::{Duration, Instant};

use agent::Agent;
use registry::MemoryHub;

use crate::support::load::BackgroundLoad;
use crate::support::network::Network;
use crate::support::{
    Behaviour, FakeProvider, Registered, block_on, consumer_with_metrics, n_calls, provider_agent,
    register_link, start, wait_until,
};

const N_LINKS: usize = 3;
const N_CALLERS: usize = 12;
/// How long a call may take.
const TIMEOUT: Duration = Duration::from_millis(500);

/// A provider behind an agent, and an agent of one worker that has several links to it.
struct Linked {
    consumers: Agent,
    network: Network,
    _providers: (Agent, FakeProvider, Registered),
}

impl Linked {
    fn start() -> Self {
        let (near, far) = (MemoryHub::default(), MemoryHub::default());
        let provider = FakeProvider::start(Behaviour::Good);
        let providers = provider_agent(&far, provider.addr);
        let network = Network::start(providers.addresses().link.unwrap());
        let registered = register_link(&near, network.address);
        let text = format!(
            "[admin]\nenabled = false\n[agent]\nworkers = 1\n\
             [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
             [defaults]\nconnections = {N_LINKS}\ntimeout_ms = {}\n",
            TIMEOUT.as_millis()
        );
        let consumers = start(&text, &near);
        let linked = Self { consumers, network, _providers: (providers, provider, registered) };
        linked.warm_up();
        linked
    }

    /// Calls until all links are there.
    fn warm_up(&self) {
        let load = BackgroundLoad::start(&self.consumers, 4);
        wait_until("the links", || (self.network.n_made() == N_LINKS).then_some(()));
        load.wait_for(200);
        assert_eq!(load.stop(), Vec::<String>::new());
    }
}

/// Its peer answers by the others, so that nobody would take the endpoint for silent.
#[test]
fn a_link_that_is_lost_without_a_word_gets_no_more_calls() {
    for nth in [0, 1] {
        let linked = Linked::start();
        let load = BackgroundLoad::start(&linked.consumers, N_CALLERS);
        load.wait_for(500);
        linked.network.lose(nth);
        wait_until("the end of its calls", || (0 < load.n_failed()).then_some(()));
        load.wait_for(300);
        // Its share of the callers would fail again and again.
        let (n_failed, since) = (load.n_failed(), Instant::now());
        while since.elapsed() < 3 * TIMEOUT {
            load.wait_for(100);
        }
        let failures = load.stop();
        let n_more = failures.len() - n_failed;
        assert!(n_more <= N_CALLERS / N_LINKS, "{nth}: {n_failed}, {n_more} more: {failures:?}");
    }
}

#[test]
fn a_link_that_breaks_fails_its_own_calls_only_and_comes_back() {
    let linked = Linked::start();
    for nth in [0, 1] {
        let load = BackgroundLoad::start(&linked.consumers, 8);
        load.wait_for(500);
        linked.network.cut(nth);
        wait_until("its successor", || {
            (linked.network.n_made() == N_LINKS + 1 + nth).then_some(())
        });
        load.wait_for(1000);
        let failures = load.stop();
        let is_broken = |it: &String| it.starts_with("502 ") && it.contains("broken");
        // One that stands for the endpoint has new calls refused until it is back.
        let is_refused = |it: &String| nth == 0 && it.starts_with("503 ");
        assert!(failures.iter().all(|it| is_broken(it) || is_refused(it)), "{nth}: {failures:?}");
        let n_broken = failures.iter().filter(|it| is_broken(it)).count();
        assert!(n_broken <= 8, "{nth}: {failures:?}");
    }
}

/// Each of the links says goodbye, and none of them takes a call that it would not answer.
#[test]
fn an_agent_that_leaves_fails_no_call_on_any_of_its_links() {
    let (near, far) = (MemoryHub::default(), MemoryHub::default());
    let providers = [(); 2].map(|()| FakeProvider::start(Behaviour::Slow));
    let agents = providers.each_ref().map(|it| provider_agent(&far, it.addr));
    let links = agents.each_ref().map(|agent| agent.addresses().link.unwrap());
    let _registered = links.map(|link| register_link(&near, link));
    let keys = format!("[defaults]\nconnections = {N_LINKS}\n");
    let consumers = consumer_with_metrics(&near, &keys);
    let load = BackgroundLoad::start(&consumers, 16);
    wait_until("calls at both", || {
        links.iter().all(|link| 50 <= n_calls(&consumers, *link, "ok")).then_some(())
    });
    let [first, _second] = agents;
    assert!(block_on(first.drain()).unwrap().complete);
    load.wait_for(200);
    assert_eq!(load.stop(), Vec::<String>::new());
}
