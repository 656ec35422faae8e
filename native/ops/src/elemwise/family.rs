//! Building blocks of elementwise operators: the kernels that apply formulas to arrays and scalars, and the macros that define operators.

use std::marker::PhantomData;

use ferromx_core::dtype::Element;
use ferromx_core::error::{Error, Result};
use ferromx_core::fusion::Elementwise;
use ferromx_core::op::OpCtx;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::map::{Src, apply_in_place};

pub(crate) use super::loops::{
    Arg, Binary, Formula, Loops, NUMERIC, Ternary, Unary, WithLoop, apply_loops, broadcast_loops, elements,
    elements_mut, formula, lane_dtype, load_lanes,
};

/// The elements of an input. If the input shares memory with the output, the kernel reads them there.
pub(crate) fn src<'a, T: Element>(input: &In<'a>) -> Result<Src<'a, T>> {
    if input.shared_with().is_none() {
        return Ok(Src::Slice(input.slice()?));
    }
    if input.dtype() != T::DTYPE {
        return Err(Error::Internal(format!("an input of type {} was read as {} in place", input.dtype(), T::DTYPE)));
    }
    Ok(Src::InPlace)
}

/// `out = F(in)`.
pub(crate) fn unary_kernel<F: Unary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    apply_loops(ctx, const { &Loops::unary::<F>() }, &[Arg::Array(&ins[0])], &mut outs[0])
}

/// F as the elementwise epilogue of a matrix product.
pub(crate) const fn elementwise_epilogue<F: Unary>() -> Elementwise {
    Elementwise::Map(
        |x| apply_in_place(const { &Loops::unary::<F>().f32 }, x),
        |x| apply_in_place(const { &Loops::unary::<F>().f64 }, x),
    )
}

/// `out = F(in0, in1)`.
pub(crate) fn binary_kernel<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    apply_two::<F>(ctx, Arg::Array(&ins[0]), Arg::Array(&ins[1]), &mut outs[0])
}

/// `out = F(a, b)`.
pub(crate) fn apply_two<F: Binary>(ctx: &OpCtx<'_>, a: Arg<'_, '_>, b: Arg<'_, '_>, out: &mut Out<'_>) -> Result<()> {
    apply_loops(ctx, const { &Loops::binary::<F>() }, &[a, b], out)
}

/// `out = F(args...)`.
pub(crate) fn apply_three<F: Ternary>(ctx: &OpCtx<'_>, args: [Arg<'_, '_>; 3], out: &mut Out<'_>) -> Result<()> {
    apply_loops(ctx, const { &Loops::ternary::<F>() }, &args, out)
}

/// `out = F(in0, in1, in2)`.
pub(crate) fn ternary_into<F: Ternary>(ctx: &OpCtx<'_>, ins: &[In<'_>], out: &mut Out<'_>) -> Result<()> {
    apply_three::<F>(ctx, [Arg::Array(&ins[0]), Arg::Array(&ins[1]), Arg::Array(&ins[2])], out)
}

/// `out = F(x, scalar)`.
pub(crate) fn with_scalar<F: Binary>(ctx: &OpCtx<'_>, x: &In<'_>, scalar: f64, out: &mut Out<'_>) -> Result<()> {
    apply_two::<F>(ctx, Arg::Array(x), Arg::Number(scalar), out)
}

/// `out = F(a, b, scalar)`.
pub(crate) fn with_scalar2<F: Ternary>(
    ctx: &OpCtx<'_>,
    a: &In<'_>,
    b: &In<'_>,
    scalar: f64,
    out: &mut Out<'_>,
) -> Result<()> {
    apply_three::<F>(ctx, [Arg::Array(a), Arg::Array(b), Arg::Number(scalar)], out)
}

/// Gradient of an operator of one input: `out = in0 * F(in1)`, where in0 is the output's gradient.
pub(crate) fn unary_backward<F: Unary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    binary_kernel::<ChainRule<F>>(ctx, ins, outs)
}

/// Gradient of an operator of two inputs: `out0 = in0 * A(in1, in2)`, `out1 = in0 * B(in1, in2)`.
pub(crate) fn binary_backward<A: Binary, B: Binary>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    if outs[0].wanted() {
        ternary_into::<ChainRule2<A>>(ctx, ins, &mut outs[0])?;
    }
    if outs[1].wanted() {
        ternary_into::<ChainRule2<B>>(ctx, ins, &mut outs[1])?;
    }
    Ok(())
}

/// A partial derivative that is truncated for integers, as in MXNet, before it is multiplied by the gradient.
pub(crate) struct Truncated<F>(PhantomData<F>);

impl<F: Binary> Formula for Truncated<F> {
    const INT: bool = true;
}

impl<F: Binary> Binary for Truncated<F> {
    #[inline(always)]
    fn f32(a: f32, b: f32) -> f32 {
        F::f32(a, b)
    }
    #[inline(always)]
    fn f64(a: f64, b: f64) -> f64 {
        F::f64(a, b)
    }
    #[inline(always)]
    fn i32(a: i32, b: i32) -> i32 {
        if F::INT { F::i32(a, b) } else { i32::from_f64(F::f64(f64::from(a), f64::from(b))) }
    }
    #[inline(always)]
    fn i64(a: i64, b: i64) -> i64 {
        if F::INT { F::i64(a, b) } else { i64::from_f64(F::f64(a as f64, b as f64)) }
    }
}

/// The chain rule `g * F(x)`; for integers F(x) is truncated first, as in MXNet.
pub(crate) struct ChainRule<F>(PhantomData<F>);

impl<F: Unary> Formula for ChainRule<F> {
    const INT: bool = true;
    const CHEAP: bool = F::CHEAP;
}

impl<F: Unary> Binary for ChainRule<F> {
    #[inline(always)]
    fn i32(g: i32, x: i32) -> i32 {
        g.wrapping_mul(if F::INT { F::i32(x) } else { i32::from_f64(F::f64(f64::from(x))) })
    }
    #[inline(always)]
    fn i64(g: i64, x: i64) -> i64 {
        g.wrapping_mul(if F::INT { F::i64(x) } else { i64::from_f64(F::f64(x as f64)) })
    }
    #[inline(always)]
    fn f32(g: f32, x: f32) -> f32 {
        g * F::f32(x)
    }
    #[inline(always)]
    fn f64(g: f64, x: f64) -> f64 {
        g * F::f64(x)
    }
}

/// The chain rule `g * F(a, b)`; for integers F(a, b) is truncated first, as in MXNet.
pub(crate) struct ChainRule2<F>(PhantomData<F>);

impl<F: Binary> Formula for ChainRule2<F> {
    const INT: bool = true;
}

impl<F: Binary> Ternary for ChainRule2<F> {
    #[inline(always)]
    fn i32(g: i32, a: i32, b: i32) -> i32 {
        g.wrapping_mul(Truncated::<F>::i32(a, b))
    }
    #[inline(always)]
    fn i64(g: i64, a: i64, b: i64) -> i64 {
        g.wrapping_mul(Truncated::<F>::i64(a, b))
    }
    #[inline(always)]
    fn f32(g: f32, a: f32, b: f32) -> f32 {
        g * F::f32(a, b)
    }
    #[inline(always)]
    fn f64(g: f64, a: f64, b: f64) -> f64 {
        g * F::f64(a, b)
    }
}

/// Defines operators by family macros such as [`unary!`], and lists them in the file's table. Operators in brackets, which are defined
/// elsewhere in the file, are listed too.
///
/// ```text
/// operators! { OPS [ADD_N] =
///     binary!(ADD: "elemwise_add", "The sum.", Add, graph = ...);
///     binary!(SUB: "elemwise_sub", "The difference.", Sub, graph = ...);
/// }
/// ```
///
/// `numpy "_npi_name" ["_npi_alias"] of x` after a definition also lists the operator under names of MXNet's NumPy interface, without its
/// other aliases. With `of x`, the argument is called `x` instead of `data`.
macro_rules! operators {
    (OPS [$($other:ident),*] =
     $($family:ident!($name:ident $($operator:tt)*) $(numpy $numpy:literal $([$alias:literal])? $(of $x:ident)?)?;)*) => {
        /// The operators of this file.
        pub(super) static OPS: &[&dyn ferromx_core::op::AnyOperator] = &[
            $(&$name,)*
            $(&$other,)*
            $($(&$name.renamed($numpy)$(.aliases(&[$alias]))?$(.inputs(&[ferromx_core::op::arg(stringify!($x), "The array.")]))?,)?)*
        ];

        $($family!($name $($operator)*);)*
    };
}
pub(crate) use operators;

/// Defines an elementwise operator of one input `data`, for all numeric types.
///
/// ```text
/// unary!(SIN: "sin", "The sine, of radians.", f = |x| math::sin(x), df(Input) = |x| math::cos(x), graph = |g, x| g.op(op!(COS(x))));
/// unary!(RINT: "rint", "The nearest integer.", f = |x| math::rint(x), int = |x| x, df = 0);
/// ```
/// - `f` is the function, and `int` its exact form on integers.
/// - `df` is the derivative in terms of the input or the output; `df = 0` is a zero gradient.
/// - `graph` is the same derivative composed of operators, for higher derivatives, or `none` if no operators compute it.
/// - `epilogue = Elementwise::Relu` before `df` names an epilogue that product kernels implement.
/// - `keeps_zero` after the name states that f(0) = 0, so that sparse arrays stay sparse.
/// - `sparse_gradient` after it makes `simple_bind` allocate a sparse gradient for a sparse input, as in MXNet.
macro_rules! unary {
    ($name:ident keeps_zero sparse_gradient: $($operator:tt)+) => {
        unary!(@def [
            .sparse(crate::sparse::keeps_zero, crate::sparse::on_values)
            .gradient_storage(ferromx_core::op::GradientStorage::OfOperands)
        ] $name: $($operator)+);
    };
    ($name:ident keeps_zero: $($operator:tt)+) => {
        unary!(@def [.sparse(crate::sparse::keeps_zero, crate::sparse::on_values)] $name: $($operator)+);
    };
    (@def [$($sparse:tt)*] $name:ident: $op:literal $([$($alias:literal),+])?, $doc:expr,
     f = $($cheap:ident)? |$x:ident| $f:expr, $(int = |$i:ident| $int:expr,)? $(epilogue = $epilogue:expr,)? df $($grad:tt)+) => {
        pub(crate) static $name: ferromx_core::op::Operator = {
            formula!($($cheap)? Unary F = |$x| $f $(, int |$i| $int)?);
            ferromx_core::op::Operator::new($op)
                $(.aliases(&[$($alias),+]))?
                .doc($doc)
                .forward(family::unary_kernel::<F>)
                .grad(unary!(@grad df $($grad)+))
                .inplace(&[(0, 0)])
                .pointwise()
                .consists_of_loops()
                .role(ferromx_core::fusion::Role::Function(|_| Some(unary!(@epilogue F $($epilogue)?))))
                $($sparse)*
        };
    };
    (@epilogue $F:ident) => { family::elementwise_epilogue::<$F>() };
    (@epilogue $F:ident $epilogue:expr) => { $epilogue };
    (@grad df = 0 $(,)?) => { Grad::Zero };
    (@grad df($of:ident) = |$x:ident| $df:expr, graph = |$g:ident, $y:ident| $graph:expr $(,)?) => {{
        formula!(Unary Df = |$x| $df);
        const COMPOSE: Compose = |graph, n| {
            let mut graph = crate::compose::Graph(graph);
            let derivative = {
                let $g = &mut graph;
                let $y = unary!(@of $of n);
                $graph
            }?;
            Ok(vec![Some(graph.mul(n.ograds[0], derivative)?)])
        };
        Grad::Kernel(unary!(@deps $of Df), Some(COMPOSE))
    }};
    (@grad df($of:ident) = |$x:ident| $df:expr, graph = none $(,)?) => {{
        formula!(Unary Df = |$x| $df);
        Grad::Kernel(unary!(@deps $of Df), None)
    }};
    (@of Input $n:ident) => { $n.inputs[0] };
    (@of Output $n:ident) => { $n.outputs[0] };
    (@deps Input $F:ident) => { unary!(@backward $F).inputs(Deps::Some(&[0])) };
    (@deps Output $F:ident) => { unary!(@backward $F).outputs(Deps::Some(&[0])) };
    (@backward $F:ident) => {
        Backward::new(family::unary_backward::<$F>).inplace(&[(0, 0), (1, 0)]).pointwise().consists_of_loops()
    };
    ($name:ident: $($operator:tt)+) => { unary!(@def [] $name: $($operator)+); };
}
pub(crate) use unary;

/// Defines an operator of two inputs `lhs` and `rhs` of one shape, for all numeric types, from a [`Binary`] formula.
///
/// ```text
/// binary!(MUL: "elemwise_mul", "The product.", Mul, graph = |g, n| (g.mul(n.ograds[0], n.inputs[1])?, g.mul(n.ograds[0], n.inputs[0])?));
/// binary!(DIV: "elemwise_div", "The quotient.", Div, df = (DivA, DivB), graph = ...);
/// binary!(EQUAL: "_equal", "Whether they are equal.", Equal, df = 0);
/// ```
/// - `graph` is the gradient of both inputs, composed of operators.
/// - `df` gives the partial derivatives as formulas, if the composed gradient would read and write memory several times. `graph` then
///   only serves higher derivatives.
/// - `sparse(rule, function)` after the name is the form for sparse arrays.
/// - `dense_gradients` before it makes `simple_bind` allocate dense gradients, as in MXNet.
/// - `names_outputs` before it: MXNet registers a name for the output.
macro_rules! binary {
    ($name:ident dense_gradients sparse($rule:ident, $run:ident): $($operator:tt)+) => {
        binary!(@def [
            .sparse(crate::sparse::$rule, crate::sparse::$run)
            .gradient_storage(ferromx_core::op::GradientStorage::Dense)
        ] $name: $($operator)+);
    };
    ($name:ident sparse($rule:ident, $run:ident): $($operator:tt)+) => {
        binary!(@def [.sparse(crate::sparse::$rule, crate::sparse::$run)] $name: $($operator)+);
    };
    ($name:ident names_outputs sparse($rule:ident, $run:ident): $($operator:tt)+) => {
        binary!(@def [.sparse(crate::sparse::$rule, crate::sparse::$run).names_outputs()] $name: $($operator)+);
    };
    (@def [$($property:tt)*] $name:ident: $op:literal $([$($alias:literal),+])?, $doc:expr, $F:ident, $($grad:tt)+) => {
        pub(crate) static $name: ferromx_core::op::Operator = ferromx_core::op::Operator::new($op)
            $(.aliases(&[$($alias),+]))?
            .doc($doc)
            .inputs(LHS_RHS)
            .forward(family::binary_kernel::<$F>)
            .grad(binary!(@grad $($grad)+))
            .inplace(&[(0, 0), (1, 0)])
            .pointwise()
            .consists_of_loops()
            $($property)*;
    };
    (@grad df = 0) => { Grad::Zero };
    (@grad graph = |$g:ident, $n:ident| $graph:expr) => { Grad::Compose(binary!(@compose $g $n $graph)) };
    (@grad df = ($A:ident, $B:ident), graph = |$g:ident, $n:ident| $graph:expr) => {
        Grad::Kernel(
            Backward::new(family::binary_backward::<$A, $B>).inputs(Deps::All).pointwise().consists_of_loops(),
            Some(binary!(@compose $g $n $graph)),
        )
    };
    (@compose $g:ident $n:ident $graph:expr) => {{
        const COMPOSE: Compose = |graph, $n| {
            let $g = &mut crate::compose::Graph(graph);
            let (lhs, rhs) = $graph;
            Ok(vec![Some(lhs), Some(rhs)])
        };
        COMPOSE
    }};
    ($name:ident: $($operator:tt)+) => { binary!(@def [] $name: $($operator)+); };
}
pub(crate) use binary;

/// Defines an operator of an array x and the parameter `scalar` s, for all numeric types, from a [`Binary`] formula of `(x, s)` or
/// `(s, x)`.
///
/// ```text
/// scalar!(MUL: "_mul_scalar", "data * scalar.", Mul(x, s), graph = |g, n, s| g.scale(n.ograds[0], s));
/// scalar!(RDIV: "_rdiv_scalar", "scalar / data.", Div(s, x), df = DivB, graph = ...);
/// scalar!(EQUAL: "_equal_scalar", "Whether it is equal.", Equal(x, s), Grad::Zero);
/// ```
/// - `graph` is the gradient, composed of operators.
/// - `df` is the derivative as a formula of the same operands; `graph` then only serves higher derivatives.
/// - `sparse(rule)` after the name is the storage rule; it keeps an array sparse if the operator maps 0 to 0.
macro_rules! scalar {
    ($name:ident sparse($rule:expr): $($operator:tt)+) => {
        scalar!(@def [.sparse($rule, crate::sparse::on_values)] $name: $($operator)+);
    };
    (@def [$($sparse:tt)*]
     $name:ident: $op:literal $([$($alias:literal),+])?, $doc:expr, $F:ident($a:ident, $b:ident), $($grad:tt)+) => {
        pub(crate) static $name: ferromx_core::op::Operator<ScalarParam> = ferromx_core::op::Operator::new($op)
            $(.aliases(&[$($alias),+]))?
            .doc($doc)
            .inputs(DATA)
            .dtype(scalar_dtype)
            .forward(scalar!(@forward $a $F))
            .grad(scalar!(@grad $a $($grad)+))
            .inplace(&[(0, 0)])
            .pointwise()
            .consists_of_loops()
            $($sparse)*;
    };
    (@forward x $F:ident) => { forward::<$F> };
    (@forward s $F:ident) => { reverse::<$F> };
    (@backward x $F:ident) => { Backward::new(forward_backward::<$F>) };
    (@backward s $F:ident) => { Backward::new(reverse_backward::<$F>) };
    (@grad $a:ident Grad::Zero) => { Grad::Zero };
    (@grad $a:ident PASS_BACK) => { Grad::Compose(PASS_BACK) };
    (@grad $a:ident graph = |$g:ident, $n:ident, $s:ident| $graph:expr) => {
        Grad::Compose(scalar!(@compose $g $n $s $graph))
    };
    (@grad $a:ident df = $D:ident, graph = |$g:ident, $n:ident, $s:ident| $graph:expr) => {
        Grad::Kernel(
            scalar!(@backward $a $D).inputs(Deps::Some(&[0])).inplace(&[(0, 0), (1, 0)]).pointwise().consists_of_loops(),
            Some(scalar!(@compose $g $n $s $graph)),
        )
    };
    (@compose $g:ident $n:ident $s:ident $graph:expr) => {{
        const COMPOSE: Compose = |graph, $n| {
            let $g = &mut crate::compose::Graph(graph);
            let $s = $n.params.get::<ScalarParam>().scalar;
            let gradient = { $graph }?;
            Ok(vec![Some(gradient)])
        };
        COMPOSE
    }};
    ($name:ident: $($operator:tt)+) => { scalar!(@def [] $name: $($operator)+); };
}
pub(crate) use scalar;
