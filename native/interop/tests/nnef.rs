//! NNEF models, which go through the same import process as ONNX models, give the values that the interpreter of nnef-tools computed.
//! `tests/nnef/generate.py` recorded them.
#![allow(clippy::panic, clippy::unwrap_used)] // Tests may panic.

mod common;

use std::collections::HashMap;

use common::{array, difference, hex};
use ferromx_interop::export::{self, ExportOptions};
use ferromx_interop::import::{self, ImportOptions};
use ferromx_interop::nnef;
use ferromx_interop::onnx::{self, External};
use ferromx_interop::run::{self, Run};
use ferromx_interop::{Error, ir::Model};
use serde_json::Value;

fn cases() -> impl Iterator<Item = Value> {
    include_str!("../../../tests/nnef/data/cases.jsonl").lines().map(|line| serde_json::from_str(line).unwrap())
}

fn model(case: &Value) -> Result<Model, Error> {
    let text = case["text"].as_str().unwrap();
    nnef::read("graph.nnef", text, &|label| nnef::tensor(hex(case["files"][label].as_str().unwrap()).into()))
}

#[test]
fn models_give_the_interpreters_values() {
    let mut wrong = Vec::new();
    for case in cases() {
        let outputs: Vec<_> = case["outputs"].as_array().unwrap().iter().map(array).collect();
        let found = model(&case).and_then(|model| {
            let names = model.graph.inputs.iter().map(|i| i.name.clone());
            let inputs: HashMap<_, _> = names.zip(case["inputs"].as_array().unwrap().iter().map(array)).collect();
            let (made, how) = run::run(&model, inputs.clone())?;
            let Run::Graph(imported) = how else { return Ok(Some("it was executed node by node".into())) };
            if let Some(why) = difference(&made, &outputs) {
                return Ok(Some(why));
            }
            // An imported graph is an ordinary graph: it can be exported to ONNX.
            let params = imported.params();
            let options = ExportOptions {
                shapes: inputs.iter().map(|(n, a)| (n.clone(), a.shape().clone())).collect(),
                outputs: imported.outputs.clone(),
                ..ExportOptions::default()
            };
            let written = onnx::to_bytes(&export::export(&imported.symbol, &params, &options)?)?;
            let (again, _) = run::run(&onnx::read(written.into(), &External::refused())?, inputs)?;
            Ok(difference(&again, &outputs).map(|why| format!("as ONNX: {why}")))
        });
        let why = found.unwrap_or_else(|e| Some(e.to_string()));
        wrong.extend(why.map(|why| format!("{}: {why}", case["name"])));
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// The error message of reading or mapping a graph of these statements.
fn error(statements: &str) -> String {
    let text = format!("version 1.0;\ngraph g(x) -> (y)\n{{\nx = external<scalar>(shape = [2,3]);\n{statements}\n}}\n");
    let read = nnef::read("g.nnef", &text, &|label| Err(Error::format(format!("there is no '{label}'"))));
    let mapped = read.and_then(|m| import::import(&m, &ImportOptions::default()).map(|_| ()));
    mapped.expect_err("the model must be refused").to_string()
}

#[test]
fn everything_that_cannot_be_mapped_is_reported_at_once() {
    let text = error("a = swirl(x, turns = 3);\nb = copy_n(x, times = 2);\ny = relu(x, alpha = 1.0);");
    for part in [
        "3 problems",
        "swirl 'a': version 1 of the operator set of NNEF has no operator swirl",
        "copy_n 'b': there is no process for copy_n",
        "relu 'y': it has an attribute 'alpha', which relu does not have",
    ] {
        assert!(text.contains(part), "'{part}' is missing in: {text}");
    }
    let wide = error(
        "r = reshape(x, shape = [1, 1, 2, 3]);\ny = avg_pool(r, size = [1, 1, 2, 9223372036854775807], stride = [1, 1, 2, 2]);",
    );
    assert!(wide.contains("larger than any image"), "{wide}");
    assert!(error("y = relu(z);").contains("its input 'z' is neither"));
    assert!(error("y = max_pool(x, size = 3);").contains("its attribute size is a int instead of Ints"));
}

#[test]
fn malformed_graphs_are_errors_with_a_line() {
    // Errors begin with file, line and column.
    let starts = |statements: &str, with: &str| {
        let text = error(statements);
        let (line, message) = with.split_once(": ").unwrap();
        let (column, said) = text.strip_prefix(line).unwrap().split_once(": ").unwrap();
        assert!(column[1..].parse::<usize>().is_ok_and(|c| c > 0), "{text}");
        assert!(said.starts_with(message), "{text}");
    };
    starts("y = x + 1.0;", "g.nnef:5: '(' (a flat graph consists of operators, not of formulas) was expected, but '+'");
    starts("y = relu(x)", "g.nnef:6: ';' was expected");
    starts("v = variable<scalar>(shape = [1], label = 'w');\ny = add(x, v);", "g.nnef:5: there is no 'w'");
    starts("y = constant<scalar>(shape = [2], value = [1.0, 2.0, 3.0]);", "g.nnef:5: 3 values do not match the shape");
    starts("y = constant<scalar>(shape = [99999999999], value = [1.0]);", "g.nnef:5: a constant of shape");
    starts("y = concat([x, [x]], axis = 0);", "g.nnef:5: a list was given where a tensor was expected");
    let e = nnef::read("g.nnef", "version 2.0;", &|_| Err(Error::format(""))).unwrap_err().to_string();
    assert!(e.contains("only version 1.0"), "{e}");
}

#[test]
fn variables_are_read_from_the_models_folder_only() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir_all(folder.join("model/of")).unwrap();
    let case = cases().find(|c| c["name"] == "linear").unwrap();
    std::fs::write(folder.join("model/graph.nnef"), case["text"].as_str().unwrap()).unwrap();
    for (label, file) in case["files"].as_object().unwrap() {
        std::fs::write(folder.join(format!("model/{label}.dat")), hex(file.as_str().unwrap())).unwrap();
    }
    let model = nnef::load(&folder.join("model")).unwrap();
    let imported = import::import(&model, &ImportOptions::default()).unwrap();
    assert_eq!(imported.symbol.list_arguments(), ["x", "filter", "y/np_reshape"]);
    let outside = case["text"].as_str().unwrap().replace("of/bias", "../secret");
    std::fs::write(folder.join("model/graph.nnef"), outside).unwrap();
    std::fs::copy(folder.join("model/of/bias.dat"), folder.join("secret.dat")).unwrap();
    let e = nnef::load(&folder.join("model/graph.nnef")).unwrap_err().to_string();
    assert!(e.contains("'../secret.dat' is not a file in the directory"), "{e}");
    std::fs::write(folder.join("model/graph.quant"), "").unwrap();
    assert!(nnef::load(&folder.join("model")).unwrap_err().to_string().contains("without them"));
}
