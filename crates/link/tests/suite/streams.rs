//! Streams between a real client and a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use link::codec::{Raw, Serde};
use link::{CallError, Client, Failure, Listening, NoItems, Server, Service, StreamMethod};

const COUNT: StreamMethod<u64, NoItems, u64, String> =
    StreamMethod::down::<Serde>("test.Streams", "count");
const SUM: StreamMethod<(), u64, NoItems, u64> = StreamMethod::up::<Serde>("test.Streams", "sum");
const ECHO: StreamMethod<(), bytes::Bytes, bytes::Bytes, ()> =
    StreamMethod::both::<(Raw,)>("test.Streams", "echo");
const ENDLESS: StreamMethod<(), NoItems, u64, ()> =
    StreamMethod::down::<Serde>("test.Streams", "endless");

/// How many items the endless stream has sent, and whether it has ended.
#[derive(Default)]
struct Seen {
    n_sent: AtomicU64,
    n_ended: AtomicU64,
}

/// Counts its end.
struct EndCounter(Arc<Seen>);

impl Drop for EndCounter {
    fn drop(&mut self) {
        self.0.n_ended.fetch_add(1, Ordering::SeqCst);
    }
}

fn service(seen: &Arc<Seen>) -> Service {
    let fails = COUNT.or_error::<Serde, String>();
    let seen = Arc::clone(seen);
    Service::new("test.Streams")
        .streaming_fallible(&fails, |_, to, _, mut out| async move {
            for n in 0..to {
                out.send(&n).await.map_err(|failure| failure.to_string())?;
            }
            match to {
                13 => Err("13 brings bad luck".to_owned()),
                to => Ok(format!("counted {to}")),
            }
        })
        .streaming(&SUM, |_, (), mut items, _| async move {
            let mut sum = 0;
            while let Ok(Some(n)) = items.next().await {
                sum += n;
            }
            sum
        })
        .streaming(&ECHO, |_, (), mut items, mut out| async move {
            while let Ok(Some(item)) = items.next().await {
                if out.send(&item).await.is_err() {
                    return;
                }
            }
        })
        .streaming(&ENDLESS, move |_, (), _, mut out| {
            let ended = EndCounter(Arc::clone(&seen));
            async move {
                while out.send(&0).await.is_ok() {
                    ended.0.n_sent.fetch_add(1, Ordering::SeqCst);
                }
            }
        })
}

async fn pair(seen: &Arc<Seen>) -> (Listening, Client) {
    let server = Server::new().offer(service(seen)).listen("127.0.0.1:0").await.unwrap();
    let client = Client::connect(server.local_addr()).await.unwrap();
    (server, client)
}

/// Runs a test that must not hang.
fn test<F: Future<Output = ()>>(body: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), body()).await.expect("the test hangs");
    });
}

/// Waits until something is so.
async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_service_streams_to_its_caller() {
    test(|| async {
        let (_server, client) = pair(&Arc::default()).await;
        let method = client.bind_stream(&COUNT.or_error::<Serde, String>());
        let mut call = method.open(10_000).await.unwrap();
        for n in 0..10_000 {
            assert_eq!(call.receiver.next().await.unwrap(), Some(n));
        }
        assert_eq!(call.receiver.next().await.unwrap(), None);
        assert_eq!(call.reply.await.unwrap(), "counted 10000");
        let call = method.open(5).codec(13).await.unwrap();
        assert_eq!(call.finish().await.unwrap(), "counted 5");
    });
}

#[test]
fn a_stream_that_ends_in_an_error_says_so_at_its_end() {
    test(|| async {
        let (_server, client) = pair(&Arc::default()).await;
        let method = client.bind_stream(&COUNT.or_error::<Serde, String>());
        let mut call = method.open(13).await.unwrap();
        for n in 0..13 {
            assert_eq!(call.receiver.next().await.unwrap(), Some(n));
        }
        assert!(matches!(call.receiver.next().await, Err(Failure::Interrupted)));
        match call.reply.await {
            Err(CallError::Service(text)) => assert_eq!(text, "13 brings bad luck"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_caller_streams_to_a_service() {
    test(|| async {
        let (_server, client) = pair(&Arc::default()).await;
        let mut call = client.bind_stream(&SUM).open(()).await.unwrap();
        for n in 1..=50_000 {
            call.sender.send(&n).await.unwrap();
        }
        assert_eq!(call.finish().await.unwrap(), 50_000 * 50_001 / 2);
    });
}

#[test]
fn long_items_go_both_ways_at_once() {
    test(|| async {
        let (_server, client) = pair(&Arc::default()).await;
        let call = client.bind_stream(&ECHO).open(()).await.unwrap();
        let (mut sender, mut receiver) = (call.sender, call.receiver);
        let lens = [0, 1, 100, 70_000, 3_000_000, 5, 1_000_000];
        let sending = async {
            for (n, len) in (0_u8..).zip(lens) {
                sender.send(&vec![n; len].into()).await.unwrap();
            }
            drop(sender);
        };
        let receiving = async {
            for (n, len) in (0_u8..).zip(lens) {
                let item = receiver.next().await.unwrap().unwrap();
                assert!(item.len() == len && item.iter().all(|byte| *byte == n), "{n}");
            }
            assert_eq!(receiver.next().await.unwrap(), None);
        };
        tokio::join!(sending, receiving);
        call.reply.await.unwrap();
    });
}

#[test]
fn a_caller_that_does_not_read_holds_the_service_back_and_no_other_call() {
    test(|| async {
        let seen = Arc::<Seen>::default();
        let (_server, client) = pair(&seen).await;
        let mut call = client.bind_stream(&ENDLESS).open(()).await.unwrap();
        assert_eq!(call.receiver.next().await.unwrap(), Some(0));
        // Others are served meanwhile, again and again; the stream goes no further than its
        // window.
        let sum = client.bind_stream(&SUM);
        for _ in 0..200 {
            let mut other = sum.open(()).await.unwrap();
            other.sender.send(&7).await.unwrap();
            assert_eq!(other.finish().await.unwrap(), 7);
        }
        // An item of one byte costs 17 of the window of 256 KiB.
        assert!(seen.n_sent.load(Ordering::SeqCst) < 20_000);
        drop(call);
        until(|| seen.n_ended.load(Ordering::SeqCst) == 1).await;
    });
}

#[test]
fn a_server_that_ends_at_once_interrupts_streams() {
    test(|| async {
        let (server, client) = pair(&Arc::default()).await;
        let mut call = client.bind_stream(&ENDLESS).open(()).await.unwrap();
        assert_eq!(call.receiver.next().await.unwrap(), Some(0));
        drop(server);
        let failure = loop {
            match call.receiver.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a broken stream ended as if it were whole"),
                Err(failure) => break failure,
            }
        };
        assert!(matches!(failure, Failure::Interrupted), "{failure}");
        let reply = call.reply.await;
        assert!(matches!(reply, Err(CallError::Failed(Failure::Broken(_)))), "{reply:?}");
    });
}

#[test]
fn a_unary_call_of_a_streaming_method_is_refused() {
    test(|| async {
        let (_server, client) = pair(&Arc::default()).await;
        let unary = link::Method::<u64, String>::new::<Serde>("test.Streams", "count");
        let failure = client.call(&unary, 3).await.unwrap_err();
        assert!(failure.to_string().contains("this method streams"), "{failure}");
    });
}

#[test]
fn a_program_without_a_runtime_streams_too() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let seen = Arc::<Seen>::default();
    let server =
        runtime.block_on(Server::new().offer(service(&seen)).listen("127.0.0.1:0")).unwrap();
    let config = link::ClientConfig::default();
    let client = Client::connect_blocking(server.local_addr(), config).unwrap();
    let mut sum = client.bind_stream(&SUM).open(()).wait().unwrap();
    for n in 1..=1000 {
        sum.sender.send_wait(&n).unwrap();
    }
    drop(sum.sender);
    assert_eq!(sum.reply.wait().unwrap(), 500_500);
    let mut count =
        client.bind_stream(&COUNT.or_error::<Serde, String>()).open(100).wait().unwrap();
    for n in 0..100 {
        assert_eq!(count.receiver.next_wait().unwrap(), Some(n));
    }
    assert_eq!(count.receiver.next_wait().unwrap(), None);
}
