//! Compares a runner's answer with MXNet's.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::golden::{Case, Failure, GoldenArray, GraphCase, InferCase, OpCase};
use crate::value::{Array, Tolerance};
use crate::{Inferred, Runner};

/// Runs a case and compares the answer.
///
/// # Errors
/// The differences between an answer and the golden.
pub fn check(runner: &dyn Runner, case: &Case) -> Result<(), String> {
    match case {
        Case::Op(c) => op(runner, c),
        Case::Infer(c) => infer(runner, c),
        Case::Graph(c) => graph(runner, c),
    }
}

fn op(runner: &dyn Runner, case: &OpCase) -> Result<(), String> {
    let answer = runner.run(case);
    let backward = case.error.as_ref().is_some_and(|e| e.stage == "backward");
    if let Some(refusal) = case.error.as_ref().filter(|_| !backward) {
        return refused(refusal, answer.err());
    }
    let result = answer?;
    if result.storage_types != case.out_stypes {
        return Err(format!("storage types {:?}, expected {:?}", result.storage_types, case.out_stypes));
    }
    if result.outputs.len() != case.outputs.len() {
        return Err(format!("{} outputs, expected {}", result.outputs.len(), case.outputs.len()));
    }
    for (given, expected) in result.outputs.iter().zip(&case.outputs) {
        compare(case, &format!("output {}", expected.name), given, expected)?;
    }
    match (&case.error, &result.grads) {
        (Some(refusal), grads) => refused(refusal, grads.as_ref().err().cloned())?,
        (None, Err(message)) => return Err(format!("backward: {message}")),
        (None, Ok(grads)) => all(case, "gradient of", grads, &case.grads)?,
    }
    all(case, "state", &result.aux, &case.aux)
}

fn all(case: &OpCase, what: &str, given: &BTreeMap<String, Array>, expected: &[GoldenArray]) -> Result<(), String> {
    for e in expected {
        let g = given.get(&e.name).ok_or_else(|| format!("there is no {what} {}", e.name))?;
        compare(case, &format!("{what} {}", e.name), g, e)?;
    }
    match given.keys().find(|name| !expected.iter().any(|e| e.name == **name)) {
        Some(name) => Err(format!("{what} {name} was not expected")),
        None => Ok(()),
    }
}

fn compare(case: &OpCase, what: &str, given: &Array, expected: &GoldenArray) -> Result<(), String> {
    let usual = Tolerance::of(expected.dtype);
    let tolerance = Tolerance { rtol: case.rtol.unwrap_or(usual.rtol), atol: case.atol.unwrap_or(usual.atol) };
    match expected.array() {
        Some(values) => given.expect(&values, tolerance),
        None => given.expect_form(expected.dtype, &expected.shape),
    }
    .map_err(|e| format!("{what}: {e}"))
}

/// Checks the answer to a case that MXNet rejects.
fn refused(refusal: &Failure, error: Option<String>) -> Result<(), String> {
    match error {
        None if !refusal.limit => {
            Err(format!("succeeded, but must fail in {} as MXNet does: {}", refusal.stage, refusal.message))
        }
        _ => Ok(()),
    }
}

fn infer(runner: &dyn Runner, case: &InferCase) -> Result<(), String> {
    let answer = runner.infer(case);
    if let Some(refusal) = &case.error {
        return refused(refusal, answer.err());
    }
    knows("inference", &answer?, [&case.arg, &case.out, &case.aux], if case.np_shape { -1 } else { 0 })
}

fn graph(runner: &dyn Runner, case: &GraphCase) -> Result<(), String> {
    let answer = runner.graph(case);
    if let Some(refusal) = &case.error {
        return refused(refusal, answer.err());
    }
    let given = answer?;
    same("arguments", &given.arg_names, &case.arg_names)?;
    same("auxiliary states", &given.aux_names, &case.aux_names)?;
    same("outputs", &given.output_names, &case.output_names)?;
    same("internals", &given.internals, &case.internals)?;
    same("attributes", &given.attrs, &case.attr_dict)?;
    knows("shapes", &given.shapes, case.inferred.each_ref(), 0)?;
    knows("types", &given.types, case.inferred_types.each_ref(), 0)?;
    same("json", &network(&given.json)?, &network(&case.json)?)
}

/// A saved network without `node_row_ptr`, which counts hidden outputs of MXNet's kernels and has no readers.
///
/// # Errors
/// The text is not JSON.
pub fn network(json: &str) -> Result<Value, String> {
    let mut network: Value = serde_json::from_str(json).map_err(|e| format!("json: {e}"))?;
    if let Some(fields) = network.as_object_mut() {
        fields.shift_remove("node_row_ptr");
    }
    Ok(network)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, given: &T, expected: &T) -> Result<(), String> {
    if given == expected { Ok(()) } else { Err(format!("{what}: {given:?}, expected {expected:?}")) }
}

/// Checks that inference gave all that MXNet infers; it may give more. `unknown` marks an unknown dimension.
fn knows(what: &str, given: &Inferred, expected: [&Value; 3], unknown: i64) -> Result<(), String> {
    for (list, given, expected) in [
        ("arguments", &given.arg, expected[0]),
        ("outputs", &given.out, expected[1]),
        ("auxiliary states", &given.aux, expected[2]),
    ] {
        let expected = expected.as_array().map(Vec::as_slice).unwrap_or_default();
        let agree =
            given.len() == expected.len() && given.iter().zip(expected).all(|(g, e)| entry_agrees(g, e, unknown));
        if !agree {
            return Err(format!("{what} of {list}: {}, expected {}", given.join(" "), Value::from(expected)));
        }
    }
    Ok(())
}

fn entry_agrees(given: &str, expected: &Value, unknown: i64) -> bool {
    match expected {
        Value::Null => true,
        Value::String(name) => given == name,
        Value::Array(dims) if dims.is_empty() && unknown == 0 => true,
        Value::Array(dims) => {
            let given: Option<Vec<i64>> = serde_json::from_str(given).ok();
            given.is_some_and(|given| {
                given.len() == dims.len()
                    && given.iter().zip(dims).all(|(g, d)| d.as_i64().is_some_and(|d| d == *g || d == unknown))
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inference_may_know_more_but_not_less_or_otherwise() {
        let agree = |given: &str, expected: &str, unknown| {
            entry_agrees(given, &serde_json::from_str(expected).unwrap(), unknown)
        };
        assert!(agree("[2,3]", "[2,0]", 0) && agree("[2,3]", "[]", 0) && agree("float32", "null", 0));
        assert!(agree("[]", "[]", -1) && agree("[2,0]", "[2,0]", -1) && agree("[2,5]", "[2,-1]", -1));
        assert!(!agree("[2,0]", "[2,3]", 0) && !agree("[2]", "[2,0]", 0) && !agree("?", "[2,3]", -1));
        assert!(!agree("[2,5]", "[2,0]", -1) && !agree("float32", "\"float64\"", 0));
    }
}
