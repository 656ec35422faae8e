//! Loops of elementwise kernels, recorded once, so that a chain repeats them block by block without calling the kernels again.

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::operands::{In, Out};

/// A loop over 32-bit floats that computes an elementwise function.
pub trait FloatLoop: Sync {
    /// Writes the results to `out`. The operands have its length, a multiple of [`LOOP_MULTIPLE`].
    fn run(&self, operands: &[&[f32]], out: &mut [f32]);
}

/// [`FloatLoop`]s get a multiple of this many elements.
pub const LOOP_MULTIPLE: usize = 64;

/// An operand of a loop.
#[derive(Clone, Copy)]
pub enum LoopOperand<'o, 'a> {
    /// An input of the kernel.
    Input(&'o In<'a>),
    /// The same number for every element.
    Constant(f32),
}

/// An operand as the recorder stores it.
#[derive(Clone, Copy)]
pub(super) enum RecordedOperand {
    /// The address of an input.
    Input(usize),
    /// A number.
    Constant(f32),
}

/// A recorded loop.
pub(super) struct RecordedLoop {
    pub(super) body: &'static dyn FloatLoop,
    pub(super) operands: SmallVec<[RecordedOperand; 3]>,
    /// The address of the output.
    pub(super) out: usize,
}

/// Records the loops of a kernel, which then must not run them itself; see
/// [`Operator::consists_of_loops`](crate::op::Operator::consists_of_loops()).
#[derive(Default)]
pub struct LoopRecorder {
    /// The loops, unless one cannot be recorded.
    loops: Mutex<Recorded>,
}

#[derive(Default)]
enum Recorded {
    #[default]
    Nothing,
    Loops(Vec<RecordedLoop>),
    Refused,
}

impl LoopRecorder {
    /// Records the loop that writes `out`.
    pub fn record(&self, body: &'static dyn FloatLoop, operands: &[LoopOperand<'_, '_>], out: &Out<'_>) {
        let operand = |operand: &LoopOperand<'_, '_>| match operand {
            LoopOperand::Input(input) => RecordedOperand::Input(input.address()),
            LoopOperand::Constant(value) => RecordedOperand::Constant(*value),
        };
        let next = RecordedLoop { body, operands: operands.iter().map(operand).collect(), out: out.address() };
        let mut recorded = self.loops.lock();
        match &mut *recorded {
            Recorded::Nothing => *recorded = Recorded::Loops(vec![next]),
            Recorded::Loops(loops) => loops.push(next),
            Recorded::Refused => {}
        }
    }

    /// Records that the kernel runs something that cannot be recorded, so that it must be called for every block.
    pub fn refuse(&self) {
        *self.loops.lock() = Recorded::Refused;
    }

    /// The loops if all were recorded.
    pub(super) fn into_loops(self) -> Option<Vec<RecordedLoop>> {
        match self.loops.into_inner() {
            Recorded::Loops(loops) => Some(loops),
            Recorded::Nothing | Recorded::Refused => None,
        }
    }
}
