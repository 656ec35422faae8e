//! Lists whose memory each thread keeps.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

thread_local! {
    /// For each type of elements the lists that are not in use, a `Vec<Vec<T>>`.
    static FREE: RefCell<HashMap<TypeId, Box<dyn Any>>> = RefCell::default();
}

/// Calls `f` with the free lists of this thread; `None` while the thread ends.
fn with_free<T: 'static, R>(f: impl FnOnce(&mut Vec<Vec<T>>) -> R) -> Option<R> {
    FREE.try_with(|free| {
        let mut free = free.borrow_mut();
        let lists = free.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(Vec::<Vec<T>>::new()));
        lists.downcast_mut().map(f)
    })
    .ok()
    .flatten()
}

/// A list of what a computation prepares for itself, such as places of taps. Dropped, it leaves its memory to the next list
/// of this type on the thread, so that a computation that is repeated allocates nothing.
#[derive(Debug)]
pub struct List<T: 'static>(Vec<T>);

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
        // Elements may hold lists of their own type.
        self.0.clear();
        let list = std::mem::take(&mut self.0);
        with_free(|free| free.push(list));
    }
}
