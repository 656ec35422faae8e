//! Compares names, arguments and type strings of all operators with those of MXNet 1.9.1.

use std::collections::HashMap;

use ferromx_core::op::OpDef;
use ferromx_ops::registry;
use serde_json::Value;

/// Metadata of an operator in MXNet 1.9.1.
struct Expected {
    alias_of: Option<String>,
    args: Vec<(String, String)>,
    key_var_num_args: String,
}

fn text(v: &Value) -> String {
    v.as_str().unwrap_or_default().to_string()
}

fn expected() -> HashMap<String, Expected> {
    let lines = include_str!("data/mxnet-1.9.1-ops.jsonl").lines();
    let parse = |line: &str| {
        let v: Value = serde_json::from_str(line).expect("a line of JSON");
        let args = v["args"].as_array().into_iter().flatten().map(|a| (text(&a[0]), text(&a[1]))).collect();
        let alias_of = v["alias_of"].as_str().map(str::to_string);
        (text(&v["name"]), Expected { alias_of, args, key_var_num_args: text(&v["key_var_num_args"]) })
    };
    lines.map(parse).collect()
}

/// The differences between the definition and MXNet's metadata, one per line.
fn differences(def: &OpDef, all: &HashMap<String, Expected>) -> Vec<String> {
    // ONNX operators that MXNet does not have, and the rounding that its fused 8-bit layers do inside.
    if def.name.starts_with("_onnx_") || def.name == "_contrib_fake_quantize" {
        return Vec::new();
    }
    let Some(want) = all.get(def.name) else { return vec![format!("{}: MXNet has no such operator", def.name)] };
    let mut out = Vec::new();
    let got: Vec<_> =
        def.arguments().into_iter().map(|(name, type_string, _)| (name.to_string(), type_string)).collect();
    if got != want.args {
        out.push(format!("{}: arguments {got:?}\n    MXNet: {:?}", def.name, want.args));
    }
    if def.key_var_num_args() != want.key_var_num_args {
        out.push(format!("{}: key_var_num_args {:?}", def.name, def.key_var_num_args()));
    }
    if let Some(main) = &want.alias_of {
        out.push(format!("{} is an alias of {main} in MXNet", def.name));
    }
    for alias in def.metadata.aliases {
        match all.get(*alias).and_then(|a| a.alias_of.as_deref()) {
            Some(main) if main == def.name => {}
            other => out.push(format!("{alias}: alias of {} here, of {other:?} in MXNet", def.name)),
        }
    }
    let missing = all
        .iter()
        .filter(|(name, e)| e.alias_of.as_deref() == Some(def.name) && !def.metadata.aliases.contains(&name.as_str()));
    out.extend(missing.map(|(name, _)| format!("{}: alias {name} is missing", def.name)));
    out
}

#[test]
fn metadata_equals_mxnets() {
    let all = expected();
    assert_eq!(all.len(), 902, "number of names in MXNet 1.9.1");
    let absent = all.keys().filter(|name| registry::find(name).is_err()).map(|name| format!("{name} is missing"));
    let found: Vec<_> = absent.chain(registry::all().flat_map(|def| differences(def, &all))).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
