//! A rank's membership in a job that a program sets up without environment variables. It starts as a listener, whose port the program sends
//! to the other ranks; then all ranks join.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferromx_core::error::{Error, Result};
use parking_lot::Mutex;

use super::job::{Job, JoinOptions, Listener};

enum Stage {
    Listening(Listener),
    /// A call of `join` is running or has failed.
    Joining,
    Joined(Arc<Job>),
}

/// A listener, then a job, which ends when it is closed or when this and its last store are dropped.
pub struct Member {
    port: u16,
    stage: Mutex<Stage>,
    is_closed: AtomicBool,
}

impl Member {
    /// Opens a listener; port 0 takes a free one.
    ///
    /// # Errors
    /// An address that cannot be listened on.
    pub fn listen(host: &str, port: u16) -> Result<Member> {
        let listener = Listener::open(host, port)?;
        let port = listener.port();
        Ok(Member { port, stage: Mutex::new(Stage::Listening(listener)), is_closed: AtomicBool::new(false) })
    }

    /// The port of the listener.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connects to all other ranks.
    ///
    /// # Errors
    /// Ranks that cannot be reached or do not connect in time, by name; a short secret; a rank outside the list of peers; a second
    /// call; a closed job.
    pub fn join(&self, options: JoinOptions) -> Result<()> {
        let stage = std::mem::replace(&mut *self.stage.lock(), Stage::Joining);
        let listener = match stage {
            Stage::Listening(listener) => listener,
            other => {
                *self.stage.lock() = other;
                return Err(Error::Value(
                    "a distributed job is joined once, and not after close: listen again for another attempt".into(),
                ));
            }
        };
        let is_closed = || self.is_closed.load(Ordering::Relaxed);
        let job = Arc::new(Job::join(listener, options, &is_closed)?);
        *self.stage.lock() = Stage::Joined(job.clone());
        if is_closed() {
            job.close();
        }
        Ok(())
    }

    /// The job.
    ///
    /// # Errors
    /// It was not joined.
    pub fn job(&self) -> Result<Arc<Job>> {
        match &*self.stage.lock() {
            Stage::Joined(job) => Ok(job.clone()),
            _ => Err(Error::Value("the distributed job was not joined: call join first".into())),
        }
    }

    /// Leaves the job, or stops listening. Stores of the job can no longer push or pull sums.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let mut stage = self.stage.lock();
        match &*stage {
            Stage::Joined(job) => {
                let job = job.clone();
                drop(stage);
                job.close();
            }
            _ => *stage = Stage::Joining,
        }
    }
}
