//! The functions that define an [`Operator`], in constants.

use super::*;
use crate::error::Error;
use crate::infer::{same_dtype, same_shape};
use crate::storage::{In, Out};

fn one(_: &Params) -> usize {
    1
}

fn no_kernel(ctx: &OpCtx<'_>, _: &[In<'_>], _: &mut [Out<'_>]) -> Result<()> {
    Err(Error::Internal(format!("operator {} was defined without a kernel", ctx.op)))
}

fn parse_as<P: OpParams>(attrs: &Attrs) -> Result<Params> {
    P::parse(attrs).map(Params::new)
}

const DATA: &[ArgDef] = &[arg("data", "The input.")];

impl<P: OpParams> Operator<P> {
    /// An operator with one input `data`, one output, and equal shapes and types of both.
    pub const fn new(name: &'static str) -> Operator<P> {
        let def = OpDef {
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
            parse: parse_as::<P>,
            fields: P::fields,
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
        };
        Operator::of(def)
    }
}

impl<P> Operator<P> {
    /// Alternative names, which replace earlier ones.
    pub const fn aliases(mut self, names: &'static [&'static str]) -> Operator<P> {
        self.def.aliases = names;
        self
    }

    /// A copy of the operator under another name, without aliases.
    pub const fn renamed(mut self, name: &'static str) -> Operator<P> {
        self.def.name = name;
        self.def.aliases = &[];
        self
    }

    /// The description: formula, shapes and source.
    pub const fn doc(mut self, doc: &'static str) -> Operator<P> {
        self.def.doc = doc;
        self
    }

    /// The tensor inputs.
    pub const fn inputs(mut self, args: &'static [ArgDef]) -> Operator<P> {
        self.def.inputs = Inputs::Fixed(args);
        self
    }

    /// Any number of inputs, counted by the parameter `count`.
    pub const fn variadic(self, name: &'static str, doc: &'static str, count: &'static str) -> Operator<P> {
        self.variadic_arg(ArgDef { name, doc, type_string: "NDArray-or-Symbol[]" }, count)
    }

    /// As [`Operator::variadic`], with a custom type string.
    pub const fn variadic_arg(mut self, arg: ArgDef, count: &'static str) -> Operator<P> {
        self.def.inputs = Inputs::Variadic { arg, count };
        self
    }

    /// Named inputs before the variadic ones; the parameter with the number of inputs counts them too.
    pub const fn leading(mut self, args: &'static [ArgDef]) -> Operator<P> {
        self.def.leading = args;
        self
    }

    /// Graph arguments before the inputs, and the function that adds them to the parameters.
    pub const fn graphs(mut self, args: &'static [ArgDef], f: WithGraphs) -> Operator<P> {
        self.def.graph_args = args;
        self.def.with_graphs = Some(f);
        self
    }

    /// The operator is replaced by its first argument, a graph, when a node of it is created.
    pub const fn expands(mut self, graph: &'static [ArgDef]) -> Operator<P> {
        self.def.graph_args = graph;
        self.def.expands = true;
        self
    }

    /// The number of inputs, if parameters may omit some.
    pub const fn num_inputs_by(mut self, f: fn(&Params) -> usize) -> Operator<P> {
        self.def.num_inputs = Some(f);
        self
    }

    /// Names of the inputs, if they are not the first ones of the list.
    pub const fn input_names_by(mut self, f: Names) -> Operator<P> {
        self.def.input_names = Some(f);
        self
    }

    /// Inputs that the operator mutates. They follow the outputs as [`Out`]s of the kernel.
    pub const fn mutates(mut self, inputs: &'static [usize]) -> Operator<P> {
        self.def.mutates = inputs;
        self
    }

    /// The number of graphs and inputs that the metadata lists.
    pub const fn listed(mut self, inputs: usize) -> Operator<P> {
        self.def.listed = inputs;
        self
    }

    /// The metadata does not list the parameters.
    pub const fn unlisted_params(mut self) -> Operator<P> {
        self.def.lists_params = false;
        self
    }

    /// Inputs that the operator mutates, if they depend on the parameters.
    pub const fn mutates_by(mut self, f: InputIndices) -> Operator<P> {
        self.def.mutates_by = Some(f);
        self
    }

    /// An input that the operator fills with a constant before it computes. It stays an argument, with a gradient.
    pub const fn fills(mut self, f: FilledInput) -> Operator<P> {
        self.def.fills = Some(f);
        self
    }

    /// Kernels, rules and gradients get parameters of type `Q`, which is parsed from the same attributes.
    pub const fn parsed_as<Q: OpParams>(mut self) -> Operator<P> {
        self.def.parse = parse_as::<Q>;
        self
    }

    /// The number of outputs.
    pub const fn outputs(mut self, f: fn(&Params) -> usize) -> Operator<P> {
        self.def.num_outputs = f;
        self
    }

    /// The number of visible outputs; the others serve only the gradient.
    pub const fn visible(mut self, f: fn(&Params) -> usize) -> Operator<P> {
        self.def.num_visible = Some(f);
        self
    }

    /// Names of the outputs, if they are not `output`, or `output0`, `output1`, ...
    pub const fn output_names_by(mut self, f: Names) -> Operator<P> {
        self.def.output_names = Some(f);
        self
    }

    /// The shape rule.
    pub const fn shape(mut self, f: InferShape) -> Operator<P> {
        self.def.infer_shape = f;
        self
    }

    /// The element type rule.
    pub const fn dtype(mut self, f: InferDType) -> Operator<P> {
        self.def.infer_dtype = f;
        self
    }

    /// The kernel.
    pub const fn forward(mut self, kernel: KernelFn) -> Operator<P> {
        self.def.forward = Forward::Kernel(kernel);
        self
    }

    /// The function of an operator that runs without the engine's locks.
    pub const fn foreign(mut self, f: ForeignFn) -> Operator<P> {
        self.def.forward = Forward::Foreign(f);
        self
    }

    /// The output is a view of the input with another shape.
    pub const fn view(mut self) -> Operator<P> {
        self.def.forward = Forward::View;
        self.def.inplace = &[(0, 0)];
        self
    }

    /// The function that allocates outputs whose shapes depend on the values of the inputs. Nothing can be inferred beforehand.
    pub const fn dynamic(mut self, f: DynamicFn) -> Operator<P> {
        self.def.forward = Forward::Dynamic(f);
        self.def.infer_shape = |_, _| Ok(());
        self.def.infer_dtype = |_, _| Ok(());
        self
    }

    /// The gradient.
    pub const fn grad(mut self, grad: Grad) -> Operator<P> {
        self.def.grad = grad;
        self
    }

    /// The sparse implementation: the rule for the outputs' storage type, and the function that computes them.
    pub const fn sparse(mut self, rule: SparseRule, run: SparseFn) -> Operator<P> {
        self.def.sparse = Some(SparseForm { rule, run, of_outputs: None, from_dense: |_| false });
        self
    }

    /// As [`Operator::sparse`], for an operator that has sparse outputs for dense inputs if its parameters satisfy the predicate.
    pub const fn sparse_from_dense(
        mut self,
        from_dense: fn(&Params) -> bool,
        rule: SparseRule,
        run: SparseFn,
    ) -> Operator<P> {
        self.def.sparse = Some(SparseForm { rule, run, of_outputs: None, from_dense });
        self
    }

    /// The sparse implementation.
    pub const fn sparse_form(mut self, form: SparseForm) -> Operator<P> {
        self.def.sparse = Some(form);
        self
    }

    /// The storage types of the gradients that `simple_bind` allocates.
    pub const fn gradient_storage(mut self, storage: GradientStorage) -> Operator<P> {
        self.def.gradient_storage = storage;
        self
    }

    /// Pairs (input, output) that may be the same memory; the kernel accesses them by [`in_out`](crate::storage::in_out).
    pub const fn inplace(mut self, pairs: &'static [(usize, usize)]) -> Operator<P> {
        self.def.inplace = pairs;
        self
    }

    /// The kernel handles [`Req::Add`](crate::storage::Req::Add).
    pub const fn accumulates(mut self) -> Operator<P> {
        self.def.accumulates = true;
        self
    }

    /// The operator is elementwise on operands of equal shapes.
    pub const fn pointwise(mut self) -> Operator<P> {
        self.def.pointwise = true;
        self
    }

    /// The kernel consists of loops that can be recorded. On operands of equal shapes it passes its loops to
    /// [`LoopRecorder::record`](crate::storage::LoopRecorder::record) if there is a recorder, runs them otherwise, and does nothing else.
    /// The parameters alone determine the loops.
    pub const fn consists_of_loops(mut self) -> Operator<P> {
        self.def.consists_of_loops = true;
        self
    }

    /// The operator broadcasts, and so is elementwise on operands of equal shapes.
    pub const fn broadcasts(mut self) -> Operator<P> {
        self.def.broadcasts = true;
        self
    }

    /// The operator is elementwise if input `first_scalar` and those after it have one element each.
    pub const fn pointwise_before(mut self, first_scalar: usize) -> Operator<P> {
        self.def.first_scalar = first_scalar;
        self
    }

    /// The operator's role in epilogue fusion.
    pub const fn role(mut self, role: Role) -> Operator<P> {
        self.def.role = role;
        self
    }

    /// The operator draws random numbers.
    pub const fn random(mut self) -> Operator<P> {
        self.def.random = true;
        self
    }

    /// MXNet defines the operator in its oldest interface, in which inputs, outputs and gradients have names.
    pub const fn legacy(mut self) -> Operator<P> {
        self.def.is_legacy = true;
        self.names_data().names_outputs()
    }

    /// MXNet registers the name of the input.
    pub const fn names_data(mut self) -> Operator<P> {
        self.def.names_data = true;
        self
    }

    /// MXNet registers the names of the outputs.
    pub const fn names_outputs(mut self) -> Operator<P> {
        self.def.names_outputs = true;
        self
    }

    /// Initializers of variables that have none, by input, as in `[(3, r#"["zero", {}]"#)]`.
    pub const fn input_init(mut self, init: &'static [(usize, &'static str)]) -> Operator<P> {
        self.def.input_init = init;
        self
    }

    /// The parser of a node in a file, if the attributes alone may not suffice.
    pub const fn parse_stored_by(mut self, f: ParseStored) -> Operator<P> {
        self.def.parse_stored = Some(f);
        self
    }

    /// The name of a call in messages, if it depends on the parameters.
    pub const fn title_by(mut self, f: fn(&Params) -> &str) -> Operator<P> {
        self.def.title = Some(f);
        self
    }

    /// A check that must succeed before a call can run.
    pub const fn ready_if(mut self, f: fn(&Params) -> Result<()>) -> Operator<P> {
        self.def.ready = Some(f);
        self
    }

    /// Calls with equal attributes share their parsed parameters only if the predicate holds. By default they do, except for
    /// [`Forward::Foreign`] operators.
    pub const fn reusable_if(mut self, f: fn(&Params) -> bool) -> Operator<P> {
        self.def.reusable = Some(f);
        self
    }

    /// The metadata order of the arguments.
    pub const fn arg_order(mut self, names: &'static [&'static str]) -> Operator<P> {
        self.def.arg_order = names;
        self
    }
}
