//! Lists of kernel operands: short ones are on the stack, long ones reuse a buffer of the thread, so that repeated calls do not allocate.

use std::cell::RefCell;

use smallvec::SmallVec;

use super::operands::{In, Out};

type Lists<'a> = (Vec<In<'a>>, Vec<Out<'a>>);

thread_local! {
    static THREAD_LISTS: RefCell<Lists<'static>> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Maximum number of inputs on the stack.
const MAX_STACK_INS: usize = 6;
/// Maximum number of outputs on the stack.
const MAX_STACK_OUTS: usize = 4;

/// Calls `f` with the operands as slices.
pub(super) fn with_operands<'a, R>(
    ins: impl ExactSizeIterator<Item = In<'a>>,
    outs: impl ExactSizeIterator<Item = Out<'a>>,
    f: impl FnOnce(&[In<'a>], &mut [Out<'a>]) -> R,
) -> R {
    if ins.len() <= MAX_STACK_INS && outs.len() <= MAX_STACK_OUTS {
        let ins: SmallVec<[In<'a>; MAX_STACK_INS]> = ins.collect();
        let mut outs: SmallVec<[Out<'a>; MAX_STACK_OUTS]> = outs.collect();
        return f(&ins, &mut outs);
    }
    // A nested call finds empty buffers and allocates its own, as does a call while the thread's locals are destroyed.
    let (mut long_ins, mut long_outs): Lists<'a> = THREAD_LISTS.try_with(RefCell::take).unwrap_or_default();
    long_ins.extend(ins);
    long_outs.extend(outs);
    let result = f(&long_ins, &mut long_outs);
    long_ins.clear();
    long_outs.clear();
    // SAFETY: the lists are empty, and their types differ only in a lifetime.
    let spare = unsafe { std::mem::transmute::<Lists<'a>, Lists<'static>>((long_ins, long_outs)) };
    let _ = THREAD_LISTS.try_with(|lists| lists.replace(spare));
    result
}
