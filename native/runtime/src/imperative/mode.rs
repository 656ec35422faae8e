//! Whether the thread records operators and runs them in training mode.

use std::cell::Cell;

use ferromx_core::op::Mode;

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    static TRAINING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread records operators.
pub fn is_recording() -> bool {
    RECORDING.get()
}

/// Switches recording on this thread on or off and returns the previous state.
pub fn set_recording(on: bool) -> bool {
    RECORDING.replace(on)
}

/// Whether operators on this thread run in training mode.
pub fn is_training() -> bool {
    TRAINING.get()
}

/// The mode of operators on this thread.
pub(crate) fn operator_mode() -> Mode {
    Mode::training_if(is_training())
}

/// Switches training mode on this thread on or off and returns the previous state.
pub fn set_training(on: bool) -> bool {
    TRAINING.replace(on)
}

/// Runs a foreign function or another graph within an operator: without recording, and in the mode of the operator.
pub(crate) fn unrecorded<R>(mode: Mode, f: impl FnOnce() -> R) -> R {
    in_mode(ThreadMode { is_recording: false, mode }, f)
}

/// Whether a thread records operators, and the mode in which it runs them.
pub(super) struct ThreadMode {
    pub(super) is_recording: bool,
    pub(super) mode: Mode,
}

/// Runs `f` in a mode and restores the previous one.
pub(super) fn in_mode<R>(mode: ThreadMode, f: impl FnOnce() -> R) -> R {
    struct Restore(ThreadMode);
    impl Drop for Restore {
        fn drop(&mut self) {
            RECORDING.set(self.0.is_recording);
            TRAINING.set(self.0.mode.is_training());
        }
    }
    let _restore = Restore(ThreadMode {
        is_recording: set_recording(mode.is_recording),
        mode: Mode::training_if(set_training(mode.mode.is_training())),
    });
    f()
}
