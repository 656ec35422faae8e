//! Functions that compute an operator, and the context that they get.

use std::any::Any;

use parking_lot::Mutex;

use super::OpDef;
use crate::context::{Context, DeviceType};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::ndarray::NDArray;
use crate::params::Params;
use crate::storage::{In, LoopRecorder, Out, Req};

/// The key of a random number stream. Each call that draws gets its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomKey {
    /// The seed of the device.
    pub seed: u64,
    /// The number of keys drawn since the seed was set.
    pub stream: u64,
}

/// The source of random number streams.
pub trait RandomSource {
    /// A new key.
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

    /// The mode of the call.
    pub fn mode(&self) -> Mode {
        Mode::training_if(self.is_train)
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

/// The computation, and what the engine may do with its operands.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// Computation on the CPU.
    pub forward: Forward,
    /// Pairs (input, output) that may be the same memory.
    pub inplace: &'static [(usize, usize)],
    /// Whether the kernel handles [`Req::Add`].
    pub is_accumulating: bool,
    /// Whether it draws random numbers, so that common subexpression elimination must not merge its nodes.
    pub is_random: bool,
    pub(super) check_runnable: Option<fn(&Params) -> Result<()>>,
}

impl Kernels {
    /// No kernel: a call is an error.
    pub(super) const fn new() -> Kernels {
        Kernels {
            forward: Forward::Kernel(no_kernel),
            inplace: &[],
            is_accumulating: false,
            is_random: false,
            check_runnable: None,
        }
    }
}

fn no_kernel(ctx: &OpCtx<'_>, _: &[In<'_>], _: &mut [Out<'_>]) -> Result<()> {
    Err(Error::Internal(format!("operator {} was defined without a kernel", ctx.op)))
}

impl OpDef {
    /// The computation on a type of device.
    ///
    /// # Errors
    /// There is no backend for the device.
    pub fn forward_on(&self, device: DeviceType) -> Result<Forward> {
        match device {
            DeviceType::Gpu => Err(Error::Unsupported(format!("operator {} has no GPU kernel", self.name))),
            _ => Ok(self.kernels.forward),
        }
    }

    /// Checks that a call with these parameters can run.
    ///
    /// # Errors
    /// Something is missing; the message says how to supply it.
    pub fn check_runnable(&self, params: &Params) -> Result<()> {
        self.kernels.check_runnable.map_or(Ok(()), |f| f(params))
    }
}
