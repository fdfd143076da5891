//! A list in the configuration changes with a reload.

use crate::support::{Behaviour, FakeProvider, SERVICE, STRING, block_on, call, wait_until};
use agent::{Agent, config};

fn listing(endpoints: &str) -> config::Config {
    let text = format!(
        "[admin]\nenabled = false\n[[registry]]\nkind = \"static\"\n[[registry.service]]\n\
         interface = \"{SERVICE}\"\nendpoints = [{endpoints}]\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n"
    );
    config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_reload_moves_calls_to_the_new_list() {
    let [old, new] = [0; 2].map(|_| FakeProvider::start(Behaviour::Good));
    let agent = Agent::start(listing(&format!("\"dubbo://{}\"", old.addr))).unwrap();
    let echo = || call(&agent, "echo", &[STRING], "[\"x\"]").status;
    wait_until("an answer", || (echo() == 200).then_some(()));

    let plan = block_on(agent.reload(listing(&format!("\"dubbo://{}\"", new.addr)))).unwrap();
    assert_eq!(plan.changed, ["registry.service of main"]);
    assert_eq!(plan.needs_restart, [""; 0]);
    wait_until("a call of the new provider", || {
        assert_eq!(echo(), 200, "no call is lost");
        (0 < new.n_requests()).then_some(())
    });

    // The same list again is no change.
    let plan = block_on(agent.reload(listing(&format!("\"dubbo://{}\"", new.addr)))).unwrap();
    assert!(plan.is_empty(), "{plan:?}");
}

/// Nothing in such a list has a lease that could end by mistake.
#[test]
fn what_a_reload_takes_off_the_list_gets_no_call_though_it_answers() {
    let providers = [0; 3].map(|_| FakeProvider::start(Behaviour::Good));
    let list = |n: usize| {
        let quoted = providers[..n].iter().map(|it| format!("\"dubbo://{}\"", it.addr));
        listing(&quoted.collect::<Vec<_>>().join(", "))
    };
    let agent = Agent::start(list(3)).unwrap();
    let echo = || call(&agent, "echo", &[STRING], "[\"x\"]");
    wait_until("a call of each", || {
        echo();
        providers.iter().all(|it| 0 < it.n_requests()).then_some(())
    });
    let n_calls = || providers.each_ref().map(FakeProvider::n_requests);
    for (n_left, status) in [(1, 200), (0, 503)] {
        block_on(agent.reload(list(n_left))).unwrap();
        wait_until("the list", || {
            let before = n_calls();
            let is_over = (0..20).all(|_| echo().status == status);
            (is_over && before[n_left..] == n_calls()[n_left..]).then_some(())
        });
    }
}
