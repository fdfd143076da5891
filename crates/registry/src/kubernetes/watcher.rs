//! Lists the objects of one kind and watches them, for ever.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout_at};
use wire::jitter;

use crate::follow::new_backoff;

use super::api::{self, ApiError};
use super::lines::Lines;
use super::objects::{Object, ObjectKind, ObjectName, WatchEvent, parse_event, parse_page};
use super::settings::KubernetesSettings;

/// How long a watch lasts. A short one costs one request a minute, and finds out about an API
/// server that stands still.
const WATCH_TIME: Duration = Duration::from_secs(60);

/// A watch that has not ended by itself so long after its time stands still.
const WATCH_SLACK: Duration = Duration::from_secs(10);

/// After an error, a watch counts as a good one once it has lasted so long, or has an event: an
/// error may also come in a watch that began well.
const GOOD_AFTER: Duration = Duration::from_secs(1);

/// So many rounds in a row that end with an error are a lasting problem.
const MAX_FAILED: usize = 3;

/// Objects in one page of a list.
const PAGE: &str = "100";

/// More pages than any cluster has: the API server does not end its list.
const MAX_PAGES: usize = 10_000;

/// What is learnt of a kind.
#[derive(Debug)]
pub(super) enum ObjectNews {
    /// A whole list.
    Whole {
        objects: Vec<Object>,
        n_bad: usize,
    },
    Put(Object),
    Gone(ObjectName),
    /// Something that cannot be read.
    Bad(String),
    /// The watch goes on after all: what is known is up to date.
    Current,
    /// The API server cannot be asked.
    Away(String),
}

/// The task of one kind.
pub(super) struct Watcher {
    kind: ObjectKind,
    settings: Arc<KubernetesSettings>,
    news: Sender<(ObjectKind, ObjectNews)>,
    /// From where a watch goes on; `None` if the list has to be read.
    version: Option<String>,
    /// Rounds in a row that ended with an error.
    n_failed: usize,
}

/// Nobody wants to know any more.
struct Unwanted;

/// All pages of a list.
struct WholeList {
    /// From where its changes are watched.
    version: String,
    objects: Vec<Object>,
    /// How many more could not be read.
    n_bad: usize,
}

impl Watcher {
    pub(super) fn new(
        kind: ObjectKind,
        settings: Arc<KubernetesSettings>,
        news: Sender<(ObjectKind, ObjectNews)>,
    ) -> Self {
        Self { kind, settings, news, version: None, n_failed: 0 }
    }

    pub(super) async fn run(mut self) {
        let mut backoff = new_backoff();
        loop {
            let began = Instant::now();
            let told = match self.round().await {
                Ok(Ok(())) => self.note_good().await,
                Ok(Err(error)) => self.handle_error(error).await,
                Err(Unwanted) => return,
            };
            if told.is_err() {
                return;
            }
            backoff.note_lifetime(began.elapsed());
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// A round is over. Its version is dropped if the list may help.
    async fn handle_error(&mut self, error: ApiError) -> Result<(), Unwanted> {
        self.n_failed += 1;
        let error = match error.is_gone() && self.version.is_some() {
            true => ApiError::Gone,
            false => error,
        };
        let is_lasting = error.is_failure_of_server() && MAX_FAILED <= self.n_failed;
        if error.is_about_version() || is_lasting {
            tracing::debug!(kind = ?self.kind, %error, "reading the list again");
            self.version = None;
        }
        // A history ends now and then, and a token that was replaced just now is read again.
        let is_usual = (error.is_gone() && self.n_failed < MAX_FAILED)
            || (error.is_unauthorized() && self.n_failed == 1);
        match is_usual {
            true => Ok(()),
            false => self.tell(ObjectNews::Away(self.words(&error))).await,
        }
    }

    /// The watch is a good one.
    async fn note_good(&mut self) -> Result<(), Unwanted> {
        match std::mem::take(&mut self.n_failed) {
            0 => Ok(()),
            _ => self.tell(ObjectNews::Current).await,
        }
    }

    fn words(&self, error: &ApiError) -> String {
        let objects = match self.kind {
            ObjectKind::Slices => "endpointslices",
            ObjectKind::Services => "services",
        };
        let remedy = match error {
            ApiError::Refused { status, .. } if status.as_u16() == 403 => {
                "; give the service account a Role with list and watch"
            }
            _ => "",
        };
        let host = &self.settings.host;
        format!("{objects} of Kubernetes at {host}: {error}{remedy}")
    }

    async fn tell(&self, news: ObjectNews) -> Result<(), Unwanted> {
        self.news.send((self.kind, news)).await.map_err(|_| Unwanted)
    }

    /// Lists if nothing is known, and watches until that ends.
    async fn round(&mut self) -> Result<Result<(), ApiError>, Unwanted> {
        if self.version.is_none() {
            match self.list().await {
                Ok(WholeList { version, objects, n_bad }) => {
                    self.tell(ObjectNews::Whole { objects, n_bad }).await?;
                    self.version = Some(version);
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        self.watch().await
    }

    async fn list(&self) -> Result<WholeList, ApiError> {
        let (mut objects, mut n_bad, mut rest) = (Vec::new(), 0, None::<String>);
        for _ in 0..MAX_PAGES {
            let mut params = vec![("limit", PAGE)];
            if let Some(rest) = &rest {
                params.push(("continue", rest));
            }
            let text = api::read(&self.settings, &self.settings.path(self.kind, &params)).await?;
            let page = parse_page(self.kind, &text)?;
            objects.extend(page.objects);
            n_bad += page.n_bad;
            rest = page.rest;
            if rest.is_none() {
                return Ok(WholeList { version: page.version, objects, n_bad });
            }
        }
        Err(ApiError::TooLong)
    }

    async fn watch(&mut self) -> Result<Result<(), ApiError>, Unwanted> {
        let lasts = jitter(WATCH_TIME);
        let seconds = lasts.as_secs().to_string();
        let params = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self.version.as_deref().unwrap_or_default()),
            ("timeoutSeconds", &seconds),
        ];
        let deadline = Instant::now() + lasts + WATCH_SLACK;
        let path = self.settings.path(self.kind, &params);
        let mut answer = match api::get(&self.settings, &path).await {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        let good_at = Instant::now() + GOOD_AFTER;
        let (mut lines, mut events) = (Lines::default(), Vec::new());
        loop {
            let until = if self.n_failed == 0 { deadline } else { good_at };
            let piece = match timeout_at(until, answer.piece()).await {
                Ok(Ok(Some(piece))) => piece,
                // What is left of a line comes again.
                Ok(Ok(None)) => return Ok(Ok(())),
                Ok(Err(error)) => return Ok(Err(error)),
                Err(_) if self.n_failed != 0 => {
                    self.note_good().await?;
                    continue;
                }
                Err(_) => return Ok(Err(ApiError::Late(lasts + WATCH_SLACK))),
            };
            lines.handle_piece(&piece, |line| events.push(line.map(|it| self.read(it))));
            for event in events.drain(..) {
                match event {
                    Some(Ok(event)) => match self.handle(event).await? {
                        None => {}
                        Some(error) => return Ok(Err(error)),
                    },
                    Some(Err(reason)) => self.tell(ObjectNews::Bad(reason)).await?,
                    None => self.tell(ObjectNews::Bad("an event is too long".to_owned())).await?,
                }
            }
        }
    }

    fn read(&self, line: &[u8]) -> Result<WatchEvent, String> {
        parse_event(self.kind, line).map_err(|error| error.to_string())
    }

    /// Passes an event on; returns why the watch is over.
    async fn handle(&mut self, event: WatchEvent) -> Result<Option<ApiError>, Unwanted> {
        let (news, version) = match event {
            WatchEvent::Put { object, version } => (Some(ObjectNews::Put(object)), version),
            WatchEvent::Gone { name, version } => (Some(ObjectNews::Gone(name)), version),
            WatchEvent::Bookmark { version } => (None, version),
            WatchEvent::Failed { code: 410, .. } => return Ok(Some(ApiError::Gone)),
            WatchEvent::Failed { code, message } => {
                let message = message.chars().take(300).collect();
                return Ok(Some(ApiError::Ended { code, message }));
            }
        };
        self.note_good().await?;
        if let Some(news) = news {
            self.tell(news).await?;
        }
        if !version.is_empty() {
            self.version = Some(version);
        }
        Ok(None)
    }
}
