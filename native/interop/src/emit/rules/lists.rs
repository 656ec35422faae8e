//! Rules for values other than tensors: absent values, choices, lists of numbers.

use ferromx_core::dtype::DType;
use ferromx_core::op::check_count;

use super::rules;
use crate::emit::{SymInt, SymInts, is_symbolic};
use crate::error::{Error, Result};
use crate::ir::{ElementType, Value};

rules! {
    /// True if an input or attribute is present.
    fn present(_, value: Value) -> bool {
        Ok(value != Value::None || matches!(value, Value::Graph(_)))
    }

    /// True if an input or attribute is absent.
    fn absent(_, value: Value) -> bool {
        Ok(value == Value::None)
    }

    /// The value, or a default if it is absent.
    fn default_to(_, value: Value, otherwise: Value) -> Value {
        Ok(if value == Value::None { otherwise } else { value })
    } reversed |made, _| Some(made.clone());

    /// A Boolean encoded as 0 or 1.
    fn flag(_, encoded: i64) -> bool {
        Ok(encoded != 0)
    } reversed |made, _| made.int().map(Value::Int);

    /// The negation of a Boolean encoded as 0 or 1.
    fn negated_flag(_, encoded: i64) -> bool {
        Ok(encoded == 0)
    } reversed |made, _| made.int().map(|i| Value::Int(i64::from(i == 0)));

    /// The value whose key equals the first argument.
    fn lookup(_, value: Value, keys: &[Value], values: &[Value]) -> Value {
        let found = keys.iter().position(|key| *key == value).and_then(|i| values.get(i)).cloned();
        found.ok_or_else(|| {
            let known: Vec<_> = keys.iter().map(Value::to_string).collect();
            Error::unsupported(format!("the value {value} is not supported; use {}", known.join(", ")))
        })
    } reversed |made, args| {
        let (Some(Some(Value::List(keys))), Some(Some(Value::List(values)))) = (args.get(1), args.get(2)) else {
            return None;
        };
        values.iter().position(|v| v == made).and_then(|i| keys.get(i)).cloned()
    };

    /// The number of elements.
    fn length(_, list: &[Value]) -> i64 {
        Ok(list.len() as i64)
    }

    /// A list with n copies of the value.
    fn fill(_, value: Value, n: i64) -> Vec<Value> {
        let n = usize::try_from(n).ok().filter(|n| *n <= 64);
        Ok(vec![value; n.ok_or_else(|| Error::value("lists have 0 to 64 elements"))?])
    }

    /// A list with n copies of the value, without the limit of `fill`.
    fn fill_long(_, value: Value, n: i64) -> Vec<Value> {
        let n = usize::try_from(n).ok().filter(|n| *n <= 1 << 24);
        Ok(vec![value; n.ok_or_else(|| Error::value("the length is unknown or too large"))?])
    }

    /// The first n elements; -n leaves out the last n.
    fn first(_, list: &[Value], n: i64) -> Vec<Value> {
        Ok(list[..split_index(list, n)?].to_vec())
    }

    /// All but the first n elements; -n gives the last n.
    fn without_first(_, list: &[Value], n: i64) -> Vec<Value> {
        Ok(list[split_index(list, n)?..].to_vec())
    }

    /// One element, by its index from 0; negative indices count from the end.
    fn element(_, list: &[Value], n: i64) -> Value {
        let index = if n < 0 { n + list.len() as i64 } else { n };
        let found = usize::try_from(index).ok().and_then(|index| list.get(index)).cloned();
        found.ok_or_else(|| Error::value(format!("element {n} was requested from a list of {}", list.len())))
    }

    /// True if all elements equal a value.
    fn all_equal(_, list: &[Value], value: Value) -> bool {
        Ok(list.iter().all(|v| *v == value))
    }

    /// True if an element equals a value.
    fn contains(_, list: &[Value], value: Value) -> bool {
        Ok(list.contains(&value))
    }

    /// True if a list is absent or repeats a pattern.
    fn repeats(_, list: Value, pattern: &[Value]) -> bool {
        Ok(match list {
            Value::None => true,
            Value::List(items) => {
                items.len().is_multiple_of(pattern.len().max(1))
                    && items.iter().zip(pattern.iter().cycle()).all(|(x, p)| x == p)
            }
            _ => false,
        })
    }

    /// Replaces one value of a list by another.
    fn replaced(_, list: &[Value], old: Value, new: Value) -> Vec<Value> {
        Ok(list.iter().map(|v| if *v == old { new.clone() } else { v.clone() }).collect())
    }

    /// The integers from 0 to n - 1.
    fn range(_, n: i64) -> Vec<i64> {
        Ok((0..n.clamp(0, 64)).collect())
    }

    /// The elements in reverse order.
    fn reversed(_, list: &[Value]) -> Vec<Value> {
        Ok(list.iter().rev().cloned().collect())
    } reversed |made, _| match made {
        Value::List(items) => Some(Value::List(items.iter().rev().cloned().collect())),
        _ => None,
    };

    /// The product of integers, which may include unknown dimensions.
    fn product(s, list: SymInts) -> SymInt {
        s.builder().product(&list.0).map(SymInt).ok_or_else(|| Error::value("the product is too large"))
    }

    /// The maximum of integers.
    fn largest(_, list: Vec<i64>) -> i64 {
        list.into_iter().max().ok_or_else(|| Error::value("the list of numbers is empty"))
    }

    /// An axis that may count from the end, counted from the start.
    fn axis_from_start(_, axis: i64, rank: i64) -> i64 {
        match (-rank..rank).contains(&axis) {
            true => Ok(if axis < 0 { axis + rank } else { axis }),
            false => Err(Error::value(format!("axis {axis} is out of range for {rank} axes"))),
        }
    } reversed |made, _| Some(made.clone());

    /// Axes that may count from the end, counted from the start, ascending.
    fn axes_from_start(_, axes: Vec<i64>, rank: i64) -> Vec<i64> {
        if axes.iter().any(|x| !(-rank..rank).contains(x)) {
            return Err(Error::value(format!("{axes:?} are not axes of a tensor of {rank} dimensions")));
        }
        let mut axes: Vec<i64> = axes.into_iter().map(|x| if x < 0 { x + rank } else { x }).collect();
        axes.sort_unstable();
        match axes.windows(2).any(|w| w[0] == w[1]) {
            true => Err(Error::value("an axis is named twice")),
            false => Ok(axes),
        }
    }

    /// The axes that are not in a list.
    fn other_axes(_, axes: Vec<i64>, rank: i64) -> Vec<i64> {
        let rank = rank.clamp(0, 64);
        Ok((0..rank).filter(|x| !axes.contains(x) && !axes.contains(&(x - rank))).collect())
    }

    /// A list of ones, one per axis, with given sizes for some axes.
    fn axes_sizes(_, rank: i64, axes: Vec<i64>, sizes: Vec<i64>) -> Vec<i64> {
        let mut all = vec![1; rank.clamp(0, 64) as usize];
        for (axis, size) in axes.into_iter().zip(sizes) {
            let axis = ferromx_core::shape::Shape::axis(axis, all.len())?;
            all[axis] = size;
        }
        Ok(all)
    }

    /// The running sums of integers, without the last.
    fn sums(_, list: Vec<i64>) -> Vec<i64> {
        let mut sum = 0i64;
        let mut sums: Vec<i64> = Vec::new();
        for x in list {
            sum = sum.checked_add(x).ok_or_else(|| Error::value("the sum is too large"))?;
            sums.push(sum);
        }
        sums.pop();
        Ok(sums)
    }

    /// The start indices of sections of an axis: of given sizes, or a number of equal sections, of which the last may be smaller.
    fn split_points(_, size: SymInt, sizes: Option<Vec<i64>>, parts: i64) -> Vec<i64> {
        // If the length of the axis is unknown, the last section extends to its end, so that the sizes suffice.
        let size = match (&sizes, is_symbolic(size.0)) {
            (_, false) => size.0,
            (Some(sizes), true) => total(sizes)?,
            (None, true) => return Err(super::needs_shapes("a dimension is unknown")),
        };
        let sizes: Vec<i64> = match sizes {
            Some(sizes) => sizes,
            None if parts > 0 => {
                check_count("outputs", parts as usize)?;
                let each = size / parts + i64::from(size % parts != 0);
                (0..parts).map(|i| each.min(size - (each * i).min(size))).collect()
            }
            None => return Err(Error::value("an axis has at least one part")),
        };
        if sizes.iter().any(|x| *x < 0) || total(&sizes)? != size {
            return Err(Error::value(format!("parts of {sizes:?} do not add up to an axis of {size}")));
        }
        let begins = sizes.iter().scan(0, |at, n| {
            *at += n;
            Some(*at - n)
        });
        Ok(begins.collect())
    }

    /// Splits a size in these ratios.
    fn sizes_by_ratio(_, size: i64, ratios: Vec<i64>) -> Vec<i64> {
        let sum = ratios.iter().try_fold(0i64, |sum, r| sum.checked_add(*r).filter(|_| *r >= 0));
        match sum.filter(|sum| *sum > 0 && size % sum == 0) {
            Some(sum) => Ok(ratios.into_iter().map(|r| size / sum * r).collect()),
            None => Err(Error::value(format!("{size} cannot be divided in the ratios {ratios:?}"))),
        }
    }

    /// The name of the element type with this ONNX code.
    fn element_type(_, code: i64) -> DType {
        crate::onnx::element_type(code).dtype()
    } reversed |made, _| match made {
        Value::Text(name) => Some(Value::Int(crate::onnx::code_of(name.parse().ok()?).into())),
        _ => None,
    };

    /// The name of the element type with this ONNX code in the model, such as `uint16`, which int32 holds.
    fn coded_name(_, code: i64) -> &'static str {
        match crate::onnx::element_type(code) {
            ElementType::Widened(int) => Ok(int.name()),
            other => Ok(other.dtype()?.name()),
        }
    }

    /// The ONNX code of one of our element types.
    fn type_code(_, dtype: DType) -> i64 {
        Ok(crate::onnx::code_of(dtype).into())
    }

    /// Axes that may be given as a single number.
    fn axis_list(_, axes: Value) -> Value {
        match axes {
            Value::List(_) => Ok(axes),
            one => match one.int() {
                Some(axis) => Ok(vec![axis].into()),
                None => Err(Error::value(format!("the axes are a {}, not a number or a list", one.kind()))),
            },
        }
    }

    /// The target of a reshape in ONNX's encoding: -2 (copy) becomes 0, -5 (two axes in one) becomes -1 where it is the last.
    fn shape_written(_, newshape: Vec<i64>) -> Vec<i64> {
        let mut target = newshape;
        if target.last() == Some(&-5) && !target.contains(&-1) {
            target.pop();
            target.push(-1);
        }
        if target.iter().any(|x| *x < -2) {
            return Err(Error::unsupported(format!("the special values in {target:?} cannot be exported")));
        }
        Ok(target.into_iter().map(|x| if x == -2 { 0 } else { x }).collect())
    }

    /// The begins of slices, with defaults for absent ones.
    fn slice_begin(_, begin: &[Value], step: Value) -> Vec<i64> {
        let steps = slice_steps(&step, begin.len())?;
        let first = |(x, step): (&Value, &i64)| x.int().unwrap_or(if *step > 0 { 0 } else { i64::MAX });
        Ok(begin.iter().zip(&steps).map(first).collect())
    }

    /// The ends of slices, with defaults for absent ones.
    fn slice_end(_, end: &[Value], step: Value) -> Vec<i64> {
        let steps = slice_steps(&step, end.len())?;
        let last = |(x, step): (&Value, &i64)| x.int().unwrap_or(if *step > 0 { i64::MAX } else { i64::MIN });
        Ok(end.iter().zip(&steps).map(last).collect())
    }

    /// The steps of n slices; 1 if absent.
    fn slice_step(_, step: Value, n: i64) -> Vec<i64> {
        slice_steps(&step, n.clamp(0, 64) as usize)
    }

    /// Pairs of padding in ONNX's order: all beginnings, then all ends.
    fn pads_of(_, pairs: &[Value]) -> Vec<i64> {
        let pairs: Option<Vec<Vec<i64>>> = pairs.iter().map(Value::ints).collect();
        let pairs = pairs.filter(|p| p.iter().all(|p| p.len() == 2));
        let pairs = pairs.ok_or_else(|| Error::value("padding must have one pair per axis"))?;
        Ok(pairs.iter().map(|p| p[0]).chain(pairs.iter().map(|p| p[1])).collect())
    }

    /// Groups consecutive elements in pairs.
    fn in_pairs(_, list: &[Value]) -> Vec<Value> {
        Ok(list.chunks(2).map(|pair| Value::List(pair.to_vec())).collect())
    }

    /// The sizes of sections, from their begins or for a number of equal sections.
    fn split_sizes(_, begins: Vec<i64>, sections: i64, size: i64) -> Vec<i64> {
        if sections > 0 {
            return Ok(vec![size / sections; sections.clamp(1, 4096) as usize]);
        }
        let ends = begins.iter().skip(1).copied().chain([size]);
        Ok(begins.iter().zip(ends).map(|(b, e)| e - b).collect())
    }

    /// The elementwise sums of two lists of integers.
    fn plus(_, list: Vec<i64>, other: Vec<i64>) -> Vec<i64> {
        Ok(list.iter().zip(other).map(|(x, y)| x + y).collect())
    }

    /// The elementwise differences of two lists of integers.
    fn minus(_, list: Vec<i64>, other: Vec<i64>) -> Vec<i64> {
        Ok(list.iter().zip(other).map(|(x, y)| x - y).collect())
    }

    /// True if a number is negative.
    fn any_negative(_, list: &[Value]) -> bool {
        Ok(list.iter().any(|v| v.number().is_some_and(|x| x < 0.0)))
    }

    /// Subtracts the numbers of a list from the padding at the ends.
    fn less_at_end(_, pads: Vec<i64>, list: Vec<i64>) -> Vec<i64> {
        let mut pads = pads;
        let half = pads.len() / 2;
        pads[half..].iter_mut().zip(list).for_each(|(p, l)| *p -= l);
        Ok(pads)
    }

    /// The permutation that moves axes to other positions.
    fn moved_axes(_, rank: i64, source: Vec<i64>, destination: Vec<i64>) -> Vec<i64> {
        let from_start = |x: i64| if x < 0 { x + rank } else { x };
        let mut order: Vec<i64> = (0..rank).filter(|x| !source.iter().any(|s| from_start(*s) == *x)).collect();
        let sources = source.iter().map(|s| from_start(*s));
        let mut moves: Vec<(i64, i64)> = destination.iter().map(|d| from_start(*d)).zip(sources).collect();
        moves.sort_unstable();
        for (to, from) in moves {
            let at = usize::try_from(to).ok().filter(|at| *at <= order.len());
            let outside = || Error::value(format!("destination axis {to} is out of range for {rank} axes"));
            order.insert(at.ok_or_else(outside)?, from);
        }
        Ok(order)
    }

    /// The permutation that swaps two axes.
    fn swapped_axes(_, rank: i64, a: i64, b: i64) -> Vec<i64> {
        let axis = |x: i64| usize::try_from(if x < 0 { x + rank } else { x }).ok().filter(|x| *x < rank as usize);
        let mut order: Vec<i64> = (0..rank).collect();
        match (axis(a), axis(b)) {
            (Some(x), Some(y)) => order.swap(x, y),
            _ => return Err(Error::value(format!("an axis is out of range for {rank} axes"))),
        }
        Ok(order)
    }

    /// The numbers below size, each repeated a given number of times.
    fn repeated_indices(_, size: i64, repeats: i64) -> Vec<i64> {
        let count = size.checked_mul(repeats).filter(|n| (0..1 << 24).contains(n));
        count.ok_or_else(|| Error::value(format!("{size} indices cannot be repeated {repeats} times")))?;
        Ok((0..size).flat_map(|i| std::iter::repeat_n(i, repeats as usize)).collect())
    }

    /// Ends the mapping of the node with a message.
    fn refuse(_, text: &str) -> Value {
        Err(Error::unsupported(text))
    }

    /// A power of numbers.
    fn power_of(_, base: f64, exponent: f64) -> f64 {
        Ok(base.powf(exponent))
    }
}

/// The sum of the sizes of sections.
fn total(sizes: &[i64]) -> Result<i64> {
    (sizes.iter().try_fold(0i64, |sum, n| sum.checked_add(*n)))
        .ok_or_else(|| Error::value(format!("parts of {sizes:?} are larger than any axis")))
}

/// The steps of n slices; 1 if absent.
fn slice_steps(steps: &Value, n: usize) -> Result<Vec<i64>> {
    match steps {
        Value::List(items) if items.len() == n => Ok(items.iter().map(|v| v.int().unwrap_or(1)).collect()),
        Value::List(items) if items.is_empty() => Ok(vec![1; n]),
        other => Err(Error::value(format!("the steps {other} do not match {n} slices"))),
    }
}

/// The index at which `first(n)` and `without_first(n)` split a list. Negative n count from the end.
fn split_index(list: &[Value], n: i64) -> Result<usize> {
    let index = if n < 0 { n + list.len() as i64 } else { n };
    let index = usize::try_from(index).ok().filter(|index| *index <= list.len());
    index.ok_or_else(|| Error::value(format!("a list of {} has no {n} elements", list.len())))
}
