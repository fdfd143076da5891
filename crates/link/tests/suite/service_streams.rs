//! Methods of a service that stream, over a real connection.

#![deny(dead_code, deprecated, unreachable_pub)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use link::{
    CallError, Client, Context, Failure, Listening, NoItems, Receiver, Sender, Server, StreamMethod,
};
use tokio::sync::Notify;

/// For whatever should happen soon; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(30);

#[link::service(name = "demo.Numbers")]
trait Numbers {
    /// Streams to the caller, and replies at the end.
    async fn count(&self, to: u64, out: Sender<u64>) -> String;
    async fn sum(&self, items: Receiver<u64>) -> u64;
    async fn add(&self, out: Sender<String>, cx_name: String, items: link::Receiver<u64>) -> u64;
    async fn until_bad(
        &self,
        cx: &Context,
        bad: u64,
        items: Receiver<u64>,
        out: Sender<u64>,
    ) -> Result<String, Bad>;
    async fn check(&self, items: Receiver<u64>) -> Result<u64, Bad>;
    async fn countdown(&self, from: u64, out: Sender<u64>) -> Result<(), Bad>;
    #[link(codecs(Raw))]
    async fn echo(&self, items: Receiver<Bytes>, out: Sender<Bytes>);
    async fn endless(&self, out: Sender<u64>);
}

#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize, thiserror::Error)]
#[error("{0} is bad")]
struct Bad(u64);

#[derive(Default)]
struct Desk {
    /// Told when the endless method cannot send any more.
    is_over: Notify,
}

impl Numbers for Desk {
    async fn count(&self, to: u64, mut out: Sender<u64>) -> String {
        for n in 0..to {
            out.send(&n).await.unwrap();
        }
        format!("counted to {to}")
    }

    async fn sum(&self, mut items: Receiver<u64>) -> u64 {
        let mut sum = 0;
        while let Some(n) = items.next().await.unwrap() {
            sum += n;
        }
        sum
    }

    async fn add(&self, mut out: Sender<String>, name: String, mut items: Receiver<u64>) -> u64 {
        let mut sum = 0;
        while let Some(n) = items.next().await.unwrap() {
            sum += n;
            out.send(&format!("{name}: {sum}")).await.unwrap();
        }
        sum
    }

    async fn until_bad(
        &self,
        cx: &Context,
        bad: u64,
        mut items: Receiver<u64>,
        mut out: Sender<u64>,
    ) -> Result<String, Bad> {
        while let Ok(Some(n)) = items.next().await {
            if n == bad {
                return Err(Bad(n));
            }
            out.send(&n).await.map_err(|_| Bad(n))?;
        }
        Ok(cx.meta().value("mood").unwrap_or("none").to_owned())
    }

    async fn check(&self, mut items: Receiver<u64>) -> Result<u64, Bad> {
        let mut n_items = 0;
        while let Ok(Some(n)) = items.next().await {
            if n == 13 {
                return Err(Bad(n));
            }
            n_items += 1;
        }
        Ok(n_items)
    }

    async fn countdown(&self, from: u64, mut out: Sender<u64>) -> Result<(), Bad> {
        for n in (1..=from).rev() {
            out.send(&n).await.map_err(|_| Bad(n))?;
        }
        if from == 13 { Err(Bad(from)) } else { Ok(()) }
    }

    async fn echo(&self, mut items: Receiver<Bytes>, mut out: Sender<Bytes>) {
        while let Ok(Some(item)) = items.next().await {
            out.send(&item).await.unwrap();
        }
    }

    async fn endless(&self, mut out: Sender<u64>) {
        let _told = NotifyOnDrop(&self.is_over);
        while out.send(&0).await.is_ok() {}
    }
}

/// Tells when it is dropped, with its call or at its end.
struct NotifyOnDrop<'a>(&'a Notify);

impl Drop for NotifyOnDrop<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Runs a test beside a server, of whose service it is given the other half.
async fn with_numbers<F: AsyncFnOnce(NumbersClient, &Desk)>(test: F) {
    let desk = Arc::new(Desk::default());
    let service = Arc::clone(&desk).into_service();
    let server: Listening = Server::new().offer(service).listen("127.0.0.1:0").await.unwrap();
    let client = Client::connect(server.local_addr()).await.unwrap();
    let body = test(NumbersClient::new(&client), &desk);
    tokio::time::timeout(LONG, body).await.expect("the test hangs");
    client.close(LONG).await;
    assert!(server.shutdown(LONG).await, "a call was left over");
}

#[tokio::test]
async fn items_go_to_the_caller() {
    with_numbers(async |numbers, _| {
        let mut call = numbers.count(1000).await.unwrap();
        for n in 0..1000 {
            assert_eq!(call.receiver.next().await.unwrap(), Some(n));
        }
        assert_eq!(call.receiver.next().await.unwrap(), None);
        assert_eq!(call.reply.await.unwrap(), "counted to 1000");
    })
    .await;
}

#[tokio::test]
async fn items_go_to_the_service() {
    with_numbers(async |numbers, _| {
        let mut call = numbers.sum().await.unwrap();
        for n in 0..=1000 {
            call.sender.send(&n).await.unwrap();
        }
        assert_eq!(call.finish().await.unwrap(), 500_500);
    })
    .await;
}

#[tokio::test]
async fn items_go_both_ways_whatever_the_order_of_the_parameters() {
    with_numbers(async |numbers, _| {
        let mut call = numbers.add("so far".to_owned()).await.unwrap();
        for (n, text) in [(1, "so far: 1"), (2, "so far: 3")] {
            call.sender.send(&n).await.unwrap();
            assert_eq!(call.receiver.next().await.unwrap().unwrap(), text);
        }
        assert_eq!(call.finish().await.unwrap(), 3);
        let mut echo = numbers.echo().await.unwrap();
        echo.sender.send(&Bytes::from_static(b"raw")).await.unwrap();
        assert_eq!(echo.receiver.next().await.unwrap().unwrap(), "raw");
        echo.finish().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_stream_may_end_in_a_typed_error() {
    with_numbers(async |numbers, _| {
        let mut call = numbers.until_bad(2).meta("mood", "fine").await.unwrap();
        call.sender.send(&1).await.unwrap();
        assert_eq!(call.receiver.next().await.unwrap(), Some(1));
        assert_eq!(call.finish().await.unwrap(), "fine");
        let mut call = numbers.until_bad(2).codec(13).await.unwrap();
        call.sender.send(&2).await.unwrap();
        assert!(matches!(call.finish().await, Err(CallError::Service(Bad(2)))));
        let mut call = numbers.check().await.unwrap();
        call.sender.send(&13).await.unwrap();
        assert!(matches!(call.finish().await, Err(CallError::Service(Bad(13)))));
        assert_eq!(numbers.check().await.unwrap().finish().await.unwrap(), 0);
        let mut call = numbers.countdown(13).await.unwrap();
        for n in (1..=13).rev() {
            assert_eq!(call.receiver.next().await.unwrap(), Some(n));
        }
        assert!(matches!(call.receiver.next().await, Err(Failure::Interrupted)));
        assert!(matches!(call.reply.await, Err(CallError::Service(Bad(13)))));
        numbers.countdown(3).await.unwrap().finish().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_goes_away_ends_the_handler() {
    with_numbers(async |numbers, desk| {
        let mut call = numbers.endless().await.unwrap();
        assert_eq!(call.receiver.next().await.unwrap(), Some(0));
        drop(call);
        desk.is_over.notified().await;
    })
    .await;
}

#[tokio::test]
async fn constants_are_for_calls_by_hand() {
    const COUNT: StreamMethod<u64, NoItems, u64, String> = NumbersClient::COUNT;
    let server = Server::new().offer(Desk::default().into_service());
    let server = server.listen("127.0.0.1:0").await.unwrap();
    let client = Client::connect(server.local_addr()).await.unwrap();
    let count = client.bind_stream(&COUNT);
    assert_eq!(count.open(3).await.unwrap().finish().await.unwrap(), "counted to 3");
}
