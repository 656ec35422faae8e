//! The frameworks that models come from, each with its operator descriptors and its mapping files. The import is the same for all of them.

use std::sync::OnceLock;

use crate::error::Result;
use crate::ir::Framework;
use crate::mapping::Schema;

/// An embedded file: name and content.
type File = (&'static str, &'static str);

/// The embedded files of a framework.
struct Sources {
    /// Descriptors of operators, by domain.
    operators: &'static [(&'static str, File)],
    /// Mapping files, in the order in which their processes are tried.
    mappings: &'static [File],
    /// Binary operators whose inputs may be swapped.
    commutative: &'static [&'static str],
}

macro_rules! mapping {
    ($name:literal) => {
        ($name, include_str!(concat!("../../mappings/", $name)))
    };
}

macro_rules! operators {
    ($domain:literal, $name:literal) => {
        ($domain, ($name, include_str!(concat!("../../data/", $name))))
    };
}

/// ONNX with the operators of ONNX Runtime. A new mapping file must be listed here.
const ONNX: Sources = Sources {
    operators: &[
        operators!("", "runtime-operators.txt"),
        operators!("", "onnx-operators.txt"),
        operators!("com.microsoft", "microsoft-operators.txt"),
    ],
    mappings: &[
        mapping!("subgraphs.map"),
        mapping!("attention.map"),
        mapping!("control.map"),
        mapping!("elementwise.map"),
        mapping!("indexing.map"),
        mapping!("layers.map"),
        mapping!("shapes.map"),
        mapping!("images.map"),
        mapping!("sampling.map"),
        mapping!("signal.map"),
        mapping!("losses.map"),
        mapping!("mxnet.map"),
        mapping!("microsoft.map"),
        mapping!("quantized.map"),
        mapping!("recurrent.map"),
        mapping!("reductions.map"),
    ],
    commutative: &["Add", "Mul"],
};

const NNEF: Sources = Sources {
    operators: &[operators!("", "nnef-operators.txt")],
    mappings: &[mapping!("nnef.map")],
    commutative: &["add", "mul"],
};

impl Framework {
    fn sources(self) -> &'static Sources {
        match self {
            Framework::Onnx => &ONNX,
            Framework::Nnef => &NNEF,
        }
    }

    /// The operator descriptors of the framework.
    ///
    /// # Errors
    /// A mistake in a descriptor file; a test rules it out.
    pub fn schema(self) -> Result<&'static Schema> {
        static SCHEMAS: [OnceLock<Result<Schema>>; Framework::ALL.len()] = [const { OnceLock::new() }; 2];
        SCHEMAS[self as usize].get_or_init(|| Schema::read(self.sources().operators)).as_ref().map_err(Clone::clone)
    }

    /// The mapping files, by name and content, in the order in which their processes are tried.
    pub fn mappings(self) -> &'static [(&'static str, &'static str)] {
        self.sources().mappings
    }

    /// True if the two inputs of an operator may be swapped.
    pub fn is_commutative(self, op: &str) -> bool {
        self.sources().commutative.contains(&op)
    }
}
