//! Connects ranks. Both sides authenticate by challenge and response: each proves that it has the job's secret by an HMAC over the nonces
//! of both, so that the secret is never sent.

use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ferromx_core::error::{Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::wire::{self, POLL};

const MAGIC: &[u8; 8] = b"FerroMX\x01";
const NONCE_LEN: usize = 32;
/// A hello: magic number, purpose (1 byte), rank and number of ranks (4 bytes each), nonce.
const HELLO_LEN: usize = 8 + 1 + 4 + 4 + NONCE_LEN;
/// Offsets in a hello.
const RANK_OFFSET: usize = 9;
const SIZE_OFFSET: usize = 13;
const PROOF_LEN: usize = 32;
const CHALLENGE_LEN: usize = NONCE_LEN + PROOF_LEN;
/// Maximum duration of a handshake, which bounds the resources that an unauthenticated peer can hold.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent handshakes.
const MAX_HANDSHAKES: usize = 256;

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Exchanging gradients.
    Peer = 0,
    /// Exchanging the addresses of the ranks.
    Rendezvous = 1,
}

/// The rank of this process, and the parameters that all ranks of the job share.
#[derive(Clone)]
pub(super) struct Membership {
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) secret: Arc<[u8]>,
    pub(super) timeout: Duration,
}

/// The HMAC of messages, one after the other.
fn hmac(secret: &[u8], messages: &[&[u8]]) -> io::Result<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(io::Error::other)?;
    messages.iter().for_each(|message| mac.update(message));
    Ok(mac)
}

fn nonce() -> io::Result<[u8; NONCE_LEN]> {
    let mut bytes = [0; NONCE_LEN];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

fn rejected(text: &str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, text)
}

/// Configures a stream: reads return after [`POLL`] to check whether the job has ended, and writes after the job's timeout.
pub(super) fn configure(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(POLL.min(timeout)))?;
    stream.set_write_timeout(Some(timeout))
}

/// The handshake of the connecting rank: sends its rank and verifies the listener's proof.
fn handshake_as_caller(mut stream: &TcpStream, purpose: Purpose, membership: &Membership) -> io::Result<()> {
    configure(stream, membership.timeout)?;
    let mut hello = Vec::with_capacity(HELLO_LEN);
    hello.extend(MAGIC);
    hello.push(purpose as u8);
    hello.extend((membership.rank as u32).to_le_bytes());
    hello.extend((membership.size as u32).to_le_bytes());
    hello.extend(nonce()?);
    stream.write_all(&hello)?;
    let mut challenge = [0; CHALLENGE_LEN];
    wire::fill(stream, &mut challenge, membership.timeout, None)?;
    let (nonce, proof) = challenge.split_at(NONCE_LEN);
    hmac(&membership.secret, &[b"listener", &hello, nonce])?
        .verify_slice(proof)
        .map_err(|_| rejected("it does not have this job's secret"))?;
    stream.write_all(&hmac(&membership.secret, &[b"caller", &hello, &challenge])?.finalize().into_bytes())?;
    // Wait for the confirmation, so that a rejection is an error of this call.
    let mut confirmation = [0];
    wire::fill(stream, &mut confirmation, membership.timeout, None)
}

/// The handshake of the listener: verifies the caller's proof and returns its rank.
fn handshake_as_listener(mut stream: &TcpStream, purpose: Purpose, membership: &Membership) -> io::Result<usize> {
    let timeout = HANDSHAKE_TIMEOUT.min(membership.timeout);
    configure(stream, timeout)?;
    let mut hello = [0; HELLO_LEN];
    wire::fill(stream, &mut hello, timeout, None)?;
    if hello[..8] != *MAGIC || hello[8] != purpose as u8 {
        return Err(rejected("it uses another protocol"));
    }
    let mut challenge = nonce()?.to_vec();
    let proof = hmac(&membership.secret, &[b"listener", &hello, &challenge])?.finalize().into_bytes();
    challenge.extend(proof);
    stream.write_all(&challenge)?;
    let mut proof = [0; PROOF_LEN];
    wire::fill(stream, &mut proof, timeout, None)?;
    hmac(&membership.secret, &[b"caller", &hello, &challenge])?
        .verify_slice(&proof)
        .map_err(|_| rejected("it does not have this job's secret"))?;
    let u32_at = |i: usize| u32::from_le_bytes([hello[i], hello[i + 1], hello[i + 2], hello[i + 3]]) as usize;
    let (rank, size) = (u32_at(RANK_OFFSET), u32_at(SIZE_OFFSET));
    if size != membership.size {
        return Err(rejected(&format!("it belongs to a job with {size} ranks")));
    }
    stream.write_all(&[1])?;
    configure(stream, membership.timeout)?;
    Ok(rank)
}

fn is_broken(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// Time between two attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

fn connect_to_any(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Connects to a listener, which may not be open yet, and performs the handshake.
pub(super) fn connect(
    address: &str,
    purpose: Purpose,
    membership: &Membership,
    deadline: Instant,
) -> io::Result<TcpStream> {
    let remaining = || deadline.saturating_duration_since(Instant::now());
    loop {
        let stream = match connect_to_any(address, remaining().max(Duration::from_millis(1))) {
            Ok(stream) => stream,
            Err(e) if remaining().is_zero() => return Err(e),
            Err(_) => {
                thread::sleep(RETRY_INTERVAL.min(remaining()));
                continue;
            }
        };
        let membership_until_deadline = Membership { timeout: remaining().max(POLL), ..membership.clone() };
        match handshake_as_caller(&stream, purpose, &membership_until_deadline) {
            Ok(()) => {
                configure(&stream, membership.timeout)?;
                return Ok(stream);
            }
            // The listener may belong to a job that has ended.
            Err(e) if is_broken(&e) && !remaining().is_zero() => thread::sleep(RETRY_INTERVAL.min(remaining())),
            Err(e) => return Err(e),
        }
    }
}

/// Accepts connections on a listener until it is dropped. Each handshake has its own thread, so that a silent peer does not delay others.
pub(super) struct Acceptor {
    is_open: Arc<AtomicBool>,
    /// Authenticated peers with their ranks, and the errors of rejected ones.
    pub(super) incoming: Receiver<Result<(usize, TcpStream), String>>,
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.is_open.store(false, Ordering::Relaxed);
    }
}

fn authenticate(
    stream: TcpStream,
    purpose: Purpose,
    membership: &Membership,
    results: &Sender<Result<(usize, TcpStream), String>>,
) {
    let from = stream.peer_addr().map_or_else(|e| e.to_string(), |a| a.to_string());
    let result = handshake_as_listener(&stream, purpose, membership)
        .map_err(|e| format!("a connection from {from} was refused: {e}"));
    if result.is_err() {
        // The peer may have disconnected.
        let _ = stream.shutdown(Shutdown::Both);
    }
    let _ = results.send(result.map(|rank| (rank, stream)));
}

impl Acceptor {
    pub(super) fn open(listener: TcpListener, purpose: Purpose, membership: Membership) -> io::Result<Acceptor> {
        listener.set_nonblocking(true)?;
        let (results, incoming) = channel();
        let is_open = Arc::new(AtomicBool::new(true));
        let open = is_open.clone();
        spawn("ferromx-accept", move || {
            let num_handshakes = Arc::new(AtomicUsize::new(0));
            while open.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                };
                if num_handshakes.fetch_add(1, Ordering::Relaxed) >= MAX_HANDSHAKES {
                    num_handshakes.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (membership, results, num_handshakes) =
                    (membership.clone(), results.clone(), num_handshakes.clone());
                // If the thread cannot start, the stream is dropped, and the peer gets an error.
                let _ = spawn("ferromx-hear", move || {
                    authenticate(stream, purpose, &membership, &results);
                    num_handshakes.fetch_sub(1, Ordering::Relaxed);
                });
            }
        })?;
        Ok(Acceptor { is_open, incoming })
    }
}

/// Starts a thread with a small stack.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.into()).stack_size(512 << 10).spawn(run)
}

/// The connections of this rank to the others, while they are made.
struct Connections<'a> {
    membership: &'a Membership,
    /// The addresses of all ranks.
    peers: &'a [String],
    streams: Vec<Option<TcpStream>>,
    /// Why connections were refused.
    refusals: Vec<String>,
}

impl Connections<'_> {
    /// Keeps a connection to a lower rank.
    fn add_outgoing(&mut self, rank: usize, result: io::Result<TcpStream>) -> Result<()> {
        let stream = result.map_err(|e| {
            let (address, own_rank) = (&self.peers[rank], self.membership.rank);
            Error::Value(format!("rank {rank} ({address}) could not be joined by rank {own_rank}: {e}"))
        })?;
        self.streams[rank] = Some(stream);
        Ok(())
    }

    /// Keeps the first connection of each higher rank, and notes refusals.
    fn add_incoming(&mut self, connection: Result<(usize, TcpStream), String>) {
        let higher_ranks = self.membership.rank + 1..self.membership.size;
        match connection {
            Ok((rank, stream)) if higher_ranks.contains(&rank) && self.streams[rank].is_none() => {
                self.streams[rank] = Some(stream);
            }
            Ok((rank, _)) => self.refusals.push(format!("a second process calls itself rank {rank}")),
            Err(refusal) => self.refusals.push(refusal),
        }
        self.refusals.truncate(8);
    }

    fn missing_ranks(&self) -> Vec<usize> {
        let is_missing = |rank: &usize| *rank != self.membership.rank && self.streams[*rank].is_none();
        (0..self.membership.size).filter(is_missing).collect()
    }

    /// The error that these ranks did not join in time.
    fn timed_out(&self, missing: &[usize]) -> Error {
        let names: Vec<_> = missing.iter().map(|rank| format!("rank {rank} ({})", self.peers[*rank])).collect();
        let refusals = self.refusals.iter().map(|r| format!("; {r}")).collect::<String>();
        Error::Value(format!(
            "rank {} waited {:.1} s for {}, which did not join{refusals}: start all ranks with the same secret, list of peers and \
             number of ranks",
            self.membership.rank,
            self.membership.timeout.as_secs_f64(),
            names.join(", ")
        ))
    }
}

/// Connects this rank to all others: it connects to lower ranks and accepts connections of higher ones. Returns the connection to each
/// rank, and `None` for this one.
///
/// # Errors
/// A rank that cannot be reached or does not connect within the timeout, by name.
pub(super) fn connect_all(
    listener: TcpListener,
    membership: &Membership,
    peers: &[String],
    is_closed: &dyn Fn() -> bool,
) -> Result<Vec<Option<TcpStream>>> {
    let deadline = Instant::now() + membership.timeout;
    let failed = |e: io::Error| Error::Value(format!("rank {} could not open its connections: {e}", membership.rank));
    let acceptor = Acceptor::open(listener, Purpose::Peer, membership.clone()).map_err(failed)?;
    let (results, outgoing) = channel();
    for (rank, address) in peers.iter().enumerate().take(membership.rank) {
        let (membership, address, results) = (membership.clone(), address.clone(), results.clone());
        spawn("ferromx-call", move || {
            let _ = results.send((rank, connect(&address, Purpose::Peer, &membership, deadline)));
        })
        .map_err(failed)?;
    }
    let streams = peers.iter().map(|_| None).collect();
    let mut connections = Connections { membership, peers, streams, refusals: Vec::new() };
    loop {
        outgoing.try_iter().try_for_each(|(rank, result)| connections.add_outgoing(rank, result))?;
        acceptor.incoming.try_iter().for_each(|connection| connections.add_incoming(connection));
        let missing = connections.missing_ranks();
        if missing.is_empty() {
            return Ok(connections.streams);
        }
        if is_closed() {
            return Err(Error::Value("the distributed job was closed while it was joined".into()));
        }
        if Instant::now() >= deadline {
            return Err(connections.timed_out(&missing));
        }
        thread::sleep(Duration::from_millis(2));
    }
}
