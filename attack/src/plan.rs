//! What the command line and the environment ask for.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::plan::{dubmesh, setting};

use crate::attacks::{self, Attack};
use crate::error::AttackError;

const DEFAULT_SECONDS: u64 = 10;
/// The longest attack: whatever goes wrong, it ends.
const MAX_SECONDS: u64 = 600;

/// Where hostile peers connect from, if nobody says: not from the address of the well-behaved
/// callers, as in earnest they would have machines of their own.
const ORIGIN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// What this process is to do.
pub(crate) enum Command {
    /// Name the attacks.
    List,
    /// Be the hostile peer.
    Peer(Orders),
    /// Make attacks, and judge.
    Attack(Choice),
}

/// What a hostile peer is told.
pub(crate) struct Orders {
    pub(crate) attack: &'static Attack,
    pub(crate) addr: SocketAddr,
    pub(crate) time: Duration,
    /// The address that it connects from.
    pub(crate) origin: Ipv4Addr,
}

/// Which attacks, and where the results go.
#[derive(Default)]
pub(crate) struct Choice {
    only: Vec<&'static Attack>,
    json: Option<PathBuf>,
    origin: Option<Ipv4Addr>,
}

/// What all attacks of a run share.
pub(crate) struct Plan {
    pub(crate) attacks: Vec<&'static Attack>,
    /// How long each attack lasts.
    pub(crate) time: Duration,
    /// Where hostile peers connect from.
    pub(crate) origin: Ipv4Addr,
    /// The program under attack.
    pub(crate) dubmesh: PathBuf,
    /// Where the rows are written, if anywhere.
    pub(crate) json: Option<PathBuf>,
}

impl Command {
    pub(crate) fn parse(args: &[String]) -> Result<Self, AttackError> {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match args[..] {
            ["--list"] => return Ok(Self::List),
            ["peer", name, addr, seconds, ref rest @ ..] if rest.len() < 2 => {
                let addr = addr.parse().map_err(|_| AttackError::Usage)?;
                let seconds = seconds.parse().map_err(|_| AttackError::Usage)?;
                let origin = rest.first().map_or(Ok(ORIGIN), |origin| checked_origin(origin))?;
                let (attack, time) = (attacks::find(name)?, checked(seconds)?);
                return Ok(Self::Peer(Orders { attack, addr, time, origin }));
            }
            _ => {}
        }
        let mut choice = Choice::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let value = args.next().ok_or(AttackError::Usage)?;
            match arg {
                "--only" => choice.only.push(attacks::find(value)?),
                "--json" => choice.json = Some(value.into()),
                "--from" => choice.origin = Some(checked_origin(value)?),
                _ => return Err(AttackError::Usage),
            }
        }
        Ok(Self::Attack(choice))
    }
}

impl Plan {
    /// Reads the environment, and builds what is to be attacked.
    ///
    /// A whole run of full length is recorded in bench/results; any other one only where `--json`
    /// says.
    pub(crate) fn new(choice: Choice) -> Result<Self, AttackError> {
        let seconds = setting("ATTACK_SECONDS", DEFAULT_SECONDS)?;
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results/attack.json");
        let origin = choice.origin.unwrap_or(ORIGIN);
        let is_whole = choice.only.is_empty() && DEFAULT_SECONDS <= seconds && origin == ORIGIN;
        Ok(Self {
            attacks: if choice.only.is_empty() { attacks::all().collect() } else { choice.only },
            time: checked(seconds)?,
            origin,
            dubmesh: dubmesh()?,
            json: choice.json.or_else(|| is_whole.then_some(recorded)),
        })
    }
}

fn checked(seconds: u64) -> Result<Duration, AttackError> {
    match seconds {
        1..=MAX_SECONDS => Ok(Duration::from_secs(seconds)),
        _ => Err(AttackError::Seconds { seconds, max: MAX_SECONDS }),
    }
}

fn checked_origin(text: &str) -> Result<Ipv4Addr, AttackError> {
    let origin: Ipv4Addr = text.parse().map_err(|_| AttackError::Usage)?;
    match origin.is_loopback() {
        true => Ok(origin),
        false => Err(AttackError::NotLoopback { addr: (origin, 0).into() }),
    }
}
