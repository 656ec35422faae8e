//! Random number generators: the seed and the next stream of each device.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use ferromx_core::context::Context;
use ferromx_core::op::{RandomKey, RandomSource};
use parking_lot::RwLock;
use smallvec::SmallVec;

/// The random state of a device: every call that draws random numbers takes the next stream.
#[derive(Debug, Default)]
pub struct DeviceRandom {
    seed: AtomicU64,
    next_stream: AtomicU64,
}

impl RandomSource for DeviceRandom {
    fn next_key(&self) -> RandomKey {
        RandomKey { seed: self.seed.load(Ordering::Relaxed), stream: self.next_stream.fetch_add(1, Ordering::Relaxed) }
    }
}

impl DeviceRandom {
    fn reset(&self, seed: u64) {
        self.set(seed, 0);
    }

    fn set(&self, seed: u64, next_stream: u64) {
        self.seed.store(seed, Ordering::Relaxed);
        self.next_stream.store(next_stream, Ordering::Relaxed);
    }
}

struct States {
    by_context: HashMap<Context, &'static DeviceRandom>,
    global_seed: u64,
}

fn states() -> &'static RwLock<States> {
    static STATES: OnceLock<RwLock<States>> = OnceLock::new();
    STATES.get_or_init(|| RwLock::new(States { by_context: HashMap::new(), global_seed: 0 }))
}

/// Derives the seed of a device from the global seed.
fn device_seed(seed: u64, context: Context) -> u64 {
    seed ^ (context.device_id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The random state of a device. States are leaked, since the number of devices is small.
pub fn device(context: Context) -> &'static DeviceRandom {
    static FIRST: OnceLock<&'static DeviceRandom> = OnceLock::new();
    if context == Context::default() {
        return FIRST.get_or_init(|| find_or_create(context));
    }
    find_or_create(context)
}

fn find_or_create(context: Context) -> &'static DeviceRandom {
    if let Some(state) = states().read().by_context.get(&context) {
        return state;
    }
    let mut all = states().write();
    let seed = device_seed(all.global_seed, context);
    all.by_context.entry(context).or_insert_with(|| {
        let state = DeviceRandom::default();
        state.reset(seed);
        Box::leak(Box::new(state))
    })
}

/// Seeds every device, including those that are not in use yet.
pub fn seed(seed: u64) {
    let mut all = states().write();
    all.global_seed = seed;
    for (context, state) in &all.by_context {
        state.reset(device_seed(seed, *context));
    }
}

/// The state of the generators of all devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The seed of devices that have drawn no number yet.
    pub global_seed: u64,
    /// Device, seed and next stream of the other devices, in the order of devices.
    pub devices: SmallVec<[(Context, u64, u64); 4]>,
}

/// The current state of all generators.
pub fn state() -> State {
    let all = states().read();
    let mut devices: SmallVec<_> = (all.by_context.iter())
        .map(|(context, d)| (*context, d.seed.load(Ordering::Relaxed), d.next_stream.load(Ordering::Relaxed)))
        .collect();
    devices.sort_unstable();
    State { global_seed: all.global_seed, devices }
}

/// Restores a state. A device that it does not list starts from the global seed.
pub fn restore(state: &State) {
    seed(state.global_seed);
    for (context, seed, next_stream) in &state.devices {
        device(*context).set(*seed, *next_stream);
    }
}

/// Seeds one device.
pub fn seed_context(seed: u64, context: Context) {
    device(context).reset(seed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_repeat_streams() {
        let context = Context::cpu(77);
        seed_context(5, context);
        let first = [device(context).next_key(), device(context).next_key()];
        assert_ne!(first[0], first[1]);
        seed_context(5, context);
        assert_eq!(first, [device(context).next_key(), device(context).next_key()]);
    }

    #[test]
    fn a_restored_state_repeats_streams() {
        let context = Context::cpu(78);
        seed_context(5, context);
        device(context).next_key();
        let before = state().devices.into_iter().find(|(c, ..)| *c == context);
        assert_eq!(before, Some((context, 5, 1)));
        let second = device(context).next_key();
        device(context).set(5, 1);
        assert_eq!(device(context).next_key(), second);
    }
}
