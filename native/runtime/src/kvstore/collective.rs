//! The collective operations of a job.
//!
//! Operations are numbered in the order of calls, which must be the same on all ranks; each message carries a digest of its call. An
//! all-reduce is a reduce-scatter followed by an all-gather: its bytes are split into one slice per rank, every rank sends its contribution
//! to each slice to that slice's rank, and this rank sends the sum to all. In an all-gather, every rank sends its contribution to all.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Instant;

use ferromx_core::error::{Error, Result};
use ferromx_core::{ensure, memory};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::connect::Membership;
use super::wire::{self, Header, Kind, Message, POLL};

/// Maximum number of concurrent operations. Further ones are queued, so that starting one never waits.
const WINDOW: u64 = 16;
/// Maximum length of an error message that is sent.
const MAX_REASON: usize = 1024;

/// Computes the sum of a slice from the contributions of all ranks.
pub(super) type Reduction = dyn Fn(Range<usize>, &[Payload]) -> Result<Vec<u8>> + Send + Sync;
pub(super) type Payload = Arc<Vec<u8>>;

/// A collective operation and its data.
pub(super) enum Collective {
    /// Every rank gets the contributions of all.
    AllGather {
        /// The contribution of this rank.
        own: Vec<u8>,
        /// Bytes that each rank contributes.
        lens: Vec<usize>,
    },
    /// Every rank gets the sums of all slices.
    AllReduce {
        /// The contributions of this rank to each slice.
        own: Vec<Vec<u8>>,
        /// Bytes that each rank contributes to the slice of this rank.
        lens: Vec<usize>,
        /// The slices, as ranges of bytes.
        slices: Vec<Range<usize>>,
        /// Sums the slice of this rank.
        sum: Box<Reduction>,
    },
}

/// An operation that this rank has started.
pub(super) struct Operation {
    digest: u64,
    contributions: Vec<Option<Payload>>,
    lens: Vec<usize>,
    /// The slices and their sums, of a reduce operation.
    slices: Vec<Range<usize>>,
    sums: Vec<Option<Payload>>,
    sum: Option<Box<Reduction>>,
    /// Number of messages that were not passed to the operating system yet.
    unsent: usize,
    pub(super) is_done: bool,
    /// Whether the result is no longer needed.
    pub(super) is_discarded: bool,
}

impl Operation {
    /// The ranks whose messages are missing: first contributions, then sums.
    fn missing(&self) -> Vec<usize> {
        let absent = |items: &[Option<Payload>]| {
            items.iter().enumerate().filter(|(_, i)| i.is_none()).map(|(rank, _)| rank).collect::<Vec<_>>()
        };
        match (self.sum.is_none() && !self.slices.is_empty(), absent(&self.contributions)) {
            (false, missing) if !missing.is_empty() => missing,
            _ => absent(&self.sums),
        }
    }
}

/// Messages that arrived before this rank started their operation: digest and body, by operation, rank and whether the body is a sum.
type Early = BTreeMap<(u64, usize, bool), (u64, Payload)>;

/// An operation that waits until fewer are running.
struct Queued {
    digest: u64,
    collective: Collective,
    is_discarded: bool,
}

#[derive(Default)]
pub(super) struct State {
    /// Number of the next operation to launch.
    next_sequence: u64,
    pub(super) operations: BTreeMap<u64, Operation>,
    /// Number of operations that were launched and are not complete.
    num_running: u64,
    /// Operations that follow the launched ones.
    queue: VecDeque<Queued>,
    early: Early,
    /// Ranks that have closed their jobs.
    pub(super) departed: Vec<usize>,
    /// Ranks whose connections broke.
    pub(super) lost: Vec<usize>,
    pub(super) failure: Option<String>,
    pub(super) is_closed: bool,
    /// Number of completed operations, to detect progress.
    num_done: u64,
}

impl State {
    /// Number of the next operation to start.
    fn end(&self) -> u64 {
        self.next_sequence + self.queue.len() as u64
    }

    /// Whether other ranks still need work of `rank`, this rank: contributions of queued operations, or sums of its slices. Operations
    /// that need a rank that has left cannot complete.
    pub(super) fn is_needed(&self, rank: usize) -> bool {
        let can_arrive = |(peer, item): (usize, &Option<Payload>)| item.is_some() || !self.departed.contains(&peer);
        let owes_sum = |operation: &Operation| {
            operation.sums.get(rank).is_some_and(Option::is_none)
                && operation.contributions.iter().enumerate().all(can_arrive)
        };
        (!self.queue.is_empty() && self.departed.is_empty()) || self.operations.values().any(owes_sum)
    }

    /// Marks the result of an operation as not needed. Messages of an incomplete one can still arrive.
    pub(super) fn discard(&mut self, sequence: u64) {
        if let Some(operation) = self.operations.get_mut(&sequence) {
            operation.is_discarded = true;
            if operation.is_done {
                self.operations.remove(&sequence);
            }
        } else if let Some(index) = sequence.checked_sub(self.next_sequence)
            && let Some(queued) = self.queue.get_mut(index as usize)
        {
            queued.is_discarded = true;
        }
    }
}

/// What the threads of a job share.
pub(super) struct Shared {
    pub(super) membership: Membership,
    pub(super) peers: Vec<String>,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
    pub(super) outboxes: Mutex<Vec<Option<Sender<Message>>>>,
    pub(super) streams: Vec<Option<TcpStream>>,
}

impl Shared {
    fn name(&self, rank: usize) -> String {
        format!("rank {rank} ({})", self.peers[rank])
    }

    fn names(&self, ranks: &[usize]) -> String {
        ranks.iter().map(|rank| self.name(*rank)).collect::<Vec<_>>().join(", ")
    }

    fn post(&self, peer: usize, message: Message) {
        if let Some(Some(outbox)) = self.outboxes.lock().get(peer) {
            // A writer that has ended has reported its error.
            let _ = outbox.send(message);
        }
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.membership.rank;
        (0..self.membership.size).filter(move |other| *other != rank)
    }

    pub(super) fn broadcast(&self, kind: Kind, text: &str) {
        let body = Arc::new(wire::truncated(text, MAX_REASON).as_bytes().to_vec());
        let header = Header { kind, sequence: 0, digest: 0, len: body.len() };
        for peer in self.others() {
            let range = 0..body.len();
            self.post(peer, Message { header: header.bytes(), body: body.clone(), range, sequence: None });
        }
    }

    /// Ends all operations with an error, which is sent to the other ranks.
    fn fail(&self, reason: String) {
        {
            let mut state = self.state.lock();
            if state.is_closed || state.failure.is_some() {
                return;
            }
            log::warn!("distributed job, rank {}: {reason}", self.membership.rank);
            state.failure = Some(reason.clone());
        }
        self.changed.notify_all();
        self.broadcast(Kind::Failure, &reason);
    }

    fn check(&self, state: &State) -> Result<()> {
        ensure!(!state.is_closed, "rank {} has closed its distributed job", self.membership.rank);
        match &state.failure {
            Some(reason) => Err(Error::Value(format!(
                "the distributed job failed: {reason}: start all ranks again, from the last checkpoint"
            ))),
            None => Ok(()),
        }
    }

    /// Starts an operation, or queues it if too many are running, and returns its number.
    pub(super) fn start(&self, digest: u64, collective: Collective) -> Result<u64> {
        let mut state = self.state.lock();
        self.check(&state)?;
        let sequence = state.end();
        state.queue.push_back(Queued { digest, collective, is_discarded: false });
        self.launch_queued(&mut state)?;
        Ok(sequence)
    }

    fn launch_queued(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        while state.num_running < WINDOW && state.failure.is_none() {
            let Some(queued) = state.queue.pop_front() else { return Ok(()) };
            self.launch(state, queued)?;
            // Closing a job waits for its queue.
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Sends the contributions of this rank, and takes the messages of others that came before.
    fn launch(&self, state: &mut MutexGuard<'_, State>, queued: Queued) -> Result<()> {
        let Queued { digest, collective, is_discarded } = queued;
        let sequence = state.next_sequence;
        state.next_sequence += 1;
        state.num_running += 1;
        let (rank, size) = (self.membership.rank, self.membership.size);
        let mut contributions: Vec<Option<Payload>> = vec![None; size];
        let mut outgoing = Vec::new();
        let (lens, slices, sum) = match collective {
            Collective::AllGather { own, lens } => {
                let own = Arc::new(own);
                outgoing.extend(self.others().map(|peer| (peer, own.clone())));
                contributions[rank] = Some(own);
                (lens, Vec::new(), None)
            }
            Collective::AllReduce { own, lens, slices, sum } => {
                for (peer, bytes) in own.into_iter().enumerate() {
                    if peer == rank {
                        contributions[rank] = Some(Arc::new(bytes));
                    } else {
                        outgoing.push((peer, Arc::new(bytes)));
                    }
                }
                (lens, slices, Some(sum))
            }
        };
        let sums = vec![None; slices.len()];
        let unsent = outgoing.len();
        let operation =
            Operation { digest, contributions, lens, slices, sums, sum, unsent, is_done: false, is_discarded };
        state.operations.insert(sequence, operation);
        for (peer, body) in outgoing {
            self.post_to_operation(peer, Kind::Contribution, sequence, digest, body);
        }
        let future = state.early.split_off(&(sequence + 1, 0, false));
        for ((_, peer, is_sum), (digest, body)) in std::mem::replace(&mut state.early, future) {
            if let Err(reason) = self.store_message(state, peer, is_sum, (sequence, digest), body) {
                return Err(self.fail_because_of(state, peer, reason));
            }
        }
        self.advance(state, sequence)
    }

    /// Fails the job because a peer violated the protocol, and returns the error.
    fn fail_because_of(&self, state: &mut MutexGuard<'_, State>, peer: usize, reason: String) -> Error {
        let reason = format!("{} {reason}", self.name(peer));
        MutexGuard::unlocked(state, || self.fail(reason));
        self.check(state).err().unwrap_or_else(|| Error::Internal("an unknown failure".into()))
    }

    fn post_to_operation(&self, peer: usize, kind: Kind, sequence: u64, digest: u64, body: Payload) {
        let header = Header { kind, sequence, digest, len: body.len() };
        let range = 0..body.len();
        self.post(peer, Message { header: header.bytes(), body, range, sequence: Some(sequence) });
    }

    /// Adds a message to its operation, which this rank has started.
    fn store_message(
        &self,
        state: &mut State,
        peer: usize,
        is_sum: bool,
        (sequence, digest): (u64, u64),
        body: Payload,
    ) -> Result<(), String> {
        let operation = state.operations.get_mut(&sequence).filter(|o| !o.is_done);
        let operation = operation.ok_or("sent a message of a completed operation")?;
        if operation.digest != digest {
            return Err(format!(
                "called the key-value store with other keys, shapes, types or numbers of shards than rank {} in call {sequence}: all \
                 ranks must make the same calls in the same order",
                self.membership.rank
            ));
        }
        let (items, len) = match is_sum {
            true => (&mut operation.sums, operation.slices.get(peer).map_or(0, Range::len)),
            false => (&mut operation.contributions, operation.lens[peer]),
        };
        if body.len() != len {
            return Err(format!("sent {} bytes where {len} were expected", body.len()));
        }
        match items.get_mut(peer) {
            Some(item @ None) => *item = Some(body),
            _ => return Err("sent a message twice".into()),
        }
        Ok(())
    }

    /// Sums the slice of this rank once all contributions have arrived, and ends the operation when it is complete.
    fn advance(&self, state: &mut MutexGuard<'_, State>, sequence: u64) -> Result<()> {
        let rank = self.membership.rank;
        let Some(operation) = state.operations.get_mut(&sequence) else { return Ok(()) };
        if operation.contributions.iter().all(Option::is_some) && operation.sum.is_some() {
            let terms: Vec<Payload> = operation.contributions.iter_mut().filter_map(|c| c.take()).collect();
            // Free their memory; an empty payload counts as received.
            operation.contributions.fill(Some(Payload::default()));
            let slice = operation.slices[rank].clone();
            let (sum, digest) = (operation.sum.take(), operation.digest);
            let total =
                MutexGuard::unlocked(state, || memory::catch(|| sum.map_or(Ok(Vec::new()), |sum| sum(slice, &terms))));
            let total = match total {
                Ok(total) => Arc::new(total),
                Err(e) => {
                    MutexGuard::unlocked(state, || self.fail(format!("rank {rank} could not sum gradients: {e}")));
                    return Err(e);
                }
            };
            if let Some(operation) = state.operations.get_mut(&sequence) {
                operation.sums[rank] = Some(total.clone());
                operation.unsent += self.membership.size - 1;
                self.others().for_each(|peer| self.post_to_operation(peer, Kind::Sum, sequence, digest, total.clone()));
                // Closing a job waits for its sums.
                self.changed.notify_all();
            }
        }
        self.finish(state, sequence)
    }

    /// Marks an operation as done if nothing is missing, and launches a queued one.
    fn finish(&self, state: &mut MutexGuard<'_, State>, sequence: u64) -> Result<()> {
        let Some(operation) = state.operations.get_mut(&sequence) else { return Ok(()) };
        let is_complete = operation.unsent == 0
            && operation.contributions.iter().all(Option::is_some)
            && operation.sums.iter().all(Option::is_some);
        if is_complete && !operation.is_done {
            operation.is_done = true;
            if operation.is_discarded {
                state.operations.remove(&sequence);
            }
            state.num_running -= 1;
            state.num_done += 1;
            self.changed.notify_all();
        }
        self.launch_queued(state)
    }

    /// Waits until `ready` returns a value. Each operation that ends meanwhile restarts the timeout.
    fn wait_until<T>(&self, state: &mut MutexGuard<'_, State>, ready: impl Fn(&State) -> Option<T>) -> Result<T> {
        let mut num_done = state.num_done;
        let mut deadline = Instant::now() + self.membership.timeout;
        loop {
            self.check(state)?;
            if let Some(value) = ready(state) {
                return Ok(value);
            }
            let missing = state.operations.values().find(|o| !o.is_done).map(Operation::missing).unwrap_or_default();
            let departed: Vec<_> = missing.iter().copied().filter(|rank| state.departed.contains(rank)).collect();
            if !departed.is_empty() {
                let reason =
                    format!("{} left the job while rank {} needs it", self.names(&departed), self.membership.rank);
                MutexGuard::unlocked(state, || self.fail(reason));
                continue;
            }
            if num_done != state.num_done {
                num_done = state.num_done;
                deadline = Instant::now() + self.membership.timeout;
            }
            if self.changed.wait_until(state, deadline).timed_out()
                && num_done == state.num_done
                && ready(state).is_none()
            {
                let reason = format!(
                    "{} did not answer rank {} within {:.1} s",
                    if missing.is_empty() { "a rank".into() } else { self.names(&missing) },
                    self.membership.rank,
                    self.membership.timeout.as_secs_f64()
                );
                MutexGuard::unlocked(state, || self.fail(reason));
            }
        }
    }

    pub(super) fn wait(&self, sequence: u64) -> Result<Vec<Payload>> {
        let mut state = self.state.lock();
        let is_known =
            state.operations.contains_key(&sequence) || (state.next_sequence..state.end()).contains(&sequence);
        ensure!(is_known, "the result of call {sequence} of the distributed job was forgotten");
        let is_done = |state: &State| {
            state.operations.get(&sequence).map_or(sequence < state.next_sequence, |operation| operation.is_done)
        };
        // A result that is complete stays available after a failure.
        if !is_done(&state) {
            self.wait_until(&mut state, |state| is_done(state).then_some(()))?;
        }
        let operation = state.operations.get(&sequence);
        let operation = operation.ok_or_else(|| Error::Internal(format!("call {sequence} was forgotten")))?;
        let items = if operation.slices.is_empty() { &operation.contributions } else { &operation.sums };
        Ok(items.iter().flatten().cloned().collect())
    }

    /// Reads the messages of a peer until the connection ends.
    pub(super) fn receive(&self, peer: usize, stream: &TcpStream) {
        let has_ended = || {
            let state = self.state.lock();
            state.is_closed || state.failure.is_some()
        };
        loop {
            let message = memory::catch(|| Ok(wire::read(stream, self.membership.timeout, &has_ended)));
            let reason = match message {
                Ok(Ok((header, body))) => match self.accept(peer, header, body) {
                    Ok(true) => continue,
                    Ok(false) => return,
                    Err(reason) => format!("{} {reason}", self.name(peer)),
                },
                Ok(Err(_)) if has_ended() => return,
                Ok(Err(e)) => {
                    self.state.lock().lost.push(peer);
                    format!("{} was lost: {e}", self.name(peer))
                }
                Err(e) => format!("rank {} could not receive: {e}", self.membership.rank),
            };
            self.fail(reason);
            // The peer may have closed the connection already.
            let _ = stream.shutdown(Shutdown::Read);
            return;
        }
    }

    /// Processes a message; returns false if it was the last.
    fn accept(&self, peer: usize, header: Header, body: Vec<u8>) -> Result<bool, String> {
        match header.kind {
            Kind::Goodbye => {
                self.state.lock().departed.push(peer);
                self.changed.notify_all();
                return Ok(false);
            }
            Kind::Failure => {
                let text = String::from_utf8_lossy(&body[..body.len().min(MAX_REASON)]).into_owned();
                self.fail(if text.contains("; reported by rank") {
                    text
                } else {
                    format!("{text}; reported by rank {peer}")
                });
                return Ok(false);
            }
            Kind::Contribution | Kind::Sum => (),
        }
        let is_sum = header.kind == Kind::Sum;
        let (sequence, body) = (header.sequence, Arc::new(body));
        let mut state = self.state.lock();
        if state.failure.is_some() {
            return Ok(false);
        }
        if state.is_closed {
            // A connection that is closed with unread messages is reset, which may discard sent ones.
            return Ok(true);
        }
        if sequence >= state.next_sequence {
            // A rank waits for this one before it starts an operation after its window, so it cannot be further ahead.
            if sequence - state.next_sequence >= WINDOW {
                return Err(format!("is {} calls ahead, which violates the protocol", sequence - state.next_sequence));
            }
            let early = state.early.insert((sequence, peer, is_sum), (header.digest, body));
            return if early.is_some() { Err("sent a message twice".into()) } else { Ok(true) };
        }
        self.store_message(&mut state, peer, is_sum, (sequence, header.digest), body)?;
        // `advance` has reported its error to all ranks.
        Ok(self.advance(&mut state, sequence).is_ok())
    }

    /// Sends messages to a peer until the job ends.
    pub(super) fn send(&self, peer: usize, mut stream: &TcpStream, messages: &Receiver<Message>) {
        let mut is_connected = true;
        loop {
            let message = match messages.recv_timeout(POLL) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if is_connected {
                let sent =
                    stream.write_all(&message.header).and_then(|()| stream.write_all(&message.body[message.range]));
                if let Err(e) = sent {
                    is_connected = false;
                    self.stop_sending(peer, stream, &e);
                }
            }
            // A rank that has left needs no messages, so those to it count as sent.
            if let Some(sequence) = message.sequence {
                let mut state = self.state.lock();
                if let Some(operation) = state.operations.get_mut(&sequence) {
                    operation.unsent = operation.unsent.saturating_sub(1);
                }
                if self.finish(&mut state, sequence).is_err() {
                    // The error was reported to all ranks.
                    return;
                }
            }
        }
    }

    /// Handles an error of a write to a peer.
    fn stop_sending(&self, peer: usize, stream: &TcpStream, error: &io::Error) {
        if wire::timed_out(error) && !self.state.lock().departed.contains(&peer) {
            self.state.lock().lost.push(peer);
            let seconds = self.membership.timeout.as_secs_f64();
            self.fail(format!("{} has received no messages for {seconds:.1} s", self.name(peer)));
        } else {
            // The thread that receives finds out whether the peer has left or was lost: it reads what has arrived, then the end.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
}
