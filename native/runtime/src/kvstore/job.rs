//! Jobs: the ranks that train one model.

use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use parking_lot::{Condvar, Mutex};

use super::collective::{Collective, Payload, Shared};
use super::connect::{self, Membership};
use super::wire::Kind;

/// Maximum time that closing a job waits until other ranks no longer need it and its messages are sent.
const LINGER: Duration = Duration::from_secs(5);
/// The default timeout of a job.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// Minimum length of the secret of a job of several ranks.
pub(super) const MIN_SECRET_BYTES: usize = 16;
/// Maximum number of ranks; each is connected to all others.
pub(super) const MAX_RANKS: usize = 1024;

/// A listener for the connections of other ranks.
pub(super) struct Listener {
    listener: TcpListener,
    port: u16,
}

impl Listener {
    /// Opens a listener; port 0 takes a free one.
    ///
    /// # Errors
    /// An address that cannot be listened on.
    pub(super) fn open(host: &str, port: u16) -> Result<Listener> {
        let failed = |e: std::io::Error| Error::Value(format!("a distributed job cannot listen on {host}:{port}: {e}"));
        let listener = TcpListener::bind((host, port)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Listener { listener, port })
    }

    /// The port of the listener.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

/// What a rank needs to join a job.
pub struct JoinOptions {
    /// The rank.
    pub rank: usize,
    /// `host:port` of each rank, this one included.
    pub peers: Vec<String>,
    /// The secret, known only to members of the job.
    pub secret: Vec<u8>,
    /// Maximum time to wait for other ranks, now and in each later operation.
    pub timeout: Duration,
}

/// A rank's membership in a job. It ends when it is closed or dropped.
pub struct Job {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    num_stores: AtomicU64,
    /// The root's listener. While it is open, a scheduler that starts late detects that the workers are connected.
    root: Mutex<Option<TcpListener>>,
}

impl Job {
    /// Connects to all other ranks.
    ///
    /// # Errors
    /// Ranks that cannot be reached or do not connect in time, by name; a short secret; a rank outside the list of peers.
    pub(super) fn join(listener: Listener, options: JoinOptions, is_closed: &dyn Fn() -> bool) -> Result<Job> {
        let JoinOptions { rank, peers, secret, timeout } = options;
        let size = peers.len();
        ensure!(rank < size, "rank {rank} is not among the {size} peers: ranks count from 0");
        ensure!(size <= MAX_RANKS, "{size} peers were given: a distributed job has at most {MAX_RANKS}");
        ensure!(
            !timeout.is_zero(),
            "the timeout of a distributed job is zero: give the maximum time to wait for other ranks"
        );
        ensure!(
            size == 1 || secret.len() >= MIN_SECRET_BYTES,
            "the secret of a distributed job has {} bytes: give the same {MIN_SECRET_BYTES} or more random bytes to all ranks",
            secret.len()
        );
        let membership = Membership { rank, size, secret: secret.into(), timeout };
        let streams = connect::connect_all(listener.listener, &membership, &peers, is_closed)?;
        let shared = Arc::new(Shared {
            membership,
            peers,
            state: Mutex::default(),
            changed: Condvar::new(),
            outboxes: Mutex::new((0..size).map(|_| None).collect()),
            streams,
        });
        let job = Job { shared, threads: Mutex::default(), num_stores: AtomicU64::new(0), root: Mutex::default() };
        job.start_threads().map_err(|e| Error::Value(format!("rank {rank} could not start its threads: {e}")))?;
        Ok(job)
    }

    fn start_threads(&self) -> std::io::Result<()> {
        for (peer, stream) in self.shared.streams.iter().enumerate() {
            let Some(stream) = stream else { continue };
            let (outbox, messages) = channel();
            self.shared.outboxes.lock()[peer] = Some(outbox);
            let (shared, incoming) = (self.shared.clone(), stream.try_clone()?);
            connect::spawn("ferromx-receive", move || shared.receive(peer, &incoming))?;
            let (shared, outgoing) = (self.shared.clone(), stream.try_clone()?);
            let writer = connect::spawn("ferromx-send", move || shared.send(peer, &outgoing, &messages))?;
            self.threads.lock().push(writer);
        }
        Ok(())
    }

    /// Keeps the root's listener open until the job ends.
    pub(super) fn hold_root(&self, root: TcpListener) {
        *self.root.lock() = Some(root);
    }

    /// The rank of this process.
    pub fn rank(&self) -> usize {
        self.shared.membership.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.shared.membership.size
    }

    /// Number of ranks whose connections broke or that have closed the job.
    pub fn num_lost(&self) -> usize {
        let state = self.shared.state.lock();
        (0..self.size()).filter(|rank| state.lost.contains(rank) || state.departed.contains(rank)).count()
    }

    /// The number of a new store. Stores with equal numbers correspond, so all ranks must create them in the same order.
    pub(super) fn new_store(&self) -> u64 {
        self.num_stores.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts an operation, or queues it if too many are running, and returns its number.
    pub(super) fn start(&self, digest: u64, collective: Collective) -> Result<u64> {
        self.shared.start(digest, collective)
    }

    /// Waits for an operation and returns its result: the contributions of all ranks, or the sums of all slices. The job stores it until
    /// [`Job::discard`].
    pub(super) fn wait(&self, sequence: u64) -> Result<Vec<Payload>> {
        self.shared.wait(sequence)
    }

    /// Drops the result of an operation.
    pub(super) fn discard(&self, sequence: u64) {
        self.shared.state.lock().discard(sequence);
    }

    /// Gathers contributions of known lengths.
    pub(super) fn gather(&self, digest: u64, own: Vec<u8>, lens: Vec<usize>) -> Result<Vec<Payload>> {
        let sequence = self.start(digest, Collective::AllGather { own, lens })?;
        let result = self.wait(sequence);
        self.discard(sequence);
        result
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    /// A rank that is lost or silent, by name.
    pub fn barrier(&self) -> Result<()> {
        self.gather(0, Vec::new(), vec![0; self.size()]).map(|_| ())
    }

    /// Breaks all connections, as the end of the process would.
    #[cfg(test)]
    pub(super) fn break_connections(&self) {
        for stream in self.shared.streams.iter().flatten() {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// Leaves the job. Threads that wait get an error. Operations that were started are completed for the other ranks, if these start them
    /// within five seconds.
    pub fn close(&self) {
        let shared = &self.shared;
        let deadline = Instant::now() + LINGER.min(shared.membership.timeout);
        {
            let mut state = shared.state.lock();
            while state.is_needed(shared.membership.rank) && state.failure.is_none() && !state.is_closed {
                if shared.changed.wait_until(&mut state, deadline).timed_out() {
                    break;
                }
            }
            if std::mem::replace(&mut state.is_closed, true) {
                return;
            }
        }
        shared.changed.notify_all();
        *self.root.lock() = None;
        shared.broadcast(Kind::Goodbye, "");
        // The writers end after the last message, because their channels have no senders left.
        shared.outboxes.lock().iter_mut().for_each(|outbox| *outbox = None);
        for thread in self.threads.lock().drain(..) {
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let has_failed = shared.state.lock().failure.is_some();
        let direction = if has_failed { Shutdown::Both } else { Shutdown::Write };
        for stream in shared.streams.iter().flatten() {
            // The peer may have closed the connection already.
            let _ = stream.shutdown(direction);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.close();
    }
}
