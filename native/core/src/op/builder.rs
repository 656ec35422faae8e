//! The functions that define an [`Operator`], in constants.

use super::fusion::Role;
use super::grad::Grad;
use super::parameters::parse_as;
use super::*;
use crate::error::Result;
use crate::infer::{InferDType, InferShape};
use crate::params::{OpParams, Params};

const DATA: &[ArgDef] = &[arg("data", "The input.")];

impl<P: OpParams> Operator<P> {
    /// An operator with one input `data`, one output, and equal shapes and types of both.
    pub const fn new(name: &'static str) -> Operator<P> {
        let def = OpDef {
            name,
            metadata: Metadata::new(),
            signature: Signature::new(DATA),
            parameters: Parameters::of::<P>(),
            inference: Inference::new(),
            kernels: Kernels::new(),
            sparse: None,
            gradient: Gradient::new(),
            fusion: Fusion::new(),
        };
        Operator::of(def)
    }
}

impl<P> Operator<P> {
    /// Alternative names, which replace earlier ones.
    pub const fn aliases(mut self, names: &'static [&'static str]) -> Operator<P> {
        self.def.metadata.aliases = names;
        self
    }

    /// A copy of the operator under another name, without aliases.
    pub const fn renamed(mut self, name: &'static str) -> Operator<P> {
        self.def.name = name;
        self.def.metadata.aliases = &[];
        self
    }

    /// The description: formula, shapes and source.
    pub const fn doc(mut self, doc: &'static str) -> Operator<P> {
        self.def.metadata.doc = doc;
        self
    }

    /// The tensor inputs.
    pub const fn inputs(mut self, args: &'static [ArgDef]) -> Operator<P> {
        self.def.signature.inputs = Inputs::Fixed(args);
        self
    }

    /// Any number of inputs, counted by the parameter `count`.
    pub const fn variadic(self, name: &'static str, doc: &'static str, count: &'static str) -> Operator<P> {
        self.variadic_arg(ArgDef { name, doc, type_string: "NDArray-or-Symbol[]" }, count)
    }

    /// As [`Operator::variadic`], with a custom type string.
    pub const fn variadic_arg(mut self, arg: ArgDef, count: &'static str) -> Operator<P> {
        self.def.signature.inputs = Inputs::Variadic { arg, count };
        self
    }

    /// Named inputs before the variadic ones; the parameter with the number of inputs counts them too.
    pub const fn leading(mut self, args: &'static [ArgDef]) -> Operator<P> {
        self.def.signature.leading = args;
        self
    }

    /// Graph arguments before the inputs, and the function that adds them to the parameters.
    pub const fn graphs(mut self, args: &'static [ArgDef], f: WithGraphs) -> Operator<P> {
        self.def.signature.graph_args = args;
        self.def.parameters.with_graphs = Some(f);
        self
    }

    /// The operator is replaced by its first argument, a graph, when a node of it is created.
    pub const fn expands(mut self, graph: &'static [ArgDef]) -> Operator<P> {
        self.def.signature.graph_args = graph;
        self.def.signature.is_expanded = true;
        self
    }

    /// The number of inputs, if parameters may omit some.
    pub const fn num_inputs_by(mut self, f: fn(&Params) -> usize) -> Operator<P> {
        self.def.signature.num_inputs = Some(f);
        self
    }

    /// Names of the inputs, if they are not the first ones of the list.
    pub const fn input_names_by(mut self, f: Names) -> Operator<P> {
        self.def.signature.input_names = Some(f);
        self
    }

    /// Inputs that the operator mutates. They follow the outputs as [`Out`](crate::storage::Out)s of the kernel.
    pub const fn mutates(mut self, inputs: &'static [usize]) -> Operator<P> {
        self.def.signature.mutates = inputs;
        self
    }

    /// The number of graphs and inputs that the metadata lists.
    pub const fn listed(mut self, inputs: usize) -> Operator<P> {
        self.def.metadata.num_listed_inputs = inputs;
        self
    }

    /// The metadata does not list the parameters.
    pub const fn unlisted_params(mut self) -> Operator<P> {
        self.def.metadata.has_listed_params = false;
        self
    }

    /// Attributes that the operator accepts without being parameters. MXNet's parser of some operators ignores unknown attributes.
    pub const fn ignores(mut self, is_ignored: fn(&str) -> bool) -> Operator<P> {
        self.def.parameters.ignores = Some(is_ignored);
        self
    }

    /// Inputs that the operator mutates, if they depend on the parameters.
    pub const fn mutates_by(mut self, f: InputIndices) -> Operator<P> {
        self.def.signature.mutates_by = Some(f);
        self
    }

    /// An input that the operator fills with a constant before it computes. It stays an argument, with a gradient.
    pub const fn fills(mut self, f: FilledInput) -> Operator<P> {
        self.def.signature.filled_input = Some(f);
        self
    }

    /// Kernels, rules and gradients get parameters of type `Q`, which is parsed from the same attributes.
    pub const fn parsed_as<Q: OpParams>(mut self) -> Operator<P> {
        self.def.parameters.parse = parse_as::<Q>;
        self
    }

    /// The number of outputs.
    pub const fn outputs(mut self, f: fn(&Params) -> usize) -> Operator<P> {
        self.def.signature.num_outputs = f;
        self
    }

    /// The number of visible outputs; the others serve only the gradient.
    pub const fn visible(mut self, f: fn(&Params) -> usize) -> Operator<P> {
        self.def.signature.num_visible = Some(f);
        self
    }

    /// Names of the outputs, if they are not `output`, or `output0`, `output1`, ...
    pub const fn output_names_by(mut self, f: Names) -> Operator<P> {
        self.def.signature.output_names = Some(f);
        self
    }

    /// The shape rule.
    pub const fn shape(mut self, f: InferShape) -> Operator<P> {
        self.def.inference.shape = f;
        self
    }

    /// The element type rule.
    pub const fn dtype(mut self, f: InferDType) -> Operator<P> {
        self.def.inference.dtype = f;
        self
    }

    /// The kernel.
    pub const fn forward(mut self, kernel: KernelFn) -> Operator<P> {
        self.def.kernels.forward = Forward::Kernel(kernel);
        self
    }

    /// The function of an operator that runs without the engine's locks.
    pub const fn foreign(mut self, f: ForeignFn) -> Operator<P> {
        self.def.kernels.forward = Forward::Foreign(f);
        self
    }

    /// The output is a view of the input with another shape.
    pub const fn view(mut self) -> Operator<P> {
        self.def.kernels.forward = Forward::View;
        self.def.kernels.inplace = &[(0, 0)];
        self
    }

    /// The function that allocates outputs whose shapes depend on the values of the inputs. Nothing can be inferred beforehand.
    pub const fn dynamic(mut self, f: DynamicFn) -> Operator<P> {
        self.def.kernels.forward = Forward::Dynamic(f);
        self.def.inference.shape = |_, _| Ok(());
        self.def.inference.dtype = |_, _| Ok(());
        self
    }

    /// The gradient.
    pub const fn grad(mut self, grad: Grad) -> Operator<P> {
        self.def.gradient.rule = grad;
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
        self.def.gradient.storage = storage;
        self
    }

    /// Pairs (input, output) that may be the same memory; the kernel accesses them by [`in_out`](crate::storage::in_out).
    pub const fn inplace(mut self, pairs: &'static [(usize, usize)]) -> Operator<P> {
        self.def.kernels.inplace = pairs;
        self
    }

    /// The kernel handles [`Req::Add`](crate::storage::Req::Add).
    pub const fn accumulates(mut self) -> Operator<P> {
        self.def.kernels.is_accumulating = true;
        self
    }

    /// The operator is elementwise on operands of equal shapes.
    pub const fn pointwise(mut self) -> Operator<P> {
        self.def.fusion.is_pointwise = true;
        self
    }

    /// The kernel consists of loops that can be recorded. On operands of equal shapes it passes its loops to
    /// [`LoopRecorder::record`](crate::storage::LoopRecorder::record) if there is a recorder, runs them otherwise, and does nothing else.
    /// The parameters alone determine the loops.
    pub const fn consists_of_loops(mut self) -> Operator<P> {
        self.def.fusion.consists_of_loops = true;
        self
    }

    /// The operator broadcasts, and so is elementwise on operands of equal shapes.
    pub const fn broadcasts(mut self) -> Operator<P> {
        self.def.fusion.is_broadcasting = true;
        self
    }

    /// The operator is elementwise if input `first_scalar` and those after it have one element each.
    pub const fn pointwise_before(mut self, first_scalar: usize) -> Operator<P> {
        self.def.fusion.first_scalar = first_scalar;
        self
    }

    /// The operator's role in epilogue fusion.
    pub const fn role(mut self, role: Role) -> Operator<P> {
        self.def.fusion.role = role;
        self
    }

    /// The operator draws random numbers.
    pub const fn random(mut self) -> Operator<P> {
        self.def.kernels.is_random = true;
        self
    }

    /// MXNet defines the operator in its oldest interface, in which inputs, outputs and gradients have names.
    pub const fn legacy(mut self) -> Operator<P> {
        self.def.metadata.is_legacy = true;
        self.names_data().names_outputs()
    }

    /// MXNet registers the name of the input.
    pub const fn names_data(mut self) -> Operator<P> {
        self.def.metadata.has_data_name = true;
        self
    }

    /// MXNet registers the names of the outputs.
    pub const fn names_outputs(mut self) -> Operator<P> {
        self.def.metadata.has_output_names = true;
        self
    }

    /// Initializers for input variables that have none of their own, by input index: `[(3, r#"["zero", {}]"#)]`.
    pub const fn input_init(mut self, init: &'static [(usize, &'static str)]) -> Operator<P> {
        self.def.signature.input_init = init;
        self
    }

    /// The parser of a node in a file, if the attributes alone may not suffice.
    pub const fn parse_stored_by(mut self, f: ParseStored) -> Operator<P> {
        self.def.parameters.parse_stored = Some(f);
        self
    }

    /// The name of a call in messages, if it depends on the parameters.
    pub const fn title_by(mut self, f: fn(&Params) -> &str) -> Operator<P> {
        self.def.parameters.title = Some(f);
        self
    }

    /// A check that must succeed before a call can run.
    pub const fn runnable_if(mut self, f: fn(&Params) -> Result<()>) -> Operator<P> {
        self.def.kernels.check_runnable = Some(f);
        self
    }

    /// Calls with equal attributes share their parsed parameters only if the predicate holds. By default they do, except for
    /// [`Forward::Foreign`] operators.
    pub const fn reusable_if(mut self, f: fn(&Params) -> bool) -> Operator<P> {
        self.def.parameters.is_reusable = Some(f);
        self
    }

    /// The metadata order of the arguments.
    pub const fn arg_order(mut self, names: &'static [&'static str]) -> Operator<P> {
        self.def.metadata.arg_order = names;
        self
    }
}
