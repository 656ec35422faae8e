//! The page that says what every operator covers, `docs/op-coverage.md`, made of the registry, the goldens and the list of
//! known differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use ferromx_core::dtype::DType;
use ferromx_core::grad::Grad;
use ferromx_core::op::OpDef;
use ferromx_ops::registry;

use crate::golden::{self, Case};
use crate::suite::Known;

const HEAD: &str = "\
# Coverage of operators

Made by `cargo run -p ferromx-conformance --bin coverage`; a test compares it with the sources.

- **Gradient**: *kernel* is computed by code of its own, *composed* is made of other operators and can be differentiated again,
  *zero* does not depend on the inputs, *none* is an error when asked for.
- **Types**: the element types of the inputs (of the outputs where there are no inputs) with which MXNet 1.9.1's answer is compared.
- **Goldens**: cases recorded from MXNet 1.9.1. All of them agree but those counted as documented, which `docs/differences.md`
  explains. Operators without goldens draw random numbers or are tested in their own files.

";

/// Where the page is.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/op-coverage.md")
}

/// What the goldens say about an operator.
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
    let (cases, absent) = count(&known)?;
    let mut defs: Vec<&OpDef> = registry::all().collect();
    defs.sort_by_key(|d| (d.name.starts_with('_'), d.name.to_lowercase()));
    let compared = defs.iter().filter(|d| cases.contains_key(d.name)).count();
    let mut out = HEAD.to_owned();
    let names = registry::names().len();
    let _ =
        writeln!(out, "{} operators under {names} names, {compared} of them compared with MXNet 1.9.1.\n", defs.len());
    out.push_str("| Operator | Aliases | Types | Gradient | Goldens |\n|---|---|---|---|---|\n");
    let none = Cases::default();
    for def in defs {
        let cases = cases.get(def.name).unwrap_or(&none);
        let aliases: Vec<String> = def.aliases.iter().map(|a| format!("`{a}`")).collect();
        let dtypes: Vec<&str> = cases.dtypes.iter().map(|i| DType::ALL[*i].name()).collect();
        let goldens = match (cases.all, cases.documented) {
            (0, _) => "none".to_owned(),
            (all, 0) => all.to_string(),
            (all, documented) => format!("{all}, {documented} documented"),
        };
        let (name, aliases, dtypes) = (def.name, aliases.join(", "), dtypes.join(", "));
        let _ = writeln!(out, "| `{name}` | {aliases} | {dtypes} | {} | {goldens} |", gradient(def));
    }
    out.push_str("\n## Not there\n\nOperators of which there are goldens, but no implementation:\n\n");
    out.push_str("| Operator | Goldens | Why |\n|---|---|---|\n");
    for (name, reason) in known.absent() {
        let _ = writeln!(out, "| `{name}` | {} | {reason} |", absent.get(name).copied().unwrap_or(0));
    }
    Ok(out)
}

/// The goldens by the operator's own name, and the numbers of those of operators that are not there.
fn count(known: &Known) -> Result<(BTreeMap<&'static str, Cases>, BTreeMap<String, usize>), String> {
    let (mut there, mut absent) = (BTreeMap::<_, Cases>::new(), BTreeMap::new());
    for family in golden::families(&golden::folder())? {
        for case in golden::load(&golden::folder(), &family)? {
            let Some(op) = case.op() else { continue };
            let Ok((_, def)) = registry::find(op) else {
                *absent.entry(op.to_owned()).or_default() += 1;
                continue;
            };
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
    Ok((there, absent))
}

fn gradient(def: &OpDef) -> &'static str {
    match def.grad {
        Grad::None => "none",
        Grad::Zero => "zero",
        Grad::Kernel(_, None) => "kernel",
        Grad::Kernel(_, Some(_)) => "kernel, composed",
        Grad::Compose(_) => "composed",
        Grad::By(_) => "kernel or composed",
    }
}
