//! An endpoint that says goodbye before it goes is no reason for a warning.

use std::net::SocketAddr;

use dubbo_proto::Status;
use registry::MemoryHub;

use crate::support::dubbo::DubboConsumer;
use crate::support::log::log;
use crate::support::{
    Behaviour, FakeProvider, STRING, block_on, call, consumer, dubbo_consumer, provider_agent,
    register, wait_until,
};

/// The lines of the log about an endpoint that contain a text.
fn logged(endpoint: SocketAddr, text: &str) -> Vec<String> {
    let (lines, of_endpoint) = (log().lock().unwrap(), format!("endpoint={endpoint} "));
    let is_wanted = |line: &&String| line.contains(&of_endpoint) && line.contains(text);
    lines.iter().filter(is_wanted).cloned().collect()
}

#[test]
fn a_restart_of_a_providers_agent_is_no_warning() {
    log();
    let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Good));
    let agent = provider_agent(&hub, provider.addr);
    let consumer = consumer(&hub, "");
    wait_until("an answer", || {
        (call(&consumer, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let link = agent.addresses().link.unwrap();
    block_on(agent.drain());
    wait_until("the goodbye", || logged(link, "agent is leaving").pop());
    // It is looked for again, so the connection is known to have ended.
    wait_until("the end of its calls", || {
        (call(&consumer, "echo", &[STRING], "[\"x\"]").status == 503).then_some(())
    });
    assert!(logged(link, "agent is leaving").iter().all(|line| line.contains("reason=shutdown")));
    assert_eq!(logged(link, "text="), [""; 0]);
    block_on(consumer.drain());
    assert_eq!(logged(link, "WARN"), [""; 0]);
}

#[test]
fn a_provider_that_is_readonly_first_is_no_warning_and_another_is() {
    log();
    for says_goodbye in [true, false] {
        let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Good));
        let _registered = register(&hub, provider.addr);
        // It has one worker, and so one connection.
        let agent = dubbo_consumer(&hub, "");
        let mut consumer = DubboConsumer::to(&agent);
        let mut is_good = || consumer.call("echo", "x", &[]).status == Status::Ok;
        wait_until("an answer", || is_good().then_some(()));
        if says_goodbye {
            provider.say_readonly();
            wait_until("the goodbye", || logged(provider.addr, "provider is leaving").pop());
        }
        provider.kill();
        wait_until("the end", || (provider.n_open() == 0).then_some(()));
        wait_until("a failure", || (!is_good()).then_some(()));
        if !says_goodbye {
            wait_until("the warning", || logged(provider.addr, "WARN").pop());
        }
        block_on(agent.drain());
        assert_eq!(logged(provider.addr, "WARN").is_empty(), says_goodbye);
    }
}
