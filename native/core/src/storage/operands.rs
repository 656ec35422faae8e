//! Lists of operands for kernels: on the stack where they are short, else in memory that the thread keeps, so that a call that is
//! repeated allocates nothing.

use std::cell::RefCell;

use smallvec::SmallVec;

use super::{In, Out};

type Lists<'a> = (Vec<In<'a>>, Vec<Out<'a>>);

thread_local! {
    static SPARE: RefCell<Lists<'static>> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Inputs on the stack at most.
const INS: usize = 6;
/// Outputs on the stack at most.
const OUTS: usize = 4;

/// Calls `f` with lists of these operands.
pub(super) fn with_operands<'a, R>(
    ins: impl ExactSizeIterator<Item = In<'a>>,
    outs: impl ExactSizeIterator<Item = Out<'a>>,
    f: impl FnOnce(&[In<'a>], &mut [Out<'a>]) -> R,
) -> R {
    if ins.len() <= INS && outs.len() <= OUTS {
        let ins: SmallVec<[In<'a>; INS]> = ins.collect();
        let mut outs: SmallVec<[Out<'a>; OUTS]> = outs.collect();
        return f(&ins, &mut outs);
    }
    // Calls may be nested; an inner one finds no lists and makes its own. Nor are there any while the thread ends.
    let (mut long_ins, mut long_outs): Lists<'a> = SPARE.try_with(RefCell::take).unwrap_or_default();
    long_ins.extend(ins);
    long_outs.extend(outs);
    let result = f(&long_ins, &mut long_outs);
    long_ins.clear();
    long_outs.clear();
    // SAFETY: the lists are empty, and their types differ in a lifetime only.
    let spare = unsafe { std::mem::transmute::<Lists<'a>, Lists<'static>>((long_ins, long_outs)) };
    let _ = SPARE.try_with(|lists| lists.replace(spare));
    result
}
