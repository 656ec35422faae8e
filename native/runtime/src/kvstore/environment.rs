//! The job that MXNet's environment variables describe. Neither a server nor a scheduler is needed: the first process that can listen on
//! the root address collects the addresses of all workers, assigns ranks and distributes the addresses.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::params::Attrs;
use parking_lot::Mutex;

use super::connect::{self, Acceptor, Membership, Purpose};
use super::job::{DEFAULT_TIMEOUT, Job, JoinOptions, Listener, MAX_RANKS};
use super::wire;

const SECRET: &str = "FERROMX_JOB_SECRET";
const TIMEOUT: &str = "FERROMX_JOB_TIMEOUT";
/// Maximum length of an address or error message.
const MAX_TEXT_BYTES: usize = 300;
/// The default secret of jobs on one machine.
const LOOPBACK_SECRET: &str = "FerroMX on one machine";

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobRole {
    /// Trains.
    Worker,
    /// Has no function here; in MXNet it stores the values.
    Server,
    /// Sends the workers each other's addresses.
    Scheduler,
}

/// Variables that the program set, which take precedence over those of the process.
static OVERRIDES: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
/// The job of the environment, shared by all its stores.
static JOB: Mutex<Weak<Job>> = Mutex::new(Weak::new());

/// Sets variables that describe the job, with precedence over those of the process.
///
/// # Errors
/// An unknown role.
pub fn set_environment(variables: &Attrs) -> Result<()> {
    OVERRIDES.lock().extend(variables.iter().map(|(name, value)| (name.clone(), value.clone())));
    role().map(|_| ())
}

fn variable(name: &str) -> Option<String> {
    let overridden = OVERRIDES.lock().get(name).cloned();
    overridden.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
}

fn number<T: std::str::FromStr>(name: &str) -> Result<Option<T>> {
    let parse = |value: String| {
        value.trim().parse().map_err(|_| Error::Value(format!("{name} is '{value}': a number was expected")))
    };
    variable(name).map(parse).transpose()
}

fn require<T>(value: Option<T>, name: &str) -> Result<T> {
    value.ok_or_else(|| {
        Error::Value(format!(
            "{name} is not set: a distributed key-value store of several processes needs DMLC_NUM_WORKER, DMLC_PS_ROOT_URI and \
             DMLC_PS_ROOT_PORT in the environment of each"
        ))
    })
}

/// The role of this process: that of `DMLC_ROLE`, or a worker.
///
/// # Errors
/// An unknown role.
pub fn role() -> Result<JobRole> {
    match variable("DMLC_ROLE").as_deref() {
        None | Some("worker") => Ok(JobRole::Worker),
        Some("server") => Ok(JobRole::Server),
        Some("scheduler") => Ok(JobRole::Scheduler),
        Some(other) => Err(Error::Value(format!("DMLC_ROLE is '{other}': the roles are worker, server and scheduler"))),
    }
}

/// Whether this process has a store of its environment's job.
pub fn has_job() -> bool {
    JOB.lock().strong_count() > 0
}

/// The settings of the environment.
struct Settings {
    size: usize,
    rank: Option<usize>,
    root: (String, u16),
    secret: Vec<u8>,
    timeout: Duration,
}

/// Number of workers of the job.
///
/// # Errors
/// `DMLC_NUM_WORKER` is missing or invalid.
pub(super) fn num_workers() -> Result<usize> {
    let size: usize = require(number("DMLC_NUM_WORKER")?, "DMLC_NUM_WORKER")?;
    ensure!((1..=MAX_RANKS).contains(&size), "DMLC_NUM_WORKER is {size}: a job has 1 to {MAX_RANKS} workers");
    Ok(size)
}

fn settings() -> Result<Settings> {
    let size = num_workers()?;
    let rank = match number("DMLC_WORKER_ID")? {
        Some(rank) => Some(rank),
        None => number("DMLC_RANK")?,
    };
    ensure!(
        rank.is_none_or(|r: usize| r < size),
        "DMLC_WORKER_ID is {}: the ranks of {size} workers count from 0",
        rank.unwrap_or(0)
    );
    let timeout = match number::<f64>(TIMEOUT)? {
        None => DEFAULT_TIMEOUT,
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|t| !t.is_zero())
            .ok_or_else(|| Error::Value(format!("{TIMEOUT} is {seconds}: seconds above 0 were expected")))?,
    };
    if size == 1 {
        return Ok(Settings { size, rank, root: ("127.0.0.1".into(), 0), secret: Vec::new(), timeout });
    }
    let host = require(variable("DMLC_PS_ROOT_URI"), "DMLC_PS_ROOT_URI")?;
    let port = require(number("DMLC_PS_ROOT_PORT")?, "DMLC_PS_ROOT_PORT")?;
    let is_local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let secret = match variable(SECRET) {
        Some(secret) => secret,
        None if is_local => LOOPBACK_SECRET.into(),
        None => {
            return Err(Error::Value(format!(
                "{SECRET} is not set, while the root {host}:{port} can be reached from other machines: set it to the same 16 or more \
                 random characters for all processes of the job"
            )));
        }
    };
    Ok(Settings { size, rank, root: (host, port), secret: secret.into_bytes(), timeout })
}

/// The job of the environment; the first call joins it.
///
/// # Errors
/// Missing or invalid variables; workers that do not connect in time.
pub(super) fn job() -> Result<Arc<Job>> {
    let mut current = JOB.lock();
    if let Some(job) = current.upgrade() {
        return Ok(job);
    }
    let job = Arc::new(join(&settings()?)?);
    *current = Arc::downgrade(&job);
    Ok(job)
}

fn join(settings: &Settings) -> Result<Job> {
    let Settings { size, secret, timeout, .. } = settings;
    let host =
        if settings.root.0 == "localhost" || settings.root.0.starts_with("127.") { "127.0.0.1" } else { "0.0.0.0" };
    let listener = Listener::open(host, 0)?;
    let options = |rank, peers| JoinOptions { rank, peers, secret: secret.clone(), timeout: *timeout };
    if *size == 1 {
        let peers = vec![format!("127.0.0.1:{}", listener.port())];
        return Job::join(listener, options(0, peers), &|| false);
    }
    let failed = |e: io::Error| Error::Value(format!("the workers of the distributed job could not connect: {e}"));
    let root = root_listener(settings)?;
    let root_copy = root.as_ref().map(TcpListener::try_clone).transpose().map_err(failed)?;
    if let Some(root) = root {
        let (membership, size) = (membership(settings), *size);
        let serve = move || {
            if let Err(e) = run_rendezvous(root, &membership, size) {
                log::warn!("the workers of a distributed job did not find each other: {e}");
            }
        };
        connect::spawn("ferromx-rendezvous", serve).map_err(failed)?;
    }
    let (rank, peers) = register(settings, listener.port())?;
    let job = Job::join(listener, options(rank, peers), &|| false)?;
    root_copy.into_iter().for_each(|root| job.hold_root(root));
    Ok(job)
}

fn membership(settings: &Settings) -> Membership {
    let rank = settings.rank.unwrap_or(u32::MAX as usize);
    Membership { rank, size: settings.size, secret: settings.secret.clone().into(), timeout: settings.timeout }
}

/// The listener at the root address, unless the address is another machine's or another process listens there.
fn root_listener(settings: &Settings) -> Result<Option<TcpListener>> {
    let (host, port) = &settings.root;
    match TcpListener::bind((host.as_str(), *port)) {
        Ok(listener) => Ok(Some(listener)),
        Err(e) if matches!(e.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) => Ok(None),
        Err(e) => Err(Error::Value(format!(
            "cannot listen on the root address {host}:{port}: {e}: check DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT"
        ))),
    }
}

fn write_text(mut stream: &TcpStream, text: &str) -> io::Result<()> {
    let text = wire::truncated(text, MAX_TEXT_BYTES);
    stream.write_all(&(text.len() as u16).to_le_bytes())?;
    stream.write_all(text.as_bytes())
}

fn read_text(stream: &TcpStream, timeout: Duration) -> io::Result<String> {
    let mut len = [0; 2];
    wire::fill(stream, &mut len, timeout, None)?;
    let len = usize::from(u16::from_le_bytes(len));
    if len > MAX_TEXT_BYTES {
        let text = format!("a text of {len} bytes, while at most {MAX_TEXT_BYTES} are allowed");
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    let mut text = vec![0; len];
    wire::fill(stream, &mut text, timeout, None)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Sends this process's address to the root; returns its rank and the addresses of all workers.
fn register(settings: &Settings, port: u16) -> Result<(usize, Vec<String>)> {
    let (host, root_port) = &settings.root;
    let root = format!("{host}:{root_port}");
    let membership = membership(settings);
    let exchange_addresses = || -> io::Result<Vec<String>> {
        let stream = connect::connect(&root, Purpose::Rendezvous, &membership, Instant::now() + settings.timeout)?;
        let own = match variable("DMLC_NODE_HOST") {
            Some(host) => host,
            None => stream.local_addr()?.ip().to_string(),
        };
        let own = if own.contains(':') { format!("[{own}]") } else { own };
        write_text(&stream, &format!("{own}:{port}"))?;
        // The root answers when the last worker has registered, or after its own timeout.
        let first = read_text(&stream, settings.timeout + Duration::from_secs(1))?;
        let mut answer = vec![first];
        if answer[0].parse::<usize>().is_ok() {
            for _ in 0..settings.size {
                answer.push(read_text(&stream, settings.timeout)?);
            }
        }
        Ok(answer)
    };
    let failed = |e: String| {
        Error::Value(format!("the workers of the distributed job could not find each other at the root {root}: {e}"))
    };
    let mut answer = exchange_addresses().map_err(|e| failed(e.to_string()))?;
    let first = answer.remove(0);
    let rank = first.parse().ok().filter(|rank| *rank < settings.size).ok_or_else(|| failed(first))?;
    Ok((rank, answer))
}

/// A registered worker.
struct RegisteredWorker {
    rank: Option<usize>,
    address: String,
    stream: TcpStream,
}

/// The rendezvous: waits for all workers to register, assigns ranks to those without one, and sends the addresses to all.
fn run_rendezvous(listener: TcpListener, membership: &Membership, size: usize) -> Result<()> {
    let failed = |e: io::Error| Error::Value(format!("the root could not listen: {e}"));
    let acceptor = Acceptor::open(listener, Purpose::Rendezvous, membership.clone()).map_err(failed)?;
    let deadline = Instant::now() + membership.timeout;
    let mut workers: Vec<RegisteredWorker> = Vec::new();
    let mut failure = None;
    while workers.len() < size && failure.is_none() {
        match acceptor.incoming.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok((rank, stream))) => {
                let Ok(address) = read_text(&stream, membership.timeout.min(Duration::from_secs(10))) else { continue };
                let rank = (rank < size).then_some(rank);
                if rank.is_some() && workers.iter().any(|w| w.rank == rank) {
                    failure = Some(format!("two workers have DMLC_WORKER_ID {}", rank.unwrap_or(0)));
                }
                workers.push(RegisteredWorker { rank, address, stream });
            }
            Ok(Err(refusal)) => log::warn!("{refusal}"),
            Err(_) if workers.is_empty() => {
                log::warn!("no worker of a distributed job registered with the root: they may be connected already");
                return Ok(());
            }
            Err(_) => failure = Some(timeout_message(&workers, size, membership.timeout)),
        }
    }
    if let Some(failure) = failure {
        // Ignore errors: a worker that disconnected needs no answer.
        workers.iter().for_each(|w| drop(write_text(&w.stream, &failure)));
        return Err(Error::Value(failure));
    }
    let assigned: Vec<_> = workers.iter().filter_map(|w| w.rank).collect();
    let mut free = (0..size).filter(|rank| !assigned.contains(rank));
    workers.iter_mut().for_each(|w| w.rank = w.rank.or_else(|| free.next()));
    workers.sort_by_key(|w| w.rank);
    for worker in &workers {
        let mut answer = vec![worker.rank.unwrap_or(0).to_string()];
        answer.extend(workers.iter().map(|w| w.address.clone()));
        let sent = answer.iter().try_for_each(|text| write_text(&worker.stream, text));
        if let Err(e) = sent {
            log::warn!("rank {} ({}) could not be sent the addresses: {e}", answer[0], worker.address);
        }
    }
    Ok(())
}

/// The message if only some workers registered in time. It names the others if all that registered have a rank.
fn timeout_message(registered: &[RegisteredWorker], size: usize, timeout: Duration) -> String {
    let seconds = timeout.as_secs_f64();
    if registered.iter().any(|w| w.rank.is_none()) {
        return format!("{} of {size} workers registered within {seconds:.1} s", registered.len());
    }
    let missing = (0..size).filter(|rank| registered.iter().all(|w| w.rank != Some(*rank)));
    let missing: Vec<_> = missing.map(|rank| format!("rank {rank}")).collect();
    format!("{} did not register within {seconds:.1} s", missing.join(", "))
}

/// Runs in the role of this process. A scheduler sends the workers each other's addresses, unless a worker does so already. A server has
/// nothing to do, because every worker stores all values.
///
/// # Errors
/// Missing variables; workers that do not connect in time.
pub(super) fn serve(role: JobRole) -> Result<()> {
    if role != JobRole::Scheduler {
        return Ok(());
    }
    let settings = settings()?;
    match root_listener(&settings)? {
        Some(listener) if settings.size > 1 => run_rendezvous(listener, &membership(&settings), settings.size),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free_port() -> u16 {
        Listener::open("127.0.0.1", 0).unwrap().port()
    }

    /// Starts workers that request these ranks; returns their ranks or errors.
    fn ranks(requested: &[Option<usize>], size: usize, has_scheduler: bool) -> Vec<Result<usize>> {
        let port = free_port();
        let settings = |rank| Settings {
            size,
            rank,
            root: ("127.0.0.1".into(), port),
            secret: LOOPBACK_SECRET.into(),
            timeout: Duration::from_secs(4),
        };
        std::thread::scope(|scope| {
            if has_scheduler {
                let listener = root_listener(&settings(None)).unwrap().unwrap();
                scope.spawn(move || run_rendezvous(listener, &membership(&settings(None)), size));
            }
            let work = |rank| {
                let job = join(&settings(rank))?;
                job.barrier()?;
                Ok(job.rank())
            };
            let threads: Vec<_> = requested.iter().map(|rank| scope.spawn(move || work(*rank))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }

    #[test]
    fn workers_find_each_other_without_a_scheduler() {
        for has_scheduler in [false, true] {
            assert_eq!(ranks(&[Some(2), Some(0), Some(1)], 3, has_scheduler), [Ok(2), Ok(0), Ok(1)]);
            let mut assigned: Vec<_> =
                ranks(&[None, Some(1), None], 3, has_scheduler).into_iter().map(Result::unwrap).collect();
            assigned.sort_unstable();
            assert_eq!(assigned, [0, 1, 2]);
        }
    }

    #[test]
    fn workers_that_do_not_come_are_named() {
        for result in ranks(&[Some(0), Some(2)], 3, false) {
            assert!(result.unwrap_err().to_string().contains("rank 1 did not register within 4.0 s"));
        }
        for result in ranks(&[Some(1), Some(1)], 2, false) {
            assert!(result.unwrap_err().to_string().contains("two workers have DMLC_WORKER_ID 1"));
        }
    }
}
