//! Reads the expected contents of files that MXNet wrote or upgraded: `tests/oracle/fixtures`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::golden::{Failure, GoldenArray};

/// The expected content of a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Fixture {
    /// A trained network with its predictions.
    Checkpoint(Box<Checkpoint>),
    /// A saved network with its parameters and predictions.
    Prediction(Box<Prediction>),
    /// A file of arrays.
    Params {
        /// `params/NAME`.
        id: String,
        /// File name.
        file: String,
        /// The arrays in the file.
        #[serde(default)]
        arrays: Vec<StoredParam>,
        /// Why the file is rejected.
        error: Option<Failure>,
    },
    /// A saved network.
    Symbol {
        /// `symbol/NAME`.
        id: String,
        /// File name.
        file: String,
        /// Names of the arguments.
        #[serde(default)]
        arg_names: Vec<String>,
        /// Names of the auxiliary states.
        #[serde(default)]
        aux_names: Vec<String>,
        /// Names of the outputs.
        #[serde(default)]
        output_names: Vec<String>,
        /// Attributes by node and key.
        #[serde(default)]
        attr_dict: BTreeMap<String, BTreeMap<String, String>>,
        /// The network, saved again by MXNet.
        #[serde(default)]
        json: String,
        /// Why the file is rejected.
        error: Option<Failure>,
    },
}

/// The trained network of the main job: `lenet-symbol.json`, `lenet-0030.params` and `lenet-0030-step.params`.
#[derive(Debug, Clone, Deserialize)]
pub struct Checkpoint {
    /// The test images as bytes, one channel of 8 x 8.
    pub images: GoldenArray,
    /// Their digits.
    pub labels: GoldenArray,
    /// The network's outputs for them.
    pub probabilities: GoldenArray,
    /// The batch of the additional training step.
    pub step_images: GoldenArray,
    /// Its digits.
    pub step_labels: GoldenArray,
    /// Test accuracies of several seeds; the first is the checkpoint's.
    pub accuracies: Vec<f64>,
    /// Their mean.
    pub mean: f64,
}

/// A network that was saved as `NETWORK-symbol.json` and `NETWORK-0000.params`.
#[derive(Debug, Clone, Deserialize)]
pub struct Prediction {
    /// `prediction/NETWORK`.
    pub id: String,
    /// The network's input `data`.
    pub data: GoldenArray,
    /// Its outputs.
    pub outputs: Vec<GoldenArray>,
    /// Absolute tolerance.
    pub atol: f64,
}

/// An array in a file.
#[derive(Debug, Clone, Deserialize)]
pub struct StoredParam {
    /// Its name; `None` in a list without names.
    pub name: Option<String>,
    /// `default`, `csr` or `row_sparse`.
    pub storage: String,
    /// Type name.
    pub dtype: String,
    /// Shape of the whole array.
    pub shape: Vec<i64>,
    /// The elements; only the stored ones of a sparse array.
    pub data: GoldenArray,
    /// Columns (csr) or rows (row_sparse) of the stored elements.
    pub indices: Option<GoldenArray>,
    /// Row pointers (csr).
    pub indptr: Option<GoldenArray>,
}

/// The folder of the fixtures in this repository.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../oracle/fixtures")
}

/// Reads the expectations with their arrays.
///
/// # Errors
/// A file is missing, or a line does not have the expected format.
pub fn load(folder: &Path) -> Result<Vec<Fixture>, String> {
    let read = |name: &str| std::fs::read(folder.join(name)).map_err(|e| format!("{name}: {e}"));
    let blob = read("expected.bin")?;
    let text = String::from_utf8(read("expected.jsonl")?).map_err(|e| e.to_string())?;
    let parse = |line: &str| {
        let mut fixture: Fixture = serde_json::from_str(line).map_err(|e| e.to_string())?;
        match &mut fixture {
            Fixture::Checkpoint(c) => {
                let arrays =
                    [&mut c.images, &mut c.labels, &mut c.probabilities, &mut c.step_images, &mut c.step_labels];
                arrays.into_iter().try_for_each(|a| a.fill(&blob))?;
            }
            Fixture::Prediction(p) => {
                std::iter::once(&mut p.data).chain(&mut p.outputs).try_for_each(|a| a.fill(&blob))?;
            }
            Fixture::Params { arrays, .. } => {
                let parts = |a: &'_ mut StoredParam| -> Result<(), String> {
                    [Some(&mut a.data), a.indices.as_mut(), a.indptr.as_mut()]
                        .into_iter()
                        .flatten()
                        .try_for_each(|stored| stored.fill(&blob))
                };
                arrays.iter_mut().try_for_each(parts)?;
            }
            Fixture::Symbol { .. } => {}
        }
        Ok(fixture)
    };
    text.lines().map(parse).collect()
}
