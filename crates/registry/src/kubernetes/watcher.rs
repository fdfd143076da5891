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

/// Objects in one page of a list.
const PAGE: &str = "100";

/// More pages than any cluster has: the API server does not end its list.
const MAX_PAGES: usize = 10_000;

/// What is learnt of a kind.
#[derive(Debug)]
pub(super) enum News {
    /// A whole list.
    Whole {
        objects: Vec<Object>,
        n_bad: usize,
    },
    Put(Object),
    Gone(ObjectName),
    /// Something that cannot be read.
    Bad(String),
    /// The watch goes on: what is known is up to date.
    Current,
    /// The API server cannot be asked.
    Away(String),
}

/// The task of one kind.
pub(super) struct Watcher {
    pub(super) kind: ObjectKind,
    pub(super) settings: Arc<KubernetesSettings>,
    pub(super) news: Sender<(ObjectKind, News)>,
}

/// Nobody wants to know any more.
struct Unwanted;

impl Watcher {
    pub(super) async fn run(self) {
        let mut backoff = new_backoff();
        let (mut version, mut n_unauthorized) = (None, 0);
        loop {
            let began = Instant::now();
            match self.round(&mut version).await {
                Ok(Ok(())) => n_unauthorized = 0,
                Ok(Err(error)) if error.is_gone() => {
                    tracing::debug!(kind = ?self.kind, %error, "reading the list again");
                    version = None;
                }
                Ok(Err(error)) => {
                    // The token may have been replaced just now; it is read again at once.
                    n_unauthorized += usize::from(error.is_unauthorized());
                    let first = error.is_unauthorized() && n_unauthorized == 1;
                    if !first && self.tell(News::Away(self.words(&error))).await.is_err() {
                        return;
                    }
                }
                Err(Unwanted) => return,
            }
            backoff.note_lifetime(began.elapsed());
            tokio::time::sleep(backoff.next_wait()).await;
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

    async fn tell(&self, news: News) -> Result<(), Unwanted> {
        self.news.send((self.kind, news)).await.map_err(|_| Unwanted)
    }

    /// Lists if nothing is known, and watches until that ends.
    async fn round(&self, version: &mut Option<String>) -> Result<Result<(), ApiError>, Unwanted> {
        if version.is_none() {
            match self.list().await {
                Ok((listed, objects, n_bad)) => {
                    self.tell(News::Whole { objects, n_bad }).await?;
                    *version = Some(listed);
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        let Some(version) = version else { return Ok(Ok(())) };
        self.watch(version).await
    }

    async fn list(&self) -> Result<(String, Vec<Object>, usize), ApiError> {
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
                return Ok((page.version, objects, n_bad));
            }
        }
        Err(ApiError::TooLong)
    }

    async fn watch(&self, version: &mut String) -> Result<Result<(), ApiError>, Unwanted> {
        let lasts = jitter(WATCH_TIME);
        let seconds = lasts.as_secs().to_string();
        let params = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version.as_str()),
            ("timeoutSeconds", &seconds),
        ];
        let deadline = Instant::now() + lasts + WATCH_SLACK;
        let path = self.settings.path(self.kind, &params);
        let mut answer = match api::get(&self.settings, &path).await {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        self.tell(News::Current).await?;
        let (mut lines, mut events) = (Lines::default(), Vec::new());
        loop {
            let piece = match timeout_at(deadline, answer.piece()).await {
                Ok(Ok(Some(piece))) => piece,
                // What is left of a line comes again.
                Ok(Ok(None)) => return Ok(Ok(())),
                Ok(Err(error)) => return Ok(Err(error)),
                Err(_) => return Ok(Err(ApiError::Late(lasts + WATCH_SLACK))),
            };
            lines.handle_piece(&piece, |line| events.push(line.map(|it| self.read(it))));
            for event in events.drain(..) {
                match event {
                    Some(Ok(event)) => match self.handle(event, version).await? {
                        None => {}
                        Some(error) => return Ok(Err(error)),
                    },
                    Some(Err(reason)) => self.tell(News::Bad(reason)).await?,
                    None => self.tell(News::Bad("an event is too long".to_owned())).await?,
                }
            }
        }
    }

    fn read(&self, line: &[u8]) -> Result<WatchEvent, String> {
        parse_event(self.kind, line).map_err(|error| error.to_string())
    }

    /// Passes an event on; returns why the watch is over.
    async fn handle(
        &self,
        event: WatchEvent,
        version: &mut String,
    ) -> Result<Option<ApiError>, Unwanted> {
        let (news, new_version) = match event {
            WatchEvent::Put { object, version } => (Some(News::Put(object)), version),
            WatchEvent::Gone { name, version } => (Some(News::Gone(name)), version),
            WatchEvent::Bookmark { version } => (None, version),
            WatchEvent::Failed { code: 410, .. } => return Ok(Some(ApiError::Gone)),
            WatchEvent::Failed { code, message } => {
                let message = message.chars().take(300).collect();
                return Ok(Some(ApiError::Ended { code, message }));
            }
        };
        if let Some(news) = news {
            self.tell(news).await?;
        }
        if !new_version.is_empty() {
            *version = new_version;
        }
        Ok(None)
    }
}
