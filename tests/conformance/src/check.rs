//! Decides whether a runner's answer is MXNet's.

use std::collections::BTreeMap;

use crate::golden::{Case, Failure, GraphCase, InferCase, OpCase, Stored};
use crate::value::{Array, Tolerance};
use crate::{Inferred, Runner};

/// Carries out a case and compares.
///
/// # Errors
/// Says what is wrong with the answer.
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

fn all(case: &OpCase, what: &str, given: &BTreeMap<String, Array>, expected: &[Stored]) -> Result<(), String> {
    for e in expected {
        let g = given.get(&e.name).ok_or_else(|| format!("there is no {what} {}", e.name))?;
        compare(case, &format!("{what} {}", e.name), g, e)?;
    }
    match given.keys().find(|name| !expected.iter().any(|e| e.name == **name)) {
        Some(name) => Err(format!("{what} {name} was not expected")),
        None => Ok(()),
    }
}

fn compare(case: &OpCase, what: &str, given: &Array, expected: &Stored) -> Result<(), String> {
    let usual = Tolerance::of(expected.dtype);
    let tolerance = Tolerance { rtol: case.rtol.unwrap_or(usual.rtol), atol: case.atol.unwrap_or(usual.atol) };
    match expected.array() {
        Some(values) => given.expect(&values, tolerance),
        None => given.expect_form(expected.dtype, &expected.shape),
    }
    .map_err(|e| format!("{what}: {e}"))
}

/// Judges what an implementation did where MXNet refuses.
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
    let expected = Inferred { arg: texts(&case.arg), out: texts(&case.out), aux: texts(&case.aux) };
    same("inference", &answer?, &expected)
}

fn graph(runner: &dyn Runner, case: &GraphCase) -> Result<(), String> {
    let given = runner.graph(case)?;
    same("arguments", &given.arg_names, &case.arg_names)?;
    same("auxiliary states", &given.aux_names, &case.aux_names)?;
    same("outputs", &given.output_names, &case.output_names)?;
    same("internals", &given.internals, &case.internals)?;
    same("attributes", &given.attrs, &case.attr_dict)?;
    let [arg, out, aux] = &case.inferred;
    same("shapes", &given.shapes, &Inferred { arg: texts(arg), out: texts(out), aux: texts(aux) })?;
    let [arg, out, aux] = &case.inferred_types;
    same("types", &given.types, &Inferred { arg: texts(arg), out: texts(out), aux: texts(aux) })?;
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).map_err(|e| format!("json: {e}"));
    same("json", &parse(&given.json)?, &parse(&case.json)?)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, given: &T, expected: &T) -> Result<(), String> {
    if given == expected { Ok(()) } else { Err(format!("{what}: {given:?}, expected {expected:?}")) }
}

/// The entries of a recorded list as text: a shape as its JSON, a type by name, `?` for what is not known.
fn texts(list: &serde_json::Value) -> Vec<String> {
    let text = |v: &serde_json::Value| match v {
        serde_json::Value::String(name) => name.clone(),
        serde_json::Value::Null => "?".to_owned(),
        shape => shape.to_string(),
    };
    list.as_array().map(|entries| entries.iter().map(text).collect()).unwrap_or_default()
}
