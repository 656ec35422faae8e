//! The shape of a tensor as a kernel that works along one axis sees it.

/// A tensor viewed along one axis: `outer` x `axis` x `inner` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisShape {
    /// The product of the dimensions before the axis.
    pub outer: usize,
    /// The size of the axis.
    pub axis: usize,
    /// The product of the dimensions after the axis.
    pub inner: usize,
}

impl AxisShape {
    /// Views a tensor of shape `dims` along dimension `axis`.
    ///
    /// # Panics
    /// Panics if there is no such dimension.
    pub fn new(dims: &[usize], axis: usize) -> AxisShape {
        let (outer, inner) = (dims[..axis].iter().product(), dims[axis + 1..].iter().product());
        AxisShape { outer, axis: dims[axis], inner }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.outer * self.axis * self.inner
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Panics unless every tensor length in `lens` is [`Self::len`].
    pub(crate) fn check(&self, lens: &[usize]) {
        for &len in lens {
            assert_eq!(len, self.len(), "elements of a tensor of {self:?}");
        }
    }
}
