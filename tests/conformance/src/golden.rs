//! Reads the golden files; `tests/oracle/README.md` describes their format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ferromx_core::dtype::DType;
use ferromx_core::op::Mode;
use serde::{Deserialize, Deserializer};

use crate::value::Array;

/// A case of any kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Case {
    /// One operator call.
    Op(Box<OpCase>),
    /// Inference without data.
    Infer(Box<InferCase>),
    /// A composed network.
    Graph(Box<GraphCase>),
}

impl Case {
    /// The name that identifies the case: family, operator, number.
    pub fn id(&self) -> &str {
        match self {
            Case::Op(c) => &c.id,
            Case::Infer(c) => &c.id,
            Case::Graph(c) => &c.id,
        }
    }

    /// The operator that the case calls; `None` for a network.
    pub fn op(&self) -> Option<&str> {
        match self {
            Case::Op(c) => Some(&c.op),
            Case::Infer(c) => Some(&c.op),
            Case::Graph(_) => None,
        }
    }
}

/// MXNet's error.
#[derive(Debug, Clone, Deserialize)]
pub struct Failure {
    /// `create`, `run`, `backward` or `infer`; or `refuse` if MXNet misbehaves and an implementation must reject the call.
    pub stage: String,
    /// MXNet's message.
    pub message: String,
    /// True if MXNet merely lacks a kernel, so that a value is accepted, too.
    #[serde(default)]
    pub limit: bool,
}

/// An array of a case.
#[derive(Debug, Clone, Deserialize)]
pub struct GoldenArray {
    /// Name of the input or output; empty for head gradients.
    #[serde(default)]
    pub name: String,
    #[serde(deserialize_with = "dtype")]
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Vec<i64>,
    /// Byte offset in the family's binary file; absent if values are not compared.
    pub at: Option<usize>,
    /// The elements, once [`load`] has read them.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

impl GoldenArray {
    /// The array with its values, if it has any.
    pub fn array(&self) -> Option<Array> {
        self.at.map(|_| Array { dtype: self.dtype, shape: self.shape.clone(), bytes: self.bytes.clone() })
    }

    pub(crate) fn fill(&mut self, blob: &[u8]) -> Result<(), String> {
        let Some(at) = self.at else { return Ok(()) };
        let elements = self.shape.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?));
        let end = elements.and_then(|n| n.checked_mul(self.dtype.size())).and_then(|n| n.checked_add(at));
        let bytes = end.and_then(|end| blob.get(at..end));
        self.bytes = bytes.ok_or_else(|| format!("array {:?} at {at} lies outside the file", self.shape))?.to_vec();
        Ok(())
    }
}

/// How gradients are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GradReq {
    /// Overwrites the array.
    Write,
    /// Adds to the array.
    Add,
}

/// One call of one operator.
#[derive(Debug, Clone, Deserialize)]
pub struct OpCase {
    /// See [`Case::id`].
    pub id: String,
    /// Registered name or alias.
    pub op: String,
    /// Parameters as text.
    pub attrs: BTreeMap<String, String>,
    /// All inputs in order, auxiliary states among them.
    pub inputs: Vec<GoldenArray>,
    /// Run in training mode.
    #[serde(default)]
    pub train: bool,
    /// NumPy shape semantics: zero-size and zero-dimensional arrays exist.
    #[serde(default)]
    pub np_shape: bool,
    /// True to call the operator on arrays instead of binding it.
    #[serde(default)]
    pub imperative: bool,
    /// Storage types of the inputs if any is sparse; the operator is then called on arrays.
    #[serde(default)]
    pub stypes: Vec<String>,
    /// Storage types of the outputs of such a call.
    #[serde(default)]
    pub out_stypes: Vec<String>,
    /// Storage types of the gradients of such a call, as `wrt` lists them.
    #[serde(default)]
    pub grad_stypes: Vec<String>,
    /// Whether the output of such a call is written to the first input.
    #[serde(default)]
    pub in_place: bool,
    /// The visible outputs.
    #[serde(default)]
    pub outputs: Vec<GoldenArray>,
    /// How gradients are requested; absent if none are.
    pub req: Option<GradReq>,
    /// Inputs whose gradients are requested. Auxiliary states among them have none.
    #[serde(default)]
    pub wrt: Vec<String>,
    /// Gradients of the outputs.
    #[serde(default)]
    pub head_grads: Vec<GoldenArray>,
    /// The previous contents of the gradient arrays.
    #[serde(default)]
    pub grads_before: Vec<GoldenArray>,
    /// The gradients.
    #[serde(default)]
    pub grads: Vec<GoldenArray>,
    /// States after the call.
    #[serde(default)]
    pub aux: Vec<GoldenArray>,
    /// Relative tolerance, if the default is too strict.
    pub rtol: Option<f64>,
    /// Absolute tolerance, if the default is too strict.
    pub atol: Option<f64>,
    /// Why the case exists.
    pub why: Option<String>,
    /// MXNet's error, if it rejects the call.
    pub error: Option<Failure>,
}

impl OpCase {
    /// The mode of the call.
    pub fn mode(&self) -> Mode {
        Mode::training_if(self.train)
    }

    fn arrays(&mut self) -> impl Iterator<Item = &mut GoldenArray> {
        (self.inputs.iter_mut())
            .chain(&mut self.outputs)
            .chain(&mut self.head_grads)
            .chain(&mut self.grads_before)
            .chain(&mut self.grads)
            .chain(&mut self.aux)
    }
}

/// Inference from known shapes or types.
#[derive(Debug, Clone, Deserialize)]
pub struct InferCase {
    /// See [`Case::id`].
    pub id: String,
    /// Registered name.
    pub op: String,
    /// Parameters as text.
    pub attrs: BTreeMap<String, String>,
    /// NumPy shape semantics: unknown dimensions are -1, not 0.
    #[serde(default)]
    pub np_shape: bool,
    /// Known shapes by argument.
    pub shapes: Option<BTreeMap<String, Vec<i64>>>,
    /// Known types by argument.
    pub types: Option<BTreeMap<String, String>>,
    /// Names of the arguments.
    #[serde(default)]
    pub arg_names: Vec<String>,
    /// Names of the auxiliary states.
    #[serde(default)]
    pub aux_names: Vec<String>,
    /// Names of the outputs.
    #[serde(default)]
    pub output_names: Vec<String>,
    /// Shapes or types of the arguments, as JSON.
    #[serde(default)]
    pub arg: serde_json::Value,
    /// Shapes or types of the outputs.
    #[serde(default)]
    pub out: serde_json::Value,
    /// Shapes or types of the auxiliary states.
    #[serde(default)]
    pub aux: serde_json::Value,
    /// The error, if the given shapes or types contradict each other.
    pub error: Option<Failure>,
}

impl InferCase {
    /// Compares the names of arguments, auxiliary states and outputs of a symbol named `op`, if the case has them.
    ///
    /// # Errors
    /// The difference.
    pub(crate) fn expect_names(&self, given: [Vec<String>; 3]) -> Result<(), String> {
        for (given, expected) in given.into_iter().zip([&self.arg_names, &self.aux_names, &self.output_names]) {
            let expected: Vec<String> = expected.iter().map(|name| format!("op_{name}")).collect();
            if given != expected && !expected.is_empty() {
                return Err(format!("the names are {given:?}, expected {expected:?}"));
            }
        }
        Ok(())
    }
}

/// A composed network.
#[derive(Debug, Clone, Deserialize)]
pub struct GraphCase {
    /// See [`Case::id`].
    pub id: String,
    /// The saved network.
    pub json: String,
    /// Names of the arguments.
    pub arg_names: Vec<String>,
    /// Names of the auxiliary states.
    pub aux_names: Vec<String>,
    /// Names of the outputs.
    pub output_names: Vec<String>,
    /// Names of the outputs of all nodes.
    pub internals: Vec<String>,
    /// Attributes by node and key.
    pub attr_dict: BTreeMap<String, BTreeMap<String, String>>,
    /// Known shapes by argument.
    pub shapes: BTreeMap<String, Vec<i64>>,
    /// Known types by argument.
    pub types: BTreeMap<String, String>,
    /// Shapes of arguments, outputs and states, as JSON.
    #[serde(default)]
    pub inferred: [serde_json::Value; 3],
    /// Types of arguments, outputs and states.
    #[serde(default)]
    pub inferred_types: [serde_json::Value; 3],
    /// MXNet's error, if shapes or types contradict each other.
    pub error: Option<Failure>,
}

fn dtype<'de, D: Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

/// The folder of the goldens in this repository.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../oracle/goldens")
}

/// The families that have goldens, sorted.
///
/// # Errors
/// The folder cannot be read.
pub fn families(folder: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let paths = entries.filter_map(|e| Some(e.ok()?.path()));
    let jsonl = paths.filter(|p| p.extension().is_some_and(|x| x == "jsonl"));
    let mut names: Vec<String> = jsonl.filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// Reads the cases of a family with their arrays.
///
/// # Errors
/// A file is missing, or a line does not have the expected format; the message names file and line.
pub fn load(folder: &Path, family: &str) -> Result<Vec<Case>, String> {
    let read = |suffix: &str| {
        let path = folder.join(format!("{family}.{suffix}"));
        std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    let blob = read("bin")?;
    let text = String::from_utf8(read("jsonl")?).map_err(|e| format!("{family}.jsonl: {e}"))?;
    let parse = |(number, line): (usize, &str)| {
        let at = |e: String| format!("{family}.jsonl line {}: {e}", number + 1);
        let mut case: Case = serde_json::from_str(line).map_err(|e| at(e.to_string()))?;
        if let Case::Op(c) = &mut case {
            c.arrays().try_for_each(|a| a.fill(&blob)).map_err(at)?;
        }
        Ok(case)
    };
    text.lines().enumerate().map(parse).collect()
}
