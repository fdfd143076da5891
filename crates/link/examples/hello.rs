//! The first program: a service, its server and its client.
#[link::service]
trait Greeter {
    async fn greet(&self, name: String) -> String;
}

struct Polite;
impl Greeter for Polite {
    async fn greet(&self, name: String) -> String {
        format!("Hello, {name}!")
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = link::Server::new().offer(Polite.into_service()).listen("127.0.0.1:0").await?;
    let greeter = GreeterClient::new(&link::Client::connect(server.local_addr()).await?);
    println!("{}", greeter.greet("Ada".to_owned()).await?);
    Ok(())
}
