//! Rules for values other than tensors: presence, choices, lists of numbers.

use super::{Rule, int, ints, list, open_ints, text};
use crate::emit::{Scope, is_unknown};
use crate::error::{Error, Result};
use crate::ir::Value;

/// The sum of the sizes of sections.
fn total(sizes: &[i64]) -> Result<i64> {
    (sizes.iter().try_fold(0i64, |sum, n| sum.checked_add(*n)))
        .ok_or_else(|| Error::value(format!("parts of {sizes:?} are larger than any axis")))
}

pub(super) static RULES: &[Rule] = &[
    Rule::new("present", "(value) -> bool", "True if an input or attribute is present.", |_, a| {
        Ok(Value::Bool(a[0] != Value::None || matches!(a[0], Value::Graph(_))))
    }),
    Rule::new("absent", "(value) -> bool", "True if an input or attribute is absent.", |_, a| {
        Ok(Value::Bool(a[0] == Value::None))
    }),
    Rule::new("default_to", "(value, otherwise) -> value", "The value, or a default if it is absent.", |_, a| {
        Ok(if a[0] == Value::None { a[1].clone() } else { a[0].clone() })
    })
    .reversed(|made, _| Some(made.clone())),
    Rule::new("flag", "(int) -> bool", "A Boolean encoded as 0 or 1.", |_, a| Ok(Value::Bool(int(a, 0)? != 0)))
        .reversed(|made, _| made.int().map(Value::Int)),
    Rule::new("negated_flag", "(int) -> bool", "The negation of a Boolean encoded as 0 or 1.", |_, a| {
        Ok(Value::Bool(int(a, 0)? == 0))
    })
    .reversed(|made, _| made.int().map(|i| Value::Int(i64::from(i == 0)))),
    Rule::new("lookup", "(value, keys, values) -> value", "The value whose key equals the first argument.", lookup)
        .reversed(|made, args| {
            let (Some(Some(Value::List(keys))), Some(Some(Value::List(values)))) = (args.get(1), args.get(2)) else {
                return None;
            };
            values.iter().position(|v| v == made).and_then(|i| keys.get(i)).cloned()
        }),
    Rule::new("length", "(list) -> int", "The number of elements.", |_, a| Ok(Value::Int(list(a, 0)?.len() as i64))),
    Rule::new("fill", "(value, n) -> list", "A list with n copies of the value.", |_, a| {
        let n = usize::try_from(int(a, 1)?).ok().filter(|n| *n <= 64);
        let n = n.ok_or_else(|| Error::value("lists have 0 to 64 elements"))?;
        Ok(Value::List(vec![a[0].clone(); n]))
    }),
    Rule::new("first", "(list, n) -> list", "The first n elements; -n leaves out the last n.", |_, a| {
        let (items, n) = cut(a)?;
        Ok(Value::List(items[..n].to_vec()))
    }),
    Rule::new("without_first", "(list, n) -> list", "All but the first n elements; -n gives the last n.", |_, a| {
        let (items, n) = cut(a)?;
        Ok(Value::List(items[n..].to_vec()))
    }),
    Rule::new(
        "element",
        "(list, n) -> value",
        "One element, by its index from 0; negative indices count from the end.",
        |_, a| {
            let items = list(a, 0)?;
            let n = int(a, 1)?;
            let at = if n < 0 { n + items.len() as i64 } else { n };
            let found = usize::try_from(at).ok().and_then(|at| items.get(at)).cloned();
            found.ok_or_else(|| Error::value(format!("there is no element {n} in a list of {}", items.len())))
        },
    ),
    Rule::new("all_equal", "(list, value) -> bool", "True if all elements equal a value.", |_, a| {
        Ok(Value::Bool(list(a, 0)?.iter().all(|v| *v == a[1])))
    }),
    Rule::new("contains", "(list, value) -> bool", "True if an element equals a value.", |_, a| {
        Ok(Value::Bool(list(a, 0)?.contains(&a[1])))
    }),
    Rule::new("replaced", "(list, old, new) -> list", "Replaces one value of a list by another.", |_, a| {
        let item = |v: &Value| if *v == a[1] { a[2].clone() } else { v.clone() };
        Ok(Value::List(list(a, 0)?.iter().map(item).collect()))
    }),
    Rule::new("counting", "(n) -> list", "The integers from 0 to n - 1.", |_, a| {
        Ok((0..int(a, 0)?.clamp(0, 64)).collect::<Vec<_>>().into())
    }),
    Rule::new("backwards", "(list) -> list", "The elements in reverse order.", |_, a| {
        Ok(Value::List(list(a, 0)?.iter().rev().cloned().collect()))
    })
    .reversed(|made, _| {
        if let Value::List(items) = made { Some(Value::List(items.iter().rev().cloned().collect())) } else { None }
    }),
    Rule::new("product", "(list) -> int", "The product of integers, which may include unknown dimensions.", |s, a| {
        let all = s.builder().product(&open_ints(a, 0)?);
        all.map(Value::Int).ok_or_else(|| Error::value("the product is too large"))
    }),
    Rule::new(
        "axis_from_start",
        "(axis, rank) -> int",
        "An axis that may count from the end, counted from the start.",
        |_, a| {
            let (axis, rank) = (int(a, 0)?, int(a, 1)?);
            match (-rank..rank).contains(&axis) {
                true => Ok(Value::Int(if axis < 0 { axis + rank } else { axis })),
                false => Err(Error::value(format!("there is no axis {axis} among {rank}"))),
            }
        },
    )
    .reversed(|made, _| Some(made.clone())),
    Rule::new(
        "axes_from_start",
        "(axes, rank) -> list",
        "Axes that may count from the end, counted from the start, ascending.",
        |_, a| {
            let rank = int(a, 1)?;
            let mut axes = ints(a, 0)?;
            if axes.iter().any(|x| !(-rank..rank).contains(x)) {
                return Err(Error::value(format!("{axes:?} are no axes of a tensor of {rank} dimensions")));
            }
            axes.iter_mut().filter(|x| **x < 0).for_each(|x| *x += rank);
            axes.sort_unstable();
            match axes.windows(2).any(|w| w[0] == w[1]) {
                true => Err(Error::value("an axis is named twice")),
                false => Ok(axes.into()),
            }
        },
    ),
    Rule::new("sums", "(list) -> list", "The running sums of integers, without the last.", |_, a| {
        let mut sum = 0i64;
        let mut sums: Vec<i64> = Vec::new();
        for x in ints(a, 0)? {
            sum = sum.checked_add(x).ok_or_else(|| Error::value("the sum is too large"))?;
            sums.push(sum);
        }
        sums.pop();
        Ok(sums.into())
    }),
    Rule::new(
        "split_points",
        "(size, sizes, parts) -> list",
        "The begins of sections of an axis: of given sizes, or a number of equal sections, of which the last may be smaller.",
        |_, a| {
            // Given sizes do not need the length of the axis. If that is not known, the last section takes the rest.
            let is_open = a[1] != Value::None && a[0].int().is_some_and(is_unknown);
            let (size, parts) = (if is_open { total(&ints(a, 1)?)? } else { int(a, 0)? }, int(a, 2)?);
            let sizes = match &a[1] {
                Value::None if parts > 0 => {
                    let each = size / parts + i64::from(size % parts != 0);
                    (0..parts).map(|i| each.min(size - (each * i).min(size))).collect()
                }
                Value::None => return Err(Error::value("an axis has at least one part")),
                _ => ints(a, 1)?,
            };
            if sizes.iter().any(|x| *x < 0) || total(&sizes)? != size {
                return Err(Error::value(format!("parts of {sizes:?} do not make an axis of {size}")));
            }
            let begins = sizes.iter().scan(0, |at, n| {
                *at += n;
                Some(*at - n)
            });
            Ok(begins.collect::<Vec<_>>().into())
        },
    ),
    Rule::new("element_type", "(code) -> text", "The name of the element type with this ONNX code.", |_, a| {
        Ok(crate::onnx::element_type(int(a, 0)?).ours()?.name().into())
    })
    .reversed(|made, _| match made {
        Value::Text(name) => Some(Value::Int(crate::onnx::code_of(name.parse().ok()?).into())),
        _ => None,
    }),
    Rule::new("type_code", "(text) -> int", "The ONNX code of one of our element types.", |_, a| {
        let dtype: ferromx_core::dtype::DType = text(a, 0)?.parse().map_err(Error::Value)?;
        Ok(Value::Int(crate::onnx::code_of(dtype).into()))
    }),
    Rule::new("axis_list", "(axes) -> list", "Axes that may be given as a single number.", |_, a| match &a[0] {
        Value::List(_) => Ok(a[0].clone()),
        _ => Ok(vec![int(a, 0)?].into()),
    }),
    Rule::new(
        "shape_written",
        "(newshape) -> list",
        "The target of a reshape as ONNX writes it: -2 (copy) becomes 0, -5 (two axes in one) becomes -1 where it is the last.",
        |_, a| {
            let mut target = ints(a, 0)?;
            if target.last() == Some(&-5) && !target.contains(&-1) {
                target.pop();
                target.push(-1);
            }
            if target.iter().any(|x| *x < -2) {
                return Err(Error::unsupported(format!("the special numbers in {target:?} cannot be written")));
            }
            Ok(target.into_iter().map(|x| if x == -2 { 0 } else { x }).collect::<Vec<_>>().into())
        },
    ),
    Rule::new(
        "slice_begin",
        "(begin, step) -> list",
        "The begins of slices, with defaults for absent ones.",
        |_, a| {
            let steps = slice_steps(&a[1], list(a, 0)?.len())?;
            let first = |(x, step): (&Value, &i64)| x.int().unwrap_or(if *step > 0 { 0 } else { i64::MAX });
            Ok(list(a, 0)?.iter().zip(&steps).map(first).collect::<Vec<_>>().into())
        },
    ),
    Rule::new("slice_end", "(end, step) -> list", "The ends of slices, with defaults for absent ones.", |_, a| {
        let steps = slice_steps(&a[1], list(a, 0)?.len())?;
        let last = |(x, step): (&Value, &i64)| x.int().unwrap_or(if *step > 0 { i64::MAX } else { i64::MIN });
        Ok(list(a, 0)?.iter().zip(&steps).map(last).collect::<Vec<_>>().into())
    }),
    Rule::new("slice_step", "(step, n) -> list", "The steps of n slices; 1 if absent.", |_, a| {
        Ok(slice_steps(&a[0], int(a, 1)?.clamp(0, 64) as usize)?.into())
    }),
    Rule::new(
        "pads_of",
        "(pairs) -> list",
        "Pairs of padding as ONNX writes them: all beginnings, then all ends.",
        |_, a| {
            let pairs: Option<Vec<Vec<i64>>> = list(a, 0)?.iter().map(Value::ints).collect();
            let pairs = pairs
                .filter(|p| p.iter().all(|p| p.len() == 2))
                .ok_or_else(|| Error::value("padding is a pair for each axis"))?;
            Ok(pairs.iter().map(|p| p[0]).chain(pairs.iter().map(|p| p[1])).collect::<Vec<_>>().into())
        },
    ),
    Rule::new(
        "split_sizes",
        "(begins, sections, size) -> list",
        "The sizes of sections, from their begins or for a number of equal sections.",
        |_, a| {
            let (sections, size) = (int(a, 1)?, int(a, 2)?);
            if sections > 0 {
                return Ok(vec![size / sections; sections.clamp(1, 4096) as usize].into());
            }
            let begins = ints(a, 0)?;
            let ends = begins.iter().skip(1).copied().chain([size]);
            Ok(begins.iter().zip(ends).map(|(b, e)| e - b).collect::<Vec<_>>().into())
        },
    ),
    Rule::new("minus", "(list, list) -> list", "The elementwise differences of two lists of integers.", |_, a| {
        let (x, y) = (ints(a, 0)?, ints(a, 1)?);
        Ok(x.iter().zip(y).map(|(x, y)| x - y).collect::<Vec<_>>().into())
    }),
    Rule::new("any_negative", "(list) -> bool", "True if a number is negative.", |_, a| {
        Ok(Value::Bool(list(a, 0)?.iter().any(|v| v.number().is_some_and(|x| x < 0.0))))
    }),
    Rule::new(
        "less_at_end",
        "(pads, list) -> list",
        "Subtracts the numbers of a list from the padding at the ends.",
        |_, a| {
            let (mut pads, less) = (ints(a, 0)?, ints(a, 1)?);
            let half = pads.len() / 2;
            pads[half..].iter_mut().zip(less).for_each(|(p, l)| *p -= l);
            Ok(pads.into())
        },
    ),
    Rule::new(
        "moved_axes",
        "(rank, source, destination) -> list",
        "The permutation that moves axes to other positions.",
        |_, a| {
            let rank = int(a, 0)?;
            let from_start = |x: i64| if x < 0 { x + rank } else { x };
            let (source, destination) = (ints(a, 1)?, ints(a, 2)?);
            let mut order: Vec<i64> = (0..rank).filter(|x| !source.iter().any(|s| from_start(*s) == *x)).collect();
            let mut moves: Vec<(i64, i64)> =
                destination.iter().map(|d| from_start(*d)).zip(source.iter().map(|s| from_start(*s))).collect();
            moves.sort_unstable();
            for (to, from) in moves {
                let at = usize::try_from(to).ok().filter(|at| *at <= order.len());
                order.insert(
                    at.ok_or_else(|| Error::value(format!("destination axis {to} is out of range for {rank} axes")))?,
                    from,
                );
            }
            Ok(order.into())
        },
    ),
    Rule::new("swapped_axes", "(rank, a, b) -> list", "The permutation that swaps two axes.", |_, a| {
        let rank = int(a, 0)?;
        let axis = |x: i64| usize::try_from(if x < 0 { x + rank } else { x }).ok().filter(|x| *x < rank as usize);
        let mut order: Vec<i64> = (0..rank).collect();
        match (axis(int(a, 1)?), axis(int(a, 2)?)) {
            (Some(x), Some(y)) => order.swap(x, y),
            _ => return Err(Error::value(format!("there are no such axes among {rank}"))),
        }
        Ok(order.into())
    }),
    Rule::new("refuse", "(text) -> nothing", "Ends the mapping of the node with a message.", |_, a| {
        Err(Error::unsupported(text(a, 0)?))
    }),
    Rule::new("power_of", "(base, exponent) -> float", "A power of numbers.", |_, a| {
        match (a[0].number(), a[1].number()) {
            (Some(x), Some(y)) => Ok(Value::Float(x.powf(y))),
            _ => Err(Error::value("base and exponent are numbers")),
        }
    }),
];

/// The step of each of n slices.
fn slice_steps(steps: &Value, n: usize) -> Result<Vec<i64>> {
    match steps {
        Value::List(items) if items.len() == n => Ok(items.iter().map(|v| v.int().unwrap_or(1)).collect()),
        Value::List(items) if items.is_empty() => Ok(vec![1; n]),
        other => Err(Error::value(format!("{other} are no steps of {n} slices"))),
    }
}

fn cut(args: &[Value]) -> Result<(&[Value], usize)> {
    let items = list(args, 0)?;
    let n = int(args, 1)?;
    let at = if n < 0 { n + items.len() as i64 } else { n };
    let at = usize::try_from(at).ok().filter(|at| *at <= items.len());
    at.map(|at| (items, at)).ok_or_else(|| Error::value(format!("a list of {} has no {n} elements", items.len())))
}

fn lookup(_: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let (keys, values) = (list(args, 1)?, list(args, 2)?);
    match keys.iter().position(|k| *k == args[0]).and_then(|i| values.get(i)) {
        Some(value) => Ok(value.clone()),
        None => {
            let known: Vec<_> = keys.iter().map(|k| k.to_string()).collect();
            Err(Error::unsupported(format!("the value {} is not mapped; {} are", args[0], known.join(", "))))
        }
    }
}
