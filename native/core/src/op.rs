//! Operator definitions: static data for the engine, the C API, the Scala code generator and the documentation.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::context::{Context, DeviceType};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::fusion::Role;
use crate::grad::Grad;
use crate::infer::{InferDType, InferShape, same_dtype, same_shape};
use crate::ndarray::NDArray;
use crate::params::{Attrs, FieldInfo, NoParams, OpParams, Params};
use crate::shape::Shape;
use crate::sparse::{Array, StorageType};
use crate::storage::{In, LoopRecorder, Out, Req};
use crate::subgraph::Subgraph;

/// Maximum number of inputs, or outputs, of an operator.
const MAX_ARITY: usize = 1 << 20;

/// Checks a number of inputs or outputs that parameters request, so that it cannot exhaust memory.
///
/// # Errors
/// The number is above 2^20.
pub fn check_count(items: &str, count: usize) -> Result<()> {
    let text = || format!("the parameters request {count} {items}, but an operator has at most {MAX_ARITY}");
    if count <= MAX_ARITY { Ok(()) } else { Err(Error::Param(text())) }
}

/// A tensor argument, as the operator metadata lists it.
#[derive(Clone, Copy, Debug)]
pub struct ArgDef {
    /// Argument name.
    pub name: &'static str,
    /// Meaning and shape.
    pub doc: &'static str,
    /// MXNet's type string.
    pub type_string: &'static str,
}

/// A tensor argument of the usual type `NDArray-or-Symbol`.
pub const fn arg(name: &'static str, doc: &'static str) -> ArgDef {
    ArgDef { name, doc, type_string: "NDArray-or-Symbol" }
}

/// The tensor inputs of an operator.
#[derive(Clone, Copy)]
pub enum Inputs {
    /// A fixed list; parameters may omit some of the last ones, see [`OpDef::input_names`].
    Fixed(&'static [ArgDef]),
    /// Any number of inputs; a parameter holds the number.
    Variadic {
        /// The argument, of type `NDArray-or-Symbol[]`.
        arg: ArgDef,
        /// The parameter with the number of inputs (`key_var_num_args`); filled in from the call if absent.
        count: &'static str,
    },
}

/// A selection of inputs or outputs.
#[derive(Clone, Copy, Debug)]
pub enum Deps {
    /// None.
    None,
    /// All; of output gradients, those of the visible outputs.
    All,
    /// Those of the given indices.
    Some(&'static [usize]),
}

impl Deps {
    /// The selected indices out of `n`; indices of `n` and above (inputs that the parameters omit) are skipped.
    pub fn indices(self, n: usize) -> impl Iterator<Item = usize> {
        let (list, all): (&'static [usize], usize) = match self {
            Deps::None => (&[], 0),
            Deps::All => (&[], n),
            Deps::Some(list) => (list, 0),
        };
        (0..all).chain(list.iter().copied().filter(move |i| *i < n))
    }
}

/// The key of a random number stream; no two calls share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomKey {
    /// The seed of the device.
    pub seed: u64,
    /// The number of calls since the seed was set.
    pub stream: u64,
}

/// The source of random number streams.
pub trait RandomSource {
    /// A key that was never returned before.
    fn next_key(&self) -> RandomKey;
}

/// Data that a node keeps between runs, such as packed weights, keyed by the version of their source.
#[derive(Default)]
pub struct Cache(Mutex<Option<Box<dyn Any + Send>>>);

impl Cache {
    /// Runs `f` on the cached value, initially `T::default()`.
    pub fn with<T: Any + Send + Default, R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let mut slot = self.0.lock();
        if !slot.as_ref().is_some_and(|v| v.is::<T>()) {
            *slot = Some(Box::<T>::default());
        }
        match slot.as_mut().and_then(|v| v.downcast_mut()) {
            Some(v) => f(v),
            None => f(&mut T::default()),
        }
    }
}

/// The context of a kernel call.
pub struct OpCtx<'a> {
    /// Operator name, for errors.
    pub op: &'static str,
    /// Parameters.
    pub params: &'a Params,
    /// True in training, false in inference.
    pub is_train: bool,
    /// The random number streams of the device.
    pub random: &'a dyn RandomSource,
    /// The node's cache; `None` for a call that is not repeated.
    pub cache: Option<&'a Cache>,
    /// The device of the operands.
    pub context: Context,
    /// Records the loops of a kernel that consists of loops, instead of running them.
    pub recorder: Option<&'a LoopRecorder>,
}

impl OpCtx<'_> {
    /// The parameters as the declared type.
    #[track_caller]
    pub fn params<P: Any>(&self) -> &P {
        self.params.get()
    }

    /// The error for an element type that the kernel does not support.
    pub fn unsupported(&self, given: DType, accepted: &[DType]) -> Error {
        let accepted = accepted.iter().map(|d| d.name()).collect::<Vec<_>>().join(", ");
        Error::UnsupportedDType { op: self.op.into(), given, accepted }
    }
}

/// A kernel. The `In`s are all inputs in order, with mutable ones marked as shared; the `Out`s are the outputs, then the mutable inputs.
pub type KernelFn = fn(&OpCtx<'_>, &[In<'_>], &mut [Out<'_>]) -> Result<()>;

/// The function of an operator whose output shapes depend on the values of its inputs: it allocates all outputs itself.
pub type DynamicFn = fn(&OpCtx<'_>, &[NDArray]) -> Result<Vec<NDArray>>;

/// The function of an operator that runs without the engine's locks and may pass its arrays to foreign code. The arguments are the inputs
/// in order, mutable ones included, the outputs, and the request of each output; it handles every [`Req`].
pub type ForeignFn = fn(&OpCtx<'_>, &[NDArray], &[NDArray], &[Req]) -> Result<()>;

/// The forward computation of an operator.
#[derive(Clone, Copy)]
pub enum Forward {
    /// A kernel.
    Kernel(KernelFn),
    /// No computation: the output is a view of the first input with another shape.
    View,
    /// A function that allocates the outputs, because their shapes depend on the values of the inputs. A graph with such an operator has no
    /// plan.
    Dynamic(DynamicFn),
    /// A foreign function, which runs without the engine's locks.
    Foreign(ForeignFn),
}

/// Infers the storage type of the outputs from the parameters, the storage types of the inputs, and that of the first output's array if
/// one was given. `None` selects the dense fallback: the inputs are converted.
pub type SparseRule = fn(&Params, &[StorageType], Option<StorageType>) -> Option<StorageType>;

/// The sparse implementation of an operator: it returns the visible outputs, or writes the given output arrays.
pub type SparseFn = fn(&SparseCall<'_>) -> Result<Vec<Array>>;

/// Runs the operator on dense arrays and returns the visible outputs.
pub type DenseForm<'a> = &'a dyn Fn(&[NDArray]) -> Result<Vec<NDArray>>;

/// The arguments of a [`SparseFn`].
pub struct SparseCall<'a> {
    /// The context of the call.
    pub ctx: &'a OpCtx<'a>,
    /// The inputs; for a gradient, those of its kernel.
    pub ins: &'a [Array],
    /// The given arrays of the first outputs.
    pub outs: &'a [Array],
    /// Shapes of the outputs, hidden ones included.
    pub shapes: &'a [Shape],
    /// Whether each output has readers; the others may have any content.
    pub wanted: &'a [bool],
    /// Runs the operator on dense arrays: on the stored values, or as the dense fallback.
    pub dense: DenseForm<'a>,
    /// The storage type that the rule inferred.
    pub storage_type: StorageType,
}

/// The sparse implementation of an operator, with its storage type rule.
#[derive(Clone, Copy)]
pub struct SparseForm {
    /// Infers the storage type of the outputs, or selects the dense fallback.
    pub rule: SparseRule,
    /// The computation.
    pub run: SparseFn,
    /// Whether the rule also applies if all inputs are dense, because the parameters can request sparse outputs.
    pub from_dense: fn(&Params) -> bool,
}

/// The rule for the storage types of the gradients that `simple_bind` allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientStorage {
    /// Those that the operators of the gradient infer. A gradient kernel without a sparse implementation has dense results.
    Composed,
    /// The storage type that all operands of the gradient kernel have, or dense.
    OfOperands,
    /// Dense.
    Dense,
}

/// Indices of inputs, which depend on the parameters.
pub type InputIndices = fn(&Params) -> &[usize];

/// Index and value of an input that is filled with a constant, which depends on the parameters.
pub type FilledInput = fn(&Params) -> Option<(usize, f64)>;

/// Adds the graphs of an operator to its parameters.
pub type WithGraphs = fn(&Params, Vec<Arc<dyn Subgraph>>) -> Result<Params>;

/// The arity of a node in a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredNode {
    /// Number of inputs, auxiliary states included.
    pub inputs: usize,
    /// Indices of the auxiliary states, which are the last inputs.
    pub states: Vec<usize>,
    /// Number of outputs.
    pub outputs: usize,
}

/// Parses the parameters of a node in a file, whose attributes may be incomplete.
pub type ParseStored = fn(&Attrs, &StoredNode) -> Result<Params>;

/// Names, which depend on the parameters.
pub type Names = fn(&Params) -> Vec<String>;

/// The definition of an operator.
#[derive(Clone, Copy)]
pub struct OpDef {
    /// Name.
    pub name: &'static str,
    /// Alternative names.
    pub aliases: &'static [&'static str],
    /// Description: formula, shapes, source.
    pub doc: &'static str,
    /// Tensor inputs, mutable ones included.
    pub inputs: Inputs,
    /// Named inputs before the variadic ones.
    pub leading: &'static [ArgDef],
    /// Number of graphs and inputs in the metadata, which omits the auxiliary states of MXNet's oldest operators.
    pub listed: usize,
    /// Whether the metadata lists the parameters; MXNet omits those of some internal operators.
    pub lists_params: bool,
    /// Graph arguments, of type `Symbol`, which precede the tensor inputs.
    pub graph_args: &'static [ArgDef],
    /// Whether a node of the operator is replaced by its graph when it is created.
    pub expands: bool,
    /// Inputs that the operator mutates: auxiliary states, optimizer states.
    pub mutates: &'static [usize],
    /// Shape inference.
    pub infer_shape: InferShape,
    /// Element type inference.
    pub infer_dtype: InferDType,
    /// Computation on the CPU.
    pub forward: Forward,
    /// Gradient.
    pub grad: Grad,
    /// The sparse implementation; without one, the dense fallback runs.
    pub sparse: Option<SparseForm>,
    /// The storage types of the gradients that `simple_bind` allocates.
    pub gradient_storage: GradientStorage,
    /// Pairs (input, output) that may be the same memory.
    pub inplace: &'static [(usize, usize)],
    /// Whether the kernel handles [`Req::Add`].
    pub accumulates: bool,
    /// Whether the operator is elementwise on operands of equal shapes.
    pub pointwise: bool,
    /// Whether it broadcasts, and so is elementwise on operands of equal shapes.
    pub broadcasts: bool,
    /// Whether its kernel consists of loops, which can be recorded.
    pub consists_of_loops: bool,
    /// Index of the first scalar input: the operator is elementwise if this input and those after it have one element each.
    pub first_scalar: usize,
    /// Its role in epilogue fusion.
    pub role: Role,
    /// Whether it draws random numbers, so that common subexpression elimination must not merge its nodes.
    pub random: bool,
    /// Whether MXNet defines it in its oldest interface, so that monitors name gradients after the inputs.
    pub is_legacy: bool,
    /// Whether MXNet registers a name for a single input `data`; monitors show others as `input0`.
    pub names_data: bool,
    /// Whether MXNet registers names for outputs `output`, `output0`, ...; hooks show an index for others.
    pub names_outputs: bool,
    /// Initializers (as the JSON text of an `__init__` attribute) of variables that are created for omitted inputs.
    pub input_init: &'static [(usize, &'static str)],
    /// Metadata order of all arguments, if it is not "inputs, then parameters".
    pub arg_order: &'static [&'static str],
    parse: fn(&Attrs) -> Result<Params>,
    fields: fn() -> Vec<FieldInfo>,
    num_inputs: Option<fn(&Params) -> usize>,
    input_names: Option<Names>,
    mutates_by: Option<InputIndices>,
    fills: Option<FilledInput>,
    with_graphs: Option<WithGraphs>,
    num_outputs: fn(&Params) -> usize,
    num_visible: Option<fn(&Params) -> usize>,
    output_names: Option<Names>,
    parse_stored: Option<ParseStored>,
    title: Option<fn(&Params) -> &str>,
    ready: Option<fn(&Params) -> Result<()>>,
    reusable: Option<fn(&Params) -> bool>,
}

fn one(_: &Params) -> usize {
    1
}

fn no_kernel(ctx: &OpCtx<'_>, _: &[In<'_>], _: &mut [Out<'_>]) -> Result<()> {
    Err(Error::Internal(format!("operator {} was defined without a kernel", ctx.op)))
}

/// Operators without parameters accept and ignore all attributes, as in MXNet.
fn ignore_attrs(_: &Attrs) -> Result<Params> {
    Ok(Params::new(NoParams {}))
}

fn parse_as<P: OpParams>(attrs: &Attrs) -> Result<Params> {
    P::parse(attrs).map(Params::new)
}

const DATA: &[ArgDef] = &[arg("data", "The input.")];

impl OpDef {
    /// An operator with one input `data`, one output, no parameters, and equal shapes and types of both.
    pub const fn new(name: &'static str) -> OpDef {
        OpDef {
            name,
            aliases: &[],
            doc: "",
            inputs: Inputs::Fixed(DATA),
            leading: &[],
            listed: usize::MAX,
            lists_params: true,
            graph_args: &[],
            expands: false,
            mutates: &[],
            infer_shape: same_shape,
            infer_dtype: same_dtype,
            forward: Forward::Kernel(no_kernel),
            grad: Grad::None,
            sparse: None,
            gradient_storage: GradientStorage::Composed,
            inplace: &[],
            accumulates: false,
            pointwise: false,
            consists_of_loops: false,
            broadcasts: false,
            first_scalar: usize::MAX,
            role: Role::None,
            random: false,
            is_legacy: false,
            names_data: false,
            names_outputs: false,
            input_init: &[],
            arg_order: &[],
            parse: ignore_attrs,
            fields: NoParams::fields,
            num_inputs: None,
            input_names: None,
            mutates_by: None,
            fills: None,
            with_graphs: None,
            num_outputs: one,
            num_visible: None,
            output_names: None,
            parse_stored: None,
            title: None,
            ready: None,
            reusable: None,
        }
    }

    /// Alternative names.
    pub const fn aliases(mut self, names: &'static [&'static str]) -> OpDef {
        self.aliases = names;
        self
    }

    /// A copy of the operator under another name, without aliases.
    pub const fn renamed(mut self, name: &'static str) -> OpDef {
        self.name = name;
        self.aliases = &[];
        self
    }

    /// Formula, shapes and source.
    pub const fn doc(mut self, doc: &'static str) -> OpDef {
        self.doc = doc;
        self
    }

    /// The tensor inputs.
    pub const fn inputs(mut self, args: &'static [ArgDef]) -> OpDef {
        self.inputs = Inputs::Fixed(args);
        self
    }

    /// Any number of inputs, counted by the parameter `count`.
    pub const fn variadic(self, name: &'static str, doc: &'static str, count: &'static str) -> OpDef {
        self.variadic_arg(ArgDef { name, doc, type_string: "NDArray-or-Symbol[]" }, count)
    }

    /// As [`OpDef::variadic`], with a custom type string.
    pub const fn variadic_arg(mut self, arg: ArgDef, count: &'static str) -> OpDef {
        self.inputs = Inputs::Variadic { arg, count };
        self
    }

    /// Named inputs before the variadic ones; the parameter with the number of inputs counts them too.
    pub const fn leading(mut self, args: &'static [ArgDef]) -> OpDef {
        self.leading = args;
        self
    }

    /// Graph arguments before the inputs, and the function that adds them to the parameters.
    pub const fn graphs(mut self, args: &'static [ArgDef], f: WithGraphs) -> OpDef {
        self.graph_args = args;
        self.with_graphs = Some(f);
        self
    }

    /// The operator is replaced by its first argument, a graph, when a node of it is created.
    pub const fn expands(mut self, graph: &'static [ArgDef]) -> OpDef {
        self.graph_args = graph;
        self.expands = true;
        self
    }

    /// The number of inputs, if parameters may omit some.
    pub const fn num_inputs_by(mut self, f: fn(&Params) -> usize) -> OpDef {
        self.num_inputs = Some(f);
        self
    }

    /// Names of the inputs, if they are not the first ones of the list.
    pub const fn input_names_by(mut self, f: Names) -> OpDef {
        self.input_names = Some(f);
        self
    }

    /// Inputs that the operator mutates. They follow the outputs as [`Out`]s of the kernel.
    pub const fn mutates(mut self, inputs: &'static [usize]) -> OpDef {
        self.mutates = inputs;
        self
    }

    /// The number of graphs and inputs that the metadata lists.
    pub const fn listed(mut self, inputs: usize) -> OpDef {
        self.listed = inputs;
        self
    }

    /// The metadata does not list the parameters.
    pub const fn unlisted_params(mut self) -> OpDef {
        self.lists_params = false;
        self
    }

    /// Inputs that the operator mutates, if they depend on the parameters.
    pub const fn mutates_by(mut self, f: InputIndices) -> OpDef {
        self.mutates_by = Some(f);
        self
    }

    /// An input that the operator fills with a constant before it computes. It stays an argument, with a gradient.
    pub const fn fills(mut self, f: FilledInput) -> OpDef {
        self.fills = Some(f);
        self
    }

    /// The parameter struct, declared with [`params!`](crate::params!).
    pub const fn params<P: OpParams>(mut self) -> OpDef {
        self.parse = parse_as::<P>;
        self.fields = P::fields;
        self
    }

    /// The number of outputs.
    pub const fn outputs(mut self, f: fn(&Params) -> usize) -> OpDef {
        self.num_outputs = f;
        self
    }

    /// The number of visible outputs; the others serve only the gradient.
    pub const fn visible(mut self, f: fn(&Params) -> usize) -> OpDef {
        self.num_visible = Some(f);
        self
    }

    /// Names of the outputs, if they are not `output`, or `output0`, `output1`, ...
    pub const fn output_names_by(mut self, f: Names) -> OpDef {
        self.output_names = Some(f);
        self
    }

    /// The shape rule.
    pub const fn shape(mut self, f: InferShape) -> OpDef {
        self.infer_shape = f;
        self
    }

    /// The element type rule.
    pub const fn dtype(mut self, f: InferDType) -> OpDef {
        self.infer_dtype = f;
        self
    }

    /// The kernel.
    pub const fn forward(mut self, kernel: KernelFn) -> OpDef {
        self.forward = Forward::Kernel(kernel);
        self
    }

    /// The function of an operator that runs without the engine's locks.
    pub const fn foreign(mut self, f: ForeignFn) -> OpDef {
        self.forward = Forward::Foreign(f);
        self
    }

    /// The output is a view of the input with another shape.
    pub const fn view(mut self) -> OpDef {
        self.forward = Forward::View;
        self.inplace = &[(0, 0)];
        self
    }

    /// The function that allocates outputs whose shapes depend on the values of the inputs. Nothing can be inferred beforehand.
    pub const fn dynamic(mut self, f: DynamicFn) -> OpDef {
        self.forward = Forward::Dynamic(f);
        self.infer_shape = |_, _| Ok(());
        self.infer_dtype = |_, _| Ok(());
        self
    }

    /// The gradient.
    pub const fn grad(mut self, grad: Grad) -> OpDef {
        self.grad = grad;
        self
    }

    /// The sparse implementation: the rule for the outputs' storage type, and the function that computes them.
    pub const fn sparse(mut self, rule: SparseRule, run: SparseFn) -> OpDef {
        self.sparse = Some(SparseForm { rule, run, from_dense: |_| false });
        self
    }

    /// As [`OpDef::sparse`], for an operator that has sparse outputs for dense inputs if its parameters satisfy the predicate.
    pub const fn sparse_from_dense(
        mut self,
        from_dense: fn(&Params) -> bool,
        rule: SparseRule,
        run: SparseFn,
    ) -> OpDef {
        self.sparse = Some(SparseForm { rule, run, from_dense });
        self
    }

    /// The storage types of the gradients that `simple_bind` allocates.
    pub const fn gradient_storage(mut self, storage: GradientStorage) -> OpDef {
        self.gradient_storage = storage;
        self
    }

    /// Pairs (input, output) that may be the same memory; the kernel accesses them by [`in_out`](crate::storage::in_out).
    pub const fn inplace(mut self, pairs: &'static [(usize, usize)]) -> OpDef {
        self.inplace = pairs;
        self
    }

    /// The kernel handles [`Req::Add`].
    pub const fn accumulates(mut self) -> OpDef {
        self.accumulates = true;
        self
    }

    /// The operator is elementwise on operands of equal shapes.
    pub const fn pointwise(mut self) -> OpDef {
        self.pointwise = true;
        self
    }

    /// The kernel consists of loops: on operands of equal shapes it does nothing but pass loops to
    /// [`LoopRecorder::record`] if there is a recorder, and else run them. Which ones depends on
    /// the parameters only.
    pub const fn consists_of_loops(mut self) -> OpDef {
        self.consists_of_loops = true;
        self
    }

    /// The operator broadcasts, and so is elementwise on operands of equal shapes.
    pub const fn broadcasts(mut self) -> OpDef {
        self.broadcasts = true;
        self
    }

    /// The operator is elementwise if input `first_scalar` and those after it have one element each.
    pub const fn pointwise_before(mut self, first_scalar: usize) -> OpDef {
        self.first_scalar = first_scalar;
        self
    }

    /// The operator's role in epilogue fusion.
    pub const fn role(mut self, role: Role) -> OpDef {
        self.role = role;
        self
    }

    /// The operator draws random numbers.
    pub const fn random(mut self) -> OpDef {
        self.random = true;
        self
    }

    /// MXNet defines the operator in its oldest interface, which names inputs, outputs and gradients.
    pub const fn legacy(mut self) -> OpDef {
        self.is_legacy = true;
        self.names_data().names_outputs()
    }

    /// MXNet registers the name of the input.
    pub const fn names_data(mut self) -> OpDef {
        self.names_data = true;
        self
    }

    /// MXNet registers the names of the outputs.
    pub const fn names_outputs(mut self) -> OpDef {
        self.names_outputs = true;
        self
    }

    /// Initializers of variables that are created for omitted inputs, as in `[(3, r#"["zero", {}]"#)]`.
    pub const fn input_init(mut self, init: &'static [(usize, &'static str)]) -> OpDef {
        self.input_init = init;
        self
    }

    /// The parser of a node in a file, if the attributes alone may not suffice.
    pub const fn parse_stored_by(mut self, f: ParseStored) -> OpDef {
        self.parse_stored = Some(f);
        self
    }

    /// The name of a call in messages, if it depends on the parameters.
    pub const fn title_by(mut self, f: fn(&Params) -> &str) -> OpDef {
        self.title = Some(f);
        self
    }

    /// A check that must succeed before a call can run.
    pub const fn ready_if(mut self, f: fn(&Params) -> Result<()>) -> OpDef {
        self.ready = Some(f);
        self
    }

    /// Whether several calls may share parsed parameters. By default they may, except for [`Forward::Foreign`] operators.
    pub const fn reusable_if(mut self, f: fn(&Params) -> bool) -> OpDef {
        self.reusable = Some(f);
        self
    }

    /// The metadata order of the arguments.
    pub const fn arg_order(mut self, names: &'static [&'static str]) -> OpDef {
        self.arg_order = names;
        self
    }

    /// Parses attributes.
    ///
    /// # Errors
    /// Those of the parameter struct, with the operator's name.
    pub fn parse(&self, attrs: &Attrs) -> Result<Params> {
        let parse = |attrs: &Attrs| {
            let params = (self.parse)(attrs).and_then(|params| self.check_arity(&params).map(|()| params));
            params.map_err(|e| e.in_operator(self.name, self.name))
        };
        // Every variadic operator accepts its number of inputs, even if it is not listed among its parameters.
        let count = self.key_var_num_args();
        if count.is_empty() || !attrs.contains_key(count) || self.fields().iter().any(|f| f.name == count) {
            return parse(attrs);
        }
        parse(&attrs.iter().filter(|(k, _)| *k != count).map(|(k, v)| (k.clone(), v.clone())).collect())
    }

    /// Checks the numbers of inputs and outputs; see [`check_count`].
    fn check_arity(&self, params: &Params) -> Result<()> {
        check_count("inputs", self.num_inputs(params).unwrap_or(0))?;
        check_count("outputs", self.num_outputs(params))
    }

    /// Parses the attributes of a node in a file.
    ///
    /// # Errors
    /// Those of [`OpDef::parse`].
    pub fn parse_in_file(&self, attrs: &Attrs, stored: &StoredNode) -> Result<Params> {
        match self.parse_stored {
            Some(f) => f(attrs, stored).map_err(|e| e.in_operator(self.name, self.name)),
            None => self.parse(attrs),
        }
    }

    /// The name of a call with these parameters in messages, if [`OpDef::title_by`] sets one.
    pub fn title<'p>(&self, params: &'p Params) -> Option<&'p str> {
        self.title.map(|f| f(params))
    }

    /// Checks that a call with these parameters can run.
    ///
    /// # Errors
    /// Something is missing; the message says how to supply it.
    pub fn ready(&self, params: &Params) -> Result<()> {
        self.ready.map_or(Ok(()), |f| f(params))
    }

    /// True if several calls may share these parameters, as long as no user operator is [registered](crate::user_op::generation).
    pub fn reusable(&self, params: &Params) -> bool {
        let by_default = !matches!(self.forward, Forward::Foreign(_));
        self.reusable.map_or(by_default, |f| f(params))
    }

    /// The gradient of a call with these parameters; never [`Grad::By`].
    pub fn gradient(&self, params: &Params) -> Grad {
        match self.grad {
            Grad::By(f) => f(params),
            grad => grad,
        }
    }

    /// Adds the operator's graphs to its parameters.
    ///
    /// # Errors
    /// A wrong number of graphs, or graphs that do not fit the parameters.
    pub fn attach(&self, params: Params, graphs: Vec<Arc<dyn Subgraph>>) -> Result<Params> {
        if graphs.len() != self.graph_args.len() {
            let names: Vec<_> = self.graph_args.iter().map(|a| a.name).collect();
            return Err(Error::Value(format!(
                "{} graphs were given; operator {} takes {}: {}",
                graphs.len(),
                self.name,
                names.len(),
                names.join(", ")
            )));
        }
        match self.with_graphs {
            Some(f) => f(&params, graphs).map_err(|e| e.in_operator(self.name, self.name)),
            None => Ok(params),
        }
    }

    /// The parameters, as the metadata lists them.
    pub fn fields(&self) -> Vec<FieldInfo> {
        (self.fields)()
    }

    /// Number of inputs, mutable ones included; `None` if the parameters do not determine it (variadic operators).
    pub fn num_inputs(&self, params: &Params) -> Option<usize> {
        match (self.num_inputs, self.inputs) {
            (Some(f), _) => Some(f(params)),
            (None, Inputs::Fixed(args)) => Some(args.len()),
            (None, Inputs::Variadic { .. }) => None,
        }
    }

    /// Indices of the inputs that the operator mutates.
    pub fn mutated<'p>(&self, params: &'p Params) -> &'p [usize] {
        self.mutates_by.map_or(self.mutates, |f| f(params))
    }

    /// Index and value of the input that the operator fills with a constant.
    pub fn filled(&self, params: &Params) -> Option<(usize, f64)> {
        self.fills.and_then(|f| f(params))
    }

    /// Names of `n` inputs.
    pub fn input_names(&self, params: &Params, n: usize) -> Vec<String> {
        match (self.input_names, self.inputs) {
            (Some(f), _) => f(params),
            (None, Inputs::Fixed(args)) => args.iter().take(n).map(|a| a.name.to_string()).collect(),
            (None, Inputs::Variadic { .. }) => (0..n).map(|i| format!("arg{i}")).collect(),
        }
    }

    /// Number of outputs, hidden ones included.
    pub fn num_outputs(&self, params: &Params) -> usize {
        (self.num_outputs)(params)
    }

    /// Number of visible outputs.
    pub fn num_visible(&self, params: &Params) -> usize {
        self.num_visible.map_or_else(|| self.num_outputs(params), |f| f(params))
    }

    /// Names of all outputs, without the node's name.
    pub fn output_names(&self, params: &Params) -> Vec<String> {
        match (self.output_names, self.num_outputs(params)) {
            (Some(f), _) => f(params),
            (None, 1) => vec!["output".into()],
            (None, n) => (0..n).map(|i| format!("output{i}")).collect(),
        }
    }

    /// The computation on a type of device.
    ///
    /// # Errors
    /// There is no backend for the device.
    pub fn forward_on(&self, device: DeviceType) -> Result<Forward> {
        match device {
            DeviceType::Gpu => Err(Error::Unsupported(format!("operator {} has no GPU kernel", self.name))),
            _ => Ok(self.forward),
        }
    }

    /// All arguments in metadata order: name, type string, description.
    pub fn arguments(&self) -> Vec<(&'static str, String, Cow<'static, str>)> {
        let tensors: Vec<ArgDef> = match self.inputs {
            Inputs::Fixed(args) => args.to_vec(),
            Inputs::Variadic { arg, .. } => vec![arg],
        };
        let mut all: Vec<_> = self
            .graph_args
            .iter()
            .chain(self.leading)
            .chain(&tensors)
            .take(self.listed)
            .map(|a| (a.name, a.type_string.to_string(), Cow::Borrowed(a.doc)))
            .collect();
        if self.lists_params {
            all.extend(self.fields().into_iter().map(|f| (f.name, f.type_string, f.doc)));
        }
        if !self.arg_order.is_empty() {
            all.sort_by_key(|a| self.arg_order.iter().position(|n| *n == a.0));
        }
        all
    }

    /// The parameter with the number of inputs; empty if the number is fixed.
    pub fn key_var_num_args(&self) -> &'static str {
        match self.inputs {
            Inputs::Variadic { count, .. } => count,
            Inputs::Fixed(_) => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::params! {
        /// Parameters of the test operator.
        struct TestParam {
            /// Number of arguments.
            num_args: i32 = required, where 1..=9;
            /// The axis.
            dim: i32 = 1;
            /// A small constant.
            eps: f64 = (f64::from(1e-3f32));
        }
    }

    static TEST: OpDef = OpDef::new("Test")
        .inputs(&[arg("lhs", "The left one."), arg("rhs", "The right one.")])
        .params::<TestParam>()
        .arg_order(&["lhs", "num_args", "dim", "eps", "rhs"]);

    #[test]
    fn metadata_has_the_order_and_the_type_strings_of_mxnet() {
        let all: Vec<_> = TEST.arguments().into_iter().map(|(n, t, _)| format!("{n}: {t}")).collect();
        assert_eq!(
            all,
            [
                "lhs: NDArray-or-Symbol",
                "num_args: int, required",
                "dim: int, optional, default='1'",
                "eps: double, optional, default=0.0010000000474974513",
                "rhs: NDArray-or-Symbol"
            ]
        );
    }

    #[test]
    fn invalid_parameters_are_errors() {
        let parse = |k: &str, v: &str| TEST.parse(&[(k.to_string(), v.to_string())].into_iter().collect());
        let parsed = parse("num_args", "3").unwrap();
        let p = parsed.get::<TestParam>();
        assert_eq!((p.num_args, p.dim, p.eps), (3, 1, f64::from(1e-3f32)));
        assert!(parse("num_args", "10").unwrap_err().to_string().contains("out of range"));
        assert!(parse("num_args", "x").unwrap_err().to_string().contains("'x' is not a valid int"));
        assert!(parse("dim", "1").unwrap_err().to_string().contains("Required parameter num_args"));
        assert!(parse("nun_args", "1").unwrap_err().to_string().contains("Possible Arguments: num_args, dim, eps"));
    }
}
