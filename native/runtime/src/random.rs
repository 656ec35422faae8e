//! Random number generators: the seed and the next stream of each device, or of a thread that has its own.

use std::cell::Cell;
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

thread_local! {
    /// The next key of this thread, if it has its own random numbers.
    static THREAD_KEY: Cell<Option<RandomKey>> = const { Cell::new(None) };
}

/// The random state of the calling thread.
#[derive(Debug)]
struct ThreadRandom;

impl RandomSource for ThreadRandom {
    fn next_key(&self) -> RandomKey {
        let Some(key) = THREAD_KEY.get() else { return device(Context::default()).next_key() };
        THREAD_KEY.set(Some(RandomKey { stream: key.stream.wrapping_add(1), ..key }));
        key
    }
}

/// Gives this thread its own random numbers, which all devices draw from, until this is called with `None`. Programs that train several
/// networks at the same time use it, because a device has one state. Returns the previous setting.
pub fn set_thread_key(next: Option<RandomKey>) -> Option<RandomKey> {
    THREAD_KEY.replace(next)
}

/// Derives the seed of a device from the global seed.
fn device_seed(seed: u64, context: Context) -> u64 {
    seed ^ (context.device_id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The random state for a call on a device by this thread.
pub fn source(context: Context) -> &'static dyn RandomSource {
    if THREAD_KEY.get().is_some() { &ThreadRandom } else { device(context) }
}

/// The random state of a device. States are leaked, since the number of devices is small.
fn device(context: Context) -> &'static DeviceRandom {
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

/// Seeds every device, including those that are not in use yet; or only this thread, if it has its own random numbers.
pub fn seed(seed: u64) {
    if THREAD_KEY.get().is_some() {
        THREAD_KEY.set(Some(RandomKey { seed, stream: 0 }));
        return;
    }
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
    /// The other devices, in ascending order.
    pub devices: SmallVec<[DeviceState; 4]>,
}

/// The state of the generator of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceState {
    /// The device.
    pub context: Context,
    /// Its seed.
    pub seed: u64,
    /// The stream that the next call draws from.
    pub next_stream: u64,
}

/// The current state of all generators. The random numbers of a thread are reported as those of the first device.
pub fn state() -> State {
    if let Some(RandomKey { seed, stream }) = THREAD_KEY.get() {
        let device = DeviceState { context: Context::default(), seed, next_stream: stream };
        return State { global_seed: seed, devices: [device].into_iter().collect() };
    }
    let all = states().read();
    let mut devices: SmallVec<_> = (all.by_context.iter())
        .map(|(context, device)| DeviceState {
            context: *context,
            seed: device.seed.load(Ordering::Relaxed),
            next_stream: device.next_stream.load(Ordering::Relaxed),
        })
        .collect();
    devices.sort_unstable_by_key(|device: &DeviceState| device.context);
    State { global_seed: all.global_seed, devices }
}

/// Restores a state. A device that it does not list starts from the global seed.
pub fn restore(state: &State) {
    if THREAD_KEY.get().is_some() {
        let first = state.devices.iter().find(|device| device.context == Context::default());
        let (seed, stream) = first.map_or((state.global_seed, 0), |device| (device.seed, device.next_stream));
        THREAD_KEY.set(Some(RandomKey { seed, stream }));
        return;
    }
    seed(state.global_seed);
    for DeviceState { context, seed, next_stream } in &state.devices {
        device(*context).set(*seed, *next_stream);
    }
}

/// Seeds one device; or this thread, if it has its own random numbers.
pub fn seed_context(seed: u64, context: Context) {
    match THREAD_KEY.get() {
        Some(_) => THREAD_KEY.set(Some(RandomKey { seed, stream: 0 })),
        None => device(context).reset(seed),
    }
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
        let before = state().devices.into_iter().find(|device| device.context == context);
        assert_eq!(before, Some(DeviceState { context, seed: 5, next_stream: 1 }));
        let second = device(context).next_key();
        device(context).set(5, 1);
        assert_eq!(device(context).next_key(), second);
    }

    #[test]
    fn a_thread_with_its_own_numbers_disturbs_no_device() {
        let context = Context::cpu(79);
        seed_context(5, context);
        let outer = set_thread_key(Some(RandomKey { seed: 9, stream: 0 }));
        assert_eq!(outer, None);
        let draw = || source(context).next_key();
        let first = draw();
        assert_eq!(first, RandomKey { seed: 9, stream: 0 });
        let before = state();
        let second = draw();
        assert_eq!(source(Context::cpu(80)).next_key(), RandomKey { seed: 9, stream: 2 });
        restore(&before);
        assert_eq!(draw(), second);
        seed(4);
        assert_eq!(draw(), RandomKey { seed: 4, stream: 0 });
        seed_context(3, context);
        assert_eq!(draw(), RandomKey { seed: 3, stream: 0 });
        assert_eq!(
            std::thread::spawn(move || source(context).next_key()).join().ok(),
            Some(RandomKey { seed: 5, stream: 0 })
        );
        assert_eq!(set_thread_key(None), Some(RandomKey { seed: 3, stream: 1 }));
        assert_eq!(draw(), RandomKey { seed: 5, stream: 1 });
    }
}
