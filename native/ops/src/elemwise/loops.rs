//! Formulas, their loops, and the functions that run the loops on operands of any type. A formula is written once, and its loops are
//! compiled for each lane type. The functions are compiled once, because they get the loops of a formula as a constant.
//!
//! Floating-point types up to 32 bits are computed in `f32`, `f64` in `f64`. Integers are computed in `f64` as in MXNet,
//! unless the formula has an `int` form, which is exact and wraps around.

use std::marker::PhantomData;

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::op::OpCtx;
use ferromx_core::storage::{FloatLoop, In, LOOP_MULTIPLE, LoopOperand, LoopRecorder, Out};
use ferromx_core::{dispatch, memory};
use ferromx_kernels::broadcast::apply_broadcast;
use ferromx_kernels::map::{Elements, ElementsMut, LANE_MULTIPLE, Lane, LaneFn, Loop, Operand, apply};
use ferromx_kernels::reduce::NumericLane;
use smallvec::SmallVec;

/// A formula of any number of operands.
pub(crate) trait Formula {
    /// True if `i32` and `i64` are defined; otherwise integers are computed in `f64`.
    const INT: bool = false;
    /// True if the formula takes less time than the conversion of float16, so that there is a loop that converts in registers.
    const CHEAP: bool = false;
}

/// A formula of one operand.
pub(crate) trait Unary: Formula {
    /// Single precision.
    fn f32(x: f32) -> f32;
    /// Double precision.
    fn f64(x: f64) -> f64;
    /// Integers up to 32 bits.
    fn i32(x: i32) -> i32 {
        x
    }
    /// Integers of 64 bits.
    fn i64(x: i64) -> i64 {
        x
    }
}

/// A formula of two operands.
pub(crate) trait Binary: Formula {
    /// Single precision.
    fn f32(a: f32, b: f32) -> f32;
    /// Double precision.
    fn f64(a: f64, b: f64) -> f64;
    /// Integers up to 32 bits.
    fn i32(a: i32, _b: i32) -> i32 {
        a
    }
    /// Integers of 64 bits.
    fn i64(a: i64, _b: i64) -> i64 {
        a
    }
}

/// A formula of three operands.
pub(crate) trait Ternary: Formula {
    /// Single precision.
    fn f32(a: f32, b: f32, c: f32) -> f32;
    /// Double precision.
    fn f64(a: f64, b: f64, c: f64) -> f64;
    /// Integers up to 32 bits.
    fn i32(a: i32, _b: i32, _c: i32) -> i32 {
        a
    }
    /// Integers of 64 bits.
    fn i64(a: i64, _b: i64, _c: i64) -> i64 {
        a
    }
}

/// Defines a formula as a type: `formula!(Unary Square = |x| x * x, int |x| x.wrapping_mul(x));`. With `cheap` before it, the formula
/// is [`CHEAP`](Formula::CHEAP).
macro_rules! formula {
    (@is_given) => { false };
    (@is_given $int:expr) => { true };
    (cheap $kind:ident $($formula:tt)+) => {
        $crate::elemwise::loops::formula!(@define [const CHEAP: bool = true;] $kind $($formula)+);
    };
    ($kind:ident $($formula:tt)+) => {
        $crate::elemwise::loops::formula!(@define [] $kind $($formula)+);
    };
    (@define [$($cheap:tt)*] $kind:ident $(#[$doc:meta])* $name:ident = |$($x:ident),+| $f:expr $(, int |$($i:ident),+| $int:expr)?) => {
        $(#[$doc])*
        pub(crate) struct $name;
        impl $crate::elemwise::loops::Formula for $name {
            $($cheap)*
            const INT: bool = $crate::elemwise::loops::formula!(@is_given $($int)?);
        }
        impl $crate::elemwise::loops::$kind for $name {
            $(
                #[inline(always)]
                fn i32($($i: i32),+) -> i32 { $int }
                #[inline(always)]
                fn i64($($i: i64),+) -> i64 { $int }
            )?
            #[inline(always)]
            fn f32($($x: f32),+) -> f32 { $f }
            #[inline(always)]
            fn f64($($x: f64),+) -> f64 { $f }
        }
    };
}
pub(crate) use formula;

/// The formula `F` on lanes of type `C`, as an argument of loops. It is a type because loops over function pointers are not
/// vectorized: calls of large functions through a pointer are not inlined.
pub(crate) struct LaneFormula<F, C>(PhantomData<fn(C) -> F>);

impl<F, C> LaneFormula<F, C> {
    /// The only value.
    pub(crate) const NEW: LaneFormula<F, C> = LaneFormula(PhantomData);
}

impl<F, C> Clone for LaneFormula<F, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F, C> Copy for LaneFormula<F, C> {}

impl<F, C> Default for LaneFormula<F, C> {
    fn default() -> Self {
        Self::NEW
    }
}

macro_rules! lane_formulas {
    ($($lane:ident),*) => {$(
        impl<F: Unary> LaneFn<($lane,), $lane> for LaneFormula<F, $lane> {
            #[inline(always)]
            fn call(self, (x,): ($lane,)) -> $lane {
                F::$lane(x)
            }
        }
        impl<F: Binary> LaneFn<($lane, $lane), $lane> for LaneFormula<F, $lane> {
            #[inline(always)]
            fn call(self, (a, b): ($lane, $lane)) -> $lane {
                F::$lane(a, b)
            }
        }
        impl<F: Ternary> LaneFn<($lane, $lane, $lane), $lane> for LaneFormula<F, $lane> {
            #[inline(always)]
            fn call(self, (a, b, c): ($lane, $lane, $lane)) -> $lane {
                F::$lane(a, b, c)
            }
        }
    )*};
}
lane_formulas!(f32, f64, i32, i64);

/// The element types of arithmetic.
pub(crate) const NUMERIC: &[DType] = {
    use ferromx_core::dtype::DType::*;
    &[F16, BF16, F32, F64, U8, I8, I32, I64]
};

/// The type whose lanes compute with elements of type `dtype`: booleans are computed as uint8.
pub(crate) fn lane_dtype(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::U8 } else { dtype }
}

/// The loops of a formula, one for each lane type. Integers are computed in `f64` if the formula has no `int` form.
pub(crate) struct Loops {
    /// Single precision.
    pub(super) f32: Loop<f32>,
    /// Double precision.
    pub(super) f64: Loop<f64>,
    /// Half precision; without it, blocks are converted for the loop of single precision.
    f16: Option<Loop<f16>>,
    int: Option<(Loop<i32>, Loop<i64>)>,
}

macro_rules! loops {
    ($($(#[$doc:meta])* $name:ident: $kind:ident by $loop:ident, $half:ident;)*) => {$(
        impl Loops {
            $(#[$doc])*
            pub(crate) const fn $name<F: $kind>() -> Loops {
                Loops {
                    f32: Loop::$loop::<LaneFormula<F, f32>>(),
                    f64: Loop::$loop::<LaneFormula<F, f64>>(),
                    f16: if F::CHEAP { Some(Loop::$half::<LaneFormula<F, f32>>()) } else { None },
                    int: if F::INT { Some((Loop::$loop::<LaneFormula<F, i32>>(), Loop::$loop::<LaneFormula<F, i64>>())) } else { None },
                }
            }
        }
    )*};
}
loops! {
    /// The loops of a formula of one operand.
    unary: Unary by map, half_map;
    /// The loops of a formula of two operands.
    binary: Binary by zip, half_zip;
    /// The loops of a formula of three operands.
    ternary: Ternary by zip3, half_zip3;
}

impl Loops {
    /// Calls `with` with the loop for arrays of type `dtype`.
    pub(crate) fn select<W: WithLoop>(&self, ctx: &OpCtx<'_>, dtype: DType, with: W) -> Result<()> {
        match (dtype, &self.int) {
            (DType::F32 | DType::F16 | DType::BF16, _) => with.run(&self.f32),
            (DType::F64, _) | (DType::U8 | DType::I8 | DType::I32 | DType::I64, None) => with.run(&self.f64),
            (DType::U8 | DType::I8 | DType::I32, Some((narrow, _))) => with.run(narrow),
            (DType::I64, Some((_, wide))) => with.run(wide),
            (other, _) => Err(ctx.unsupported(other, NUMERIC)),
        }
    }

    /// [`select`](Loops::select), or the loop of half precision if there is one and `is_half`: all arrays are float16.
    fn select_lanes<W: WithLaneLoop>(&self, ctx: &OpCtx<'_>, dtype: DType, is_half: bool, with: W) -> Result<()> {
        match &self.f16 {
            Some(half) if is_half => with.run_lanes(half),
            _ => self.select(ctx, dtype, with),
        }
    }
}

const _: () = assert!(LOOP_MULTIPLE == LANE_MULTIPLE);

impl FloatLoop for Loops {
    fn run(&self, operands: &[&[f32]], out: &mut [f32]) {
        self.f32.run(operands, out);
    }
}

impl Loops {
    /// Records the loop of single precision, or refuses. The operands have the shape of the output.
    pub(crate) fn record<'o, 'a>(&'static self, recorder: &LoopRecorder, args: &[Arg<'o, 'a>], out: &Out<'_>) {
        let operand = |arg: &Arg<'o, 'a>| match *arg {
            Arg::Array(input) => Some(LoopOperand::Input(input)),
            Arg::Number(value) => Some(LoopOperand::Constant(f32::rounded(value, DType::F32))),
            Arg::Output | Arg::Elements(_) => None,
        };
        match args.iter().map(operand).collect::<Option<SmallVec<[_; 3]>>>() {
            Some(operands) if out.dtype() == DType::F32 => recorder.record(self, &operands, out),
            _ => recorder.refuse(),
        }
    }
}

/// A closure that is generic in the lane type, which [`Loops::select`] chooses.
pub(crate) trait WithLoop {
    /// Runs the loop of the chosen lane type.
    fn run<C: NumericLane>(self, formula: &Loop<C>) -> Result<()>;
}

/// A [`WithLoop`] that does not compute with lanes itself, so that they may be float16.
trait WithLaneLoop {
    /// Runs the loop of the chosen lane type.
    fn run_lanes<C: Lane>(self, formula: &Loop<C>) -> Result<()>;
}

impl<W: WithLaneLoop> WithLoop for W {
    fn run<C: NumericLane>(self, formula: &Loop<C>) -> Result<()> {
        self.run_lanes(formula)
    }
}

/// An operand of a formula.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'o, 'a> {
    /// An input, which may share memory with the output.
    Array(&'o In<'a>),
    /// A number, rounded to the output's type.
    Number(f64),
    /// The elements of the output before the call.
    Output,
    /// Elements of any type, converted to lanes.
    Elements(Elements<'a>),
}

impl<'a> Arg<'_, 'a> {
    /// True if the operand of a float16 output is float16, too.
    fn is_half(&self) -> bool {
        match self {
            Arg::Elements(elements) => matches!(elements, Elements::F16(_)),
            Arg::Array(_) | Arg::Number(_) | Arg::Output => true,
        }
    }

    /// The operand in lanes of type `C`, for an output of type `dtype`.
    pub(crate) fn lanes<C: Lane>(self, dtype: DType) -> Result<Operand<'a, C>> {
        Ok(match self {
            Arg::Number(value) => Operand::Constant(C::rounded(value, dtype)),
            Arg::Output => Operand::InPlace,
            Arg::Elements(elements) => Operand::Elements(elements),
            Arg::Array(x) if x.dtype() != dtype => {
                return Err(Error::Internal(format!("an input of type {} was read as {dtype}", x.dtype())));
            }
            Arg::Array(x) if x.shared_with().is_some() => Operand::InPlace,
            Arg::Array(x) => Operand::Elements(elements(x)?),
        })
    }
}

/// The elements of an array of any type.
pub(crate) fn elements<'a>(x: &In<'a>) -> Result<Elements<'a>> {
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => Ok(x.slice::<T>()?.into()),
        d => Err(Error::Internal(format!("no elements of type {d}"))))
}

/// The elements of an array of any type, converted to lanes of type `C`.
pub(crate) fn load_lanes<C: Lane>(x: &In<'_>) -> Result<Vec<C>> {
    let mut lanes = memory::filled(C::default(), x.len());
    C::load_any(elements(x)?, 0, &mut lanes);
    Ok(lanes)
}

/// The mutable elements of an array of any type.
pub(crate) fn elements_mut<'a>(out: &'a mut Out<'_>) -> Result<ElementsMut<'a>> {
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => Ok(out.slice_mut::<T>()?.into()),
        d => Err(Error::Internal(format!("no elements of type {d}"))))
}

/// `out = f(args...)`, element by element.
pub(crate) fn apply_loops(
    ctx: &OpCtx<'_>,
    loops: &'static Loops,
    args: &[Arg<'_, '_>],
    out: &mut Out<'_>,
) -> Result<()> {
    if let Some(recorder) = ctx.recorder {
        loops.record(recorder, args, out);
        return Ok(());
    }
    let is_half = out.dtype() == DType::F16 && args.iter().all(Arg::is_half);
    loops.select_lanes(ctx, out.dtype(), is_half, Apply { args, out })
}

/// Elementwise computation of `out` from `args`.
struct Apply<'e, 'x, 'o, 'a> {
    args: &'e [Arg<'o, 'a>],
    out: &'e mut Out<'x>,
}

impl WithLaneLoop for Apply<'_, '_, '_, '_> {
    fn run_lanes<C: Lane>(self, formula: &Loop<C>) -> Result<()> {
        let mut operands: SmallVec<[Operand<'_, C>; 3]> = SmallVec::new();
        for arg in self.args {
            operands.push(arg.lanes(self.out.dtype())?);
        }
        apply(formula, &operands, elements_mut(self.out)?);
        Ok(())
    }
}

/// `out = f(a, b)` for two operands with their shapes, which are broadcast; computed in the lanes of `dtype`.
pub(crate) fn broadcast_loops(
    ctx: &OpCtx<'_>,
    loops: &Loops,
    dtype: DType,
    operands: [(Arg<'_, '_>, &[usize]); 2],
    out: (ElementsMut<'_>, &[usize]),
) -> Result<()> {
    let are_half = matches!(out.0, ElementsMut::F16(_)) && operands.iter().all(|(arg, _)| arg.is_half());
    loops.select_lanes(ctx, dtype, dtype == DType::F16 && are_half, Broadcast { dtype, operands, out })
}

/// Elementwise computation of `out` from operands that are broadcast to its shape.
struct Broadcast<'e, 'o, 'a, 'x> {
    dtype: DType,
    operands: [(Arg<'o, 'a>, &'e [usize]); 2],
    out: (ElementsMut<'x>, &'e [usize]),
}

impl WithLaneLoop for Broadcast<'_, '_, '_, '_> {
    fn run_lanes<C: Lane>(self, formula: &Loop<C>) -> Result<()> {
        let [(a, a_shape), (b, b_shape)] = self.operands;
        apply_broadcast(formula, (a.lanes(self.dtype)?, a_shape), (b.lanes(self.dtype)?, b_shape), self.out);
        Ok(())
    }
}
