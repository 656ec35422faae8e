//! Generates `docs/op-coverage.md` from the registry, the goldens and the list of known differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use ferromx_core::dtype::DType;
use ferromx_core::grad::Grad;
use ferromx_core::op::OpDef;
use ferromx_ops::registry;

use crate::evidence;
use crate::golden::{self, Case};
use crate::gradients::{self, Checked, NOT_DERIVATIVES};
use crate::statistics::DRAWS;
use crate::suite::Known;

const HEAD: &str = "\
# Operators and their tests

This page lists all operators, with their types, gradients and tests. `cargo run -p ferromx-conformance --bin coverage` generates it;
a test checks that it is up to date.

- **Types**: the element types of the inputs (of the outputs if there are no inputs) with which results are compared with MXNet 1.9.1.
- **Gradient**: *kernel* if a kernel computes it, *composed* if it is composed of operators and can be differentiated again, *zero* if the
  output does not depend on the inputs, *none* if requesting it is an error.
- **Differences**: the orders of the derivatives that are compared with finite differences in double precision, on the inputs of the
  goldens. If the gradient is not a derivative by design, this column describes it.
- **Goldens**: the number of cases recorded from MXNet 1.9.1. All agree, except those counted as documented, which `docs/differences.md`
  explains.
- **Other tests**: *statistics* compares random numbers with their distribution (`tests/conformance/tests/statistics.rs`). *ONNX* compares
  operators that MXNet lacks with ONNX's reference implementation (`native/interop/tests/conformance.rs`). If an operator has none of these
  and no goldens, the column names a test that calls it.

";

/// Path of the page.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/op-coverage.md")
}

/// The results of an operator's goldens.
#[derive(Default)]
struct Cases {
    all: usize,
    documented: usize,
    dtypes: BTreeSet<usize>,
}

/// The text of the page.
///
/// # Errors
/// The goldens or the known differences cannot be read.
pub fn page() -> Result<String, String> {
    let known = Known::of_repository()?;
    let cases = count(&known)?;
    let (derivatives, named) = (gradients::all()?, evidence::named()?);
    let mut defs: Vec<&OpDef> = registry::all().collect();
    defs.sort_by_key(|d| (d.name.starts_with('_'), d.name.to_lowercase()));
    let compared = defs.iter().filter(|d| cases.contains_key(d.name)).count();
    let mut out = HEAD.to_owned();
    let names = registry::names().len();
    let _ =
        writeln!(out, "{} operators under {names} names, {compared} of them compared with MXNet 1.9.1.\n", defs.len());
    out.push_str("| Operator | Aliases | Types | Gradient | Differences | Goldens | Other tests |\n|---|---|---|---|---|---|---|\n");
    let none = Cases::default();
    for def in defs {
        let cases = cases.get(def.name).unwrap_or(&none);
        let aliases: Vec<String> = def.metadata.aliases.iter().map(|a| format!("`{a}`")).collect();
        let dtypes: Vec<&str> = cases.dtypes.iter().map(|i| DType::ALL[*i].name()).collect();
        let goldens = match (cases.all, cases.documented) {
            (0, _) => "none".to_owned(),
            (all, 0) => all.to_string(),
            (all, documented) => format!("{all}, {documented} documented"),
        };
        let other = match (DRAWS.iter().any(|d| d.op == def.name), def.name.starts_with("_onnx_"), named.get(def.name))
        {
            (true, _, _) => "statistics".to_owned(),
            (false, true, None) => "ONNX".to_owned(),
            (false, _, Some(test)) if cases.all == 0 => format!("`{}` in `{}`", test.name, test.file),
            (false, false, None) if cases.all == 0 => return Err(format!("no test calls {}", def.name)),
            _ => String::new(),
        };
        let row = [
            format!("`{}`", def.name),
            aliases.join(", "),
            dtypes.join(", "),
            gradient(def).to_owned(),
            differences(def.name, derivatives.get(def.name)),
            goldens,
            other,
        ];
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
    Ok(out)
}

/// The results of an operator's gradient checks.
fn differences(name: &str, checked: Option<&Checked>) -> String {
    match (NOT_DERIVATIVES.iter().find(|(op, _)| *op == name), checked) {
        (Some((_, what)), _) => (*what).to_owned(),
        (None, Some(checked)) if checked.first > 0 && checked.second > 0 => "first, second".to_owned(),
        (None, Some(checked)) if checked.first > 0 => "first".to_owned(),
        _ => String::new(),
    }
}

/// The goldens by canonical operator name.
fn count(known: &Known) -> Result<BTreeMap<&'static str, Cases>, String> {
    let mut there = BTreeMap::<_, Cases>::new();
    for family in golden::families(&golden::folder())? {
        for case in golden::load(&golden::folder(), &family)? {
            let Some(op) = case.op() else { continue };
            let (_, def) = registry::find(op).map_err(|e| e.to_string())?;
            let cases = there.entry(def.name).or_default();
            cases.all += 1;
            cases.documented += usize::from(known.covers(case.id()));
            if let Case::Op(op) = &case {
                let answered = op.error.as_ref().is_none_or(|e| e.stage == "backward");
                let arrays = if op.inputs.is_empty() { &op.outputs } else { &op.inputs };
                let dtypes = arrays.iter().filter(|_| answered).map(|a| a.dtype);
                cases.dtypes.extend(dtypes.filter_map(|d| DType::ALL.iter().position(|a| *a == d)));
            }
        }
    }
    Ok(there)
}

fn gradient(def: &OpDef) -> &'static str {
    match def.gradient.rule {
        Grad::None => "none",
        Grad::Zero => "zero",
        Grad::Kernel(_, None) => "kernel",
        Grad::Kernel(_, Some(_)) => "kernel, composed",
        Grad::Compose(_) => "composed",
        Grad::By(_) => "kernel or composed",
    }
}
