//! Packed weights that a node keeps between runs.

use std::any::Any;

use ferromx_core::error::Result;
use ferromx_core::op::OpCtx;
use ferromx_core::storage::In;

/// Packed weights, kept until their array changes.
struct Kept<W> {
    version: Option<(u64, u64, usize)>,
    weights: Option<W>,
}

impl<W> Default for Kept<W> {
    fn default() -> Self {
        Kept { version: None, weights: None }
    }
}

/// Calls `f` with packed weights, which the node keeps until they change.
pub(super) fn with_packed<W: Any + Send, R>(
    ctx: &OpCtx<'_>,
    w: &In<'_>,
    pack: impl FnOnce() -> W,
    f: impl FnOnce(&W) -> Result<R>,
) -> Result<R> {
    let (Some(cache), Some(version)) = (ctx.cache, w.version()) else { return f(&pack()) };
    cache.with(|kept: &mut Kept<W>| {
        if kept.version != Some(version) {
            *kept = Kept { version: Some(version), weights: None };
        }
        f(kept.weights.get_or_insert_with(pack))
    })
}
