//! Pushes of gradients during the backward pass that computes them.

use std::collections::HashMap;
use std::sync::Arc;

use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::sparse::Array;
use ferromx_core::storage::{Chunk, overlap};

use super::{Key, KvStore, pushed_groups};
use crate::executor::Executor;
use crate::imperative::Tensor;

/// A key that was not pushed yet.
struct Waiting<'t> {
    key: Key,
    arrays: Vec<&'t Arc<Tensor>>,
    /// The arguments of the executor whose gradients are among the arrays and incomplete.
    args: Vec<usize>,
    is_pushed: bool,
}

impl KvStore {
    /// Runs a backward pass and pushes arrays, each key as soon as the pass has completed those of its arrays that are gradients of the
    /// executor. A distributed store sends them while the pass goes on. Keys without a gradient of the executor are pushed last. The
    /// order of pushes depends only on the symbol, its requests and the keys.
    ///
    /// # Errors
    /// Errors of [`Executor::backward_stored`] and [`KvStore::push`]. An error ends the pass, and some keys may have been pushed.
    pub fn push_in_backward(
        &self,
        executor: &Executor,
        (head_grads, mode): (&[Array], Mode),
        keys: &[Key],
        arrays: &[Arc<Tensor>],
    ) -> Result<()> {
        let mut gradients: HashMap<*const Chunk, Vec<(usize, NDArray)>> = HashMap::new();
        for (arg, gradient) in executor.stored_grads().into_iter().enumerate() {
            if let Some(Array::Dense(gradient)) = gradient {
                gradients.entry(Arc::as_ptr(gradient.chunk())).or_default().push((arg, gradient));
            }
        }
        let mut waiting = Vec::new();
        for (key, arrays) in pushed_groups(keys, arrays)? {
            // An unknown key is an error before the pass.
            self.value(&key)?;
            let mut args = Vec::new();
            for pushed in arrays.iter().filter_map(|array| array.array().ok()) {
                let same_chunk = gradients.get(&Arc::as_ptr(pushed.chunk())).into_iter().flatten();
                args.extend(same_chunk.filter(|(_, gradient)| overlap(gradient, &pushed)).map(|(arg, _)| *arg));
            }
            waiting.push(Waiting { key, arrays, args, is_pushed: false });
        }
        let mut push_complete = |arg: usize| -> Result<()> {
            for entry in waiting.iter_mut().filter(|entry| entry.args.contains(&arg)) {
                entry.args.retain(|other| *other != arg);
                if entry.args.is_empty() {
                    self.push_group(&entry.key, &entry.arrays)?;
                    entry.is_pushed = true;
                }
            }
            Ok(())
        };
        executor.backward_stored(head_grads, mode, Some(&mut push_complete))?;
        for entry in waiting.iter().filter(|entry| !entry.is_pushed) {
            self.push_group(&entry.key, &entry.arrays)?;
        }
        self.distributed().map_or(Ok(()), |distributed| distributed.send_incomplete_bucket())
    }
}
