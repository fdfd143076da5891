//! Calls over links that compress, and over links on which only one side would.

use std::sync::Arc;

use bytes::Bytes;
use link::codec::Raw;
use link::{
    Client, ClientConfig, Compression, Connections, Method, Server, ServerConfig, Service, Traffic,
};

const TWICE: Method<Bytes, Bytes> = Method::new::<(Raw,)>("test.Echo", "twice");

async fn calls(asks: Compression, allows: Compression) -> [link::TrafficTotals; 2] {
    let [above, below] = [(); 2].map(|()| Arc::new(Traffic::default()));
    let config = ServerConfig {
        compression: allows,
        traffic: Some(Arc::clone(&below)),
        ..ServerConfig::default()
    };
    let echo = Service::new("test.Echo")
        .method(&TWICE, |_, args: Bytes| std::future::ready(Bytes::from(args.repeat(2))));
    let server = Server::with_config(config).offer(echo).listen("127.0.0.1:0").await.unwrap();
    let config = ClientConfig {
        compression: asks,
        traffic: Some(Arc::clone(&above)),
        connections: Connections::Fixed(1),
        ..ClientConfig::default()
    };
    let client = Client::connect_with(server.local_addr(), config).await.unwrap();
    let calls = (0..500_usize).map(|n| {
        let client = client.clone();
        // Short ones, and some in parts.
        let args = format!("call {n} ").repeat(if n % 100 == 7 { 30_000 } else { n });
        async move {
            let reply = client.call(&TWICE, Bytes::from(args.clone())).await.unwrap();
            assert!(reply == args.repeat(2));
        }
    });
    let mut running = tokio::task::JoinSet::new();
    calls.for_each(|call| drop(running.spawn(call)));
    running.join_all().await;
    client.close(std::time::Duration::from_secs(5)).await;
    drop(client);
    server.shutdown(std::time::Duration::from_secs(5)).await;
    [above.totals(), below.totals()]
}

#[tokio::test]
async fn both_sides_compress() {
    let [above, below] = calls(Compression::Lz4, Compression::Lz4).await;
    assert_eq!((above.n_compressing, below.n_compressing), (1, 1));
    assert_eq!(above.raw_out_bytes, below.raw_in_bytes);
    assert_eq!(above.packed_in_bytes, below.packed_out_bytes);
    assert!(above.written_bytes < above.raw_out_bytes / 3, "{above:?}");
    assert!(above.read_bytes < above.raw_in_bytes / 3, "{above:?}");
    #[cfg(target_os = "linux")]
    assert!(!above.compression_cpu.is_zero() && !below.compression_cpu.is_zero());
}

/// A side that knows nothing of compression, such as an older one, is not troubled.
#[tokio::test]
async fn one_side_alone_does_not() {
    use Compression::{Lz4, None};
    for (asks, allows) in [(Lz4, None), (None, Lz4), (None, None)] {
        let [above, below] = calls(asks, allows).await;
        assert_eq!((above.n_compressing, below.n_compressing), (0, 0));
        assert_eq!((above.raw_out_bytes, below.raw_out_bytes), (0, 0));
        assert!(1_000_000 < above.written_bytes);
    }
}
