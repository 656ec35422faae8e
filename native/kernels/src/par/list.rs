//! Temporary lists that reuse the memory of earlier ones.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

thread_local! {
    /// For each element type, the unused lists, as a `Vec<Vec<T>>`.
    static FREE: RefCell<HashMap<TypeId, Box<dyn Any>>> = RefCell::default();
}

/// Calls `f` with the unused lists of this thread; `None` while the thread exits.
fn with_free<T: 'static, R>(f: impl FnOnce(&mut Vec<Vec<T>>) -> R) -> Option<R> {
    FREE.try_with(|free| {
        let mut free = free.borrow_mut();
        let lists = free.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(Vec::<Vec<T>>::new()));
        lists.downcast_mut().map(f)
    })
    .ok()
    .flatten()
}

/// A temporary list, such as the offsets of taps. On drop its memory is kept for the thread's next list of this type, so that a
/// repeated computation allocates nothing.
#[derive(Debug)]
pub(crate) struct List<T: 'static>(Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(with_free(Vec::pop).flatten().unwrap_or_default())
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = List::default();
        list.extend(items);
        list
    }
}

impl<T> Deref for List<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T> Drop for List<T> {
    fn drop(&mut self) {
        // Elements are dropped before the memory is returned, because they may return lists, too.
        self.0.clear();
        let list = std::mem::take(&mut self.0);
        with_free(|free| free.push(list));
    }
}
