//! Calls services.
//!
//! Any number of tasks and threads share a [`Client`]. What they send in one turn of the event
//! loop leaves in one write, and answers that came in one read wake their callers together;
//! nothing waits for company.
//!
//! Files: `session` is one connection's calls, without I/O; `lane` keeps one connection alive;
//! `lanes` decides how many there are and which one a call takes; `dialer` makes connections;
//! `call` is what a caller awaits; `thread` drives the connections of a blocking client.

mod call;
mod config;
mod dialer;
mod lane;
mod lanes;
mod queueing_delay;
mod session;
mod streaming;
mod thread;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use link_proto::RouteDef;

pub(crate) use call::as_strs;
pub use call::{Call, OneWay, Reply, WithReply};
pub use config::{ClientConfig, Connections, WhenDown, WhenFull};
pub use dialer::Address;
pub(crate) use dialer::Dialer;
pub use streaming::{BoundStream, Open, StreamReply, Streaming};

use crate::blocking::block_on;
use crate::error::{SetupError, check_runtime};
use crate::method::{Method, StreamMethod};
use lanes::Lanes;
use thread::Driver;

/// Calls the services of one server. Cheap to clone; all clones share the connections.
///
/// A connection that breaks is made again. When the last clone is dropped, what was sent is
/// finished and the server is left in good order; [`Client::close`] also waits for that.
#[derive(Clone)]
pub struct Client(Arc<ClientState>);

struct ClientState {
    lanes: Arc<Lanes>,
    /// The methods that calls have numbers of.
    methods: Mutex<Vec<Arc<RouteDef>>>,
    /// The thread of a blocking client.
    driver: Option<Driver>,
}

impl Drop for ClientState {
    fn drop(&mut self) {
        self.lanes.iter().for_each(|lane| lane.close());
        if let Some(driver) = self.driver.take() {
            driver.end(Arc::clone(&self.lanes));
        }
    }
}

impl Client {
    /// Connects to a server at `HOST:PORT`, on the tokio runtime that this is called on.
    ///
    /// # Errors
    /// The address is none, a setting is out of its range, there is no runtime here, or the first
    /// connection fails.
    pub async fn connect(address: impl Into<Address>) -> Result<Self, SetupError> {
        Self::connect_with(address, ClientConfig::default()).await
    }

    /// As [`Client::connect`], with other settings.
    ///
    /// # Errors
    /// The address is none, a setting is out of its range, there is no runtime here, or the first
    /// connection fails.
    pub async fn connect_with(
        address: impl Into<Address>,
        config: ClientConfig,
    ) -> Result<Self, SetupError> {
        let client = Self::lazy(address, config)?;
        for lane in client.0.lanes.iter() {
            if let Err(reason) = lane.first_attempt().await {
                let endpoint = client.0.lanes.dialer().to_string();
                return Err(SetupError::Connect { endpoint, reason: reason.to_string() });
            }
        }
        Ok(client)
    }

    /// A client whose server need not be there yet: calls wait for it as [`WhenDown`] says.
    ///
    /// Must be called on a tokio runtime, which then drives the connections.
    ///
    /// # Errors
    /// The address is none, a setting is out of its range, or there is no runtime here.
    pub fn lazy(address: impl Into<Address>, config: ClientConfig) -> Result<Self, SetupError> {
        config.check()?;
        check_runtime()?;
        let dialer = Dialer::new(&address.into(), &config)?;
        let methods = Mutex::new(Vec::new());
        Ok(Self(Arc::new(ClientState {
            lanes: Lanes::open(dialer, config),
            methods,
            driver: None,
        })))
    }

    /// A client for a program without a runtime: a thread of its own drives the connections, and
    /// calls are made by [`Call::wait`]. Its calls may be awaited, too, on any runtime.
    ///
    /// # Errors
    /// The address is none, a setting is out of its range, the first connection fails, or the
    /// thread cannot be started.
    pub fn connect_blocking(
        address: impl Into<Address>,
        config: ClientConfig,
    ) -> Result<Self, SetupError> {
        let (handle, driver) = thread::start()?;
        let address = address.into();
        let connecting = handle.spawn(async move { Self::connect_with(address, config).await });
        let connected = block_on(connecting);
        let mut client = connected.map_err(|panic| SetupError::Thread(panic.into()))??;
        if let Some(inner) = Arc::get_mut(&mut client.0) {
            inner.driver = Some(driver);
        }
        Ok(client)
    }

    /// Prepares a method to be called, so that a call of it is found by a number.
    pub fn bind<Req: 'static, Resp: 'static, E: 'static>(
        &self,
        method: &Method<Req, Resp, E>,
    ) -> Bound<Req, Resp, E> {
        let (number, def) = self.number(&method.service, &method.name);
        Bound { client: self.clone(), method: Arc::new(method.clone()), number, def }
    }

    /// Prepares a method that streams to be called.
    pub fn bind_stream<Req: 'static, In: 'static, Out: 'static, Resp: 'static, E: 'static>(
        &self,
        method: &StreamMethod<Req, In, Out, Resp, E>,
    ) -> BoundStream<Req, In, Out, Resp, E> {
        BoundStream { call: self.bind(&method.call), method: Arc::new(method.clone()) }
    }

    /// Calls a method once. [`Client::bind`] it if it is called again and again.
    ///
    /// # Errors
    /// As of any call.
    pub async fn call<Req: 'static, Resp: 'static, E: 'static>(
        &self,
        method: &Method<Req, Resp, E>,
        args: Req,
    ) -> Result<Resp, crate::CallError<E>> {
        self.bind(method).call(args).await
    }

    /// Number and definition of a method, the same for the same names.
    fn number(&self, service: &str, name: &str) -> (usize, Arc<RouteDef>) {
        let mut methods = self.0.methods.lock().unwrap_or_else(PoisonError::into_inner);
        let known = methods.iter().position(|def| def.service == service && def.method == name);
        let number = known.unwrap_or_else(|| {
            let (service, method) = (service.into(), name.into());
            methods.push(Arc::new(RouteDef { service, method, ..RouteDef::default() }));
            methods.len() - 1
        });
        (number, methods.get(number).cloned().unwrap_or_default())
    }

    /// How many connections there are.
    pub fn n_connections(&self) -> usize {
        self.0.lanes.iter().count()
    }

    /// Takes no more calls, finishes those that were taken, and leaves the server. Calls that
    /// have not ended after `grace` are broken.
    ///
    /// Other clones fail with [`Failure::Closed`](crate::Failure::Closed) from now on.
    pub async fn close(&self, grace: Duration) {
        self.0.lanes.close(grace).await;
    }
}

impl Client {
    /// As [`Client::close`], for a client made by [`Client::connect_blocking`]: blocks until all
    /// is closed, so that one-way calls have left before the process ends. Any other client only
    /// begins to close.
    pub fn close_wait(&self, grace: Duration) {
        match &self.0.driver {
            Some(driver) => driver.close(Arc::clone(&self.0.lanes), grace),
            None => self.0.lanes.iter().for_each(|lane| lane.close()),
        }
    }
}

/// A method of one client's server, ready to be called.
pub struct Bound<Req: 'static, Resp: 'static, E: 'static = crate::NoError> {
    client: Client,
    method: Arc<Method<Req, Resp, E>>,
    number: usize,
    def: Arc<RouteDef>,
}

impl<Req: 'static, Resp: 'static, E: 'static> Clone for Bound<Req, Resp, E> {
    fn clone(&self) -> Self {
        let (client, method) = (self.client.clone(), Arc::clone(&self.method));
        Self { client, method, number: self.number, def: Arc::clone(&self.def) }
    }
}

impl<Req: 'static, Resp: 'static, E: 'static> Bound<Req, Resp, E> {
    /// A call, which begins when it is awaited.
    #[inline]
    pub fn call(&self, args: Req) -> Call<'_, Req, Resp, E> {
        Call::new(self, args, false)
    }

    /// A call that wants no answer: it has ended when it is in the connection's buffer, and
    /// nobody learns what became of it.
    pub fn call_one_way(&self, args: Req) -> OneWay<'_, Req, Resp, E> {
        OneWay(Call::new(self, args, true))
    }
}
