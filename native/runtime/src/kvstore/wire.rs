//! Messages between ranks: a header of fixed length, then a body of bounded length.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferromx_core::memory;

/// Maximum length of a message's body. A larger one is rejected before memory is allocated for it.
pub(super) const MAX_BODY: usize = 4 << 20;
/// Interval at which a reading thread checks whether the job has ended.
pub(super) const POLL: Duration = Duration::from_millis(200);
const HEADER_LEN: usize = 24;
/// Minimum growth of the buffer of a body. It grows with the received bytes, so that a peer cannot make this rank allocate memory by the
/// length in a header alone.
const MIN_GROWTH: usize = 256 << 10;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The sender's contribution to an operation.
    Contribution,
    /// A sum that the sender computed.
    Sum,
    /// The sender has closed its job.
    Goodbye,
    /// The sender's job failed; the body is the error message.
    Failure,
}

const KINDS: [Kind; 4] = [Kind::Contribution, Kind::Sum, Kind::Goodbye, Kind::Failure];

/// The header of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Number of the operation in the order of calls.
    pub(super) sequence: u64,
    /// Digest of the properties that must be equal on all ranks.
    pub(super) digest: u64,
    pub(super) len: usize,
}

impl Header {
    pub(super) fn bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = KINDS.iter().position(|k| *k == self.kind).unwrap_or(0) as u8;
        bytes[4..8].copy_from_slice(&(self.len as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..].copy_from_slice(&self.digest.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8; HEADER_LEN]) -> io::Result<Header> {
        let number = |range: Range<usize>| bytes[range].iter().rev().fold(0u64, |n, b| (n << 8) | u64::from(*b));
        let invalid = |text: String| io::Error::new(ErrorKind::InvalidData, text);
        let kind = *KINDS.get(bytes[0] as usize).ok_or_else(|| invalid(format!("a message of kind {}", bytes[0])))?;
        let len = number(4..8) as usize;
        if len > MAX_BODY {
            return Err(invalid(format!("a message of {len} bytes, while at most {MAX_BODY} are allowed")));
        }
        Ok(Header { kind, sequence: number(8..16), digest: number(16..24), len })
    }
}

/// A message to be sent: the body is a range of shared bytes.
pub(super) struct Message {
    pub(super) header: [u8; HEADER_LEN],
    pub(super) body: Arc<Vec<u8>>,
    pub(super) range: Range<usize>,
    /// The operation that waits for it to be sent.
    pub(super) sequence: Option<u64>,
}

/// The first `max` bytes of a text.
pub(super) fn truncated(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Whether a read timed out.
pub(super) fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Fills `buffer` from a stream whose read timeout is [`POLL`]. The sender must send all bytes within `timeout`. With `has_ended`, that
/// time starts with the first byte, for which this waits until `has_ended` returns true.
pub(super) fn fill(
    mut stream: &TcpStream,
    buffer: &mut [u8],
    timeout: Duration,
    has_ended: Option<&dyn Fn() -> bool>,
) -> io::Result<()> {
    let mut deadline = has_ended.is_none().then(|| Instant::now() + timeout);
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the connection was closed")),
            Ok(n) => {
                filled += n;
                deadline.get_or_insert_with(|| Instant::now() + timeout);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => (),
            Err(e) if timed_out(&e) => match deadline {
                Some(deadline) if Instant::now() >= deadline => {
                    let text = format!("it stopped in the middle of a message for {:.1} s", timeout.as_secs_f64());
                    return Err(io::Error::new(ErrorKind::TimedOut, text));
                }
                None if has_ended.is_some_and(|ended| ended()) => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "the job has ended"));
                }
                _ => (),
            },
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads a message.
pub(super) fn read(
    stream: &TcpStream,
    timeout: Duration,
    has_ended: &dyn Fn() -> bool,
) -> io::Result<(Header, Vec<u8>)> {
    let mut bytes = [0; HEADER_LEN];
    fill(stream, &mut bytes, timeout, Some(has_ended))?;
    let header = Header::parse(&bytes)?;
    let mut body = Vec::new();
    while body.len() < header.len {
        let num_new = (header.len - body.len()).min(MIN_GROWTH.max(body.len()));
        let start = body.len();
        memory::reserve(&mut body, num_new);
        body.resize(start + num_new, 0);
        fill(stream, &mut body[start..], timeout, None)?;
    }
    Ok((header, body))
}
