//! The runner that asks another process, such as a program on the JVM: one JSON object per line and case, and one per answer.
//!
//! A request has `kind` (`op`, `infer` or `graph`) and the fields of the case; arrays are MXNet's serialized form in hexadecimal digits.
//! An answer has the fields of `OpAnswer`, `InferAnswer` or `GraphAnswer`, or `error`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ferromx_core::file_format::{array_from_bytes, array_to_bytes};
use ferromx_core::semantics;
use ferromx_ops::sparse::cast::to_dense;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::engine::{from_engine, to_engine};
use crate::golden::{GoldenArray, GraphCase, InferCase, OpCase};
use crate::value::Array;
use crate::{GraphResult, Inferred, OpResult, Runner, by_node};

/// Runs cases in a child process.
pub struct Process {
    child: Child,
    pipes: RefCell<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Process {
    /// Starts a program.
    ///
    /// # Errors
    /// There is no program, or it cannot be started.
    pub fn start(command: &[String]) -> Result<Process, String> {
        let (program, arguments) = command.split_first().ok_or("the command is empty")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{program}: {e}"))?;
        let (input, output) = child.stdin.take().zip(child.stdout.take()).ok_or("the program has no pipes")?;
        Ok(Process { child, pipes: RefCell::new((input, BufReader::new(output))) })
    }

    fn ask<T: DeserializeOwned>(&self, np_shape: bool, request: &Value) -> Result<T, String> {
        semantics::set_numpy_shape(np_shape);
        let (input, output) = &mut *self.pipes.borrow_mut();
        let mut line = String::new();
        let asked =
            writeln!(input, "{request}").and_then(|()| input.flush()).and_then(|()| output.read_line(&mut line));
        if asked.map_err(|e| format!("the program has failed: {e}"))? == 0 {
            return Err("the program has ended".to_owned());
        }
        match serde_json::from_str(&line).map_err(|e| format!("{e} in the answer {line}"))? {
            Answer::Error { error } => Err(error),
            Answer::Result(result) => Ok(result),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process has no state to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer<T> {
    Error { error: String },
    Result(T),
}

#[derive(Deserialize)]
struct OpAnswer {
    outputs: Vec<Sent>,
    storage_types: Vec<String>,
    grads: BTreeMap<String, Sent>,
    /// The error of the backward pass.
    grads_error: Option<String>,
    aux: BTreeMap<String, Sent>,
}

#[derive(Deserialize)]
struct InferAnswer {
    /// Names of arguments, auxiliary states and outputs.
    names: [Vec<String>; 3],
    inferred: Inferred,
}

#[derive(Deserialize)]
struct GraphAnswer {
    arg_names: Vec<String>,
    aux_names: Vec<String>,
    output_names: Vec<String>,
    internals: Vec<String>,
    attrs: Vec<(String, String)>,
    json: String,
    shapes: Inferred,
    types: Inferred,
}

/// An array of an answer.
struct Sent(Array);

impl<'de> Deserialize<'de> for Sent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Sent, D::Error> {
        let digits = String::deserialize(from)?;
        received(&digits).map(Sent).map_err(serde::de::Error::custom)
    }
}

fn received(digits: &str) -> Result<Array, String> {
    let byte = |i| digits.get(i..i + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    let array = array_from_bytes(&bytes.ok_or("an array is not in hexadecimal digits")?).map_err(|e| e.to_string())?;
    Ok(from_engine(&to_dense(&array).map_err(|e| e.to_string())?))
}

fn sent(arrays: &[GoldenArray]) -> Result<Vec<Value>, String> {
    let send = |stored: &GoldenArray| {
        let bytes = array_to_bytes(&to_engine(stored)?.into())?;
        let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        Ok(json!({ "name": stored.name, "array": digits }))
    };
    arrays.iter().map(|a| send(a).map_err(|e: ferromx_core::error::Error| e.to_string())).collect()
}

fn arrays(sent: BTreeMap<String, Sent>) -> BTreeMap<String, Array> {
    sent.into_iter().map(|(name, array)| (name, array.0)).collect()
}

impl Runner for Process {
    fn run(&self, case: &OpCase) -> Result<OpResult, String> {
        semantics::set_numpy_shape(case.np_shape);
        let wrt = if case.req.is_some() || !case.grad_stypes.is_empty() { &case.wrt[..] } else { &[] };
        let request = json!({
            "kind": "op", "op": case.op, "attrs": case.attrs, "train": case.train, "np_shape": case.np_shape,
            "bound": case.stypes.is_empty() && !case.imperative, "in_place": case.in_place,
            "inputs": sent(&case.inputs)?, "stypes": case.stypes,
            "req": case.req.map(|r| format!("{r:?}").to_lowercase()),
            "wrt": wrt, "grad_stypes": case.grad_stypes,
            "head_grads": sent(&case.head_grads)?, "grads_before": sent(&case.grads_before)?,
            "aux": case.aux.iter().map(|a| &a.name).collect::<Vec<_>>(),
        });
        let answer: OpAnswer = self.ask(case.np_shape, &request)?;
        Ok(OpResult {
            outputs: answer.outputs.into_iter().map(|a| a.0).collect(),
            storage_types: answer.storage_types,
            grads: answer.grads_error.map_or(Ok(arrays(answer.grads)), Err),
            aux: arrays(answer.aux),
        })
    }

    fn infer(&self, case: &InferCase) -> Result<Inferred, String> {
        let request = json!({
            "kind": "infer", "op": case.op, "attrs": case.attrs, "np_shape": case.np_shape,
            "shapes": case.shapes, "types": case.types,
        });
        let answer: InferAnswer = self.ask(case.np_shape, &request)?;
        case.expect_names(answer.names)?;
        Ok(answer.inferred)
    }

    fn graph(&self, case: &GraphCase) -> Result<GraphResult, String> {
        let request = json!({
            "kind": "graph", "json": case.json, "np_shape": false, "shapes": case.shapes, "types": case.types,
        });
        let answer: GraphAnswer = self.ask(false, &request)?;
        Ok(GraphResult {
            arg_names: answer.arg_names,
            aux_names: answer.aux_names,
            output_names: answer.output_names,
            internals: answer.internals,
            attrs: by_node(answer.attrs),
            json: answer.json,
            shapes: answer.shapes,
            types: answer.types,
        })
    }
}
