//! Values that can be replaced through shared references.

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

/// A value that can be replaced while others refer to it: references to old values stay valid.
#[derive(Default)]
pub struct Replaceable<T> {
    value: T,
    replacement: OnceLock<Box<Replaceable<T>>>,
}

impl<T> Replaceable<T> {
    fn last(&self) -> &Replaceable<T> {
        let mut last = self;
        while let Some(next) = last.replacement.get() {
            last = next;
        }
        last
    }

    /// Replaces the value for all who read it from now on.
    pub(super) fn replace(&self, value: T) {
        let mut replacement = Box::new(Replaceable::from(value));
        while let Err(rejected) = self.last().replacement.set(replacement) {
            replacement = rejected;
        }
    }
}

impl<T> From<T> for Replaceable<T> {
    fn from(value: T) -> Replaceable<T> {
        Replaceable { value, replacement: OnceLock::new() }
    }
}

impl<T> Deref for Replaceable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.last().value
    }
}

impl<T: Clone> Clone for Replaceable<T> {
    fn clone(&self) -> Replaceable<T> {
        (**self).clone().into()
    }
}

impl<T: fmt::Display> fmt::Display for Replaceable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for Replaceable<T> {
    /// Drops replacements iteratively: recursion would overflow the stack if there are many.
    fn drop(&mut self) {
        let mut next = self.replacement.take();
        while let Some(mut replaced) = next {
            next = replaced.replacement.take();
        }
    }
}
