//! The command-line program: its output, the files it writes, and its exit codes.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A new folder for a test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn has(&self, name: &str) -> bool {
        self.0.path().join(name).exists()
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

fn ferromx(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_ferromx")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// A case of the recorded data.
fn case(file: &str, name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).find(|c| c["name"] == name).unwrap()
}

fn model(family: &str, name: &str) -> Vec<u8> {
    hex(case(&format!("onnx/data/{family}.jsonl"), name)["model"].as_str().unwrap())
}

/// A `.npy` file of float32.
fn npy(shape: &str, data: &[f32]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    header.push_str(&" ".repeat(117 - header.len()));
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    let data: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &data].concat()
}

fn elements(bytes: &[u8]) -> Vec<f32> {
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[start..].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

#[test]
fn a_wrong_command_line_ends_with_code_2() {
    for arguments in [
        &[][..],
        &["nonsense"],
        &["onnx"],
        &["onnx", "check"],
        &["onnx", "import", "a.onnx"],
        &["onnx", "export", "prefix", "first", "a.onnx"],
        &["onnx", "rules", "--two-way"],
        &["nnef", "export"],
        &["inspect"],
    ] {
        let (code, out, err) = ferromx(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains("--help"), "{arguments:?}: {err}");
    }
    let (code, out, _) = ferromx(&["--help"]);
    assert_eq!(code, 0);
    for part in ["onnx", "nnef", "inspect", "--progress", "Exit codes:"] {
        assert!(out.contains(part), "{out}");
    }
}

#[test]
fn models_are_checked() {
    let folder = Folder::new();
    folder.write("good.onnx", model("elementwise", "Abs"));
    let (code, out, err) = ferromx(&["onnx", "check", &folder.path("good.onnx")]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("all 1 nodes can be mapped") && out.contains("input   x0 float32 [2,3]"), "{out}");
    folder.write("bad.onnx", b"no model");
    let (code, out, err) = ferromx(&["onnx", "check", &folder.path("bad.onnx")]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.starts_with("ferromx: "), "{err}");
    let (code, _, err) = ferromx(&["onnx", "check", &folder.path("absent.onnx")]);
    assert!(code == 1 && err.contains("absent.onnx"), "{err}");
    // Everything that cannot be mapped is listed, with the nodes.
    let mut wrong = model("elementwise", "Abs");
    let at = wrong.windows(3).position(|w| w == b"Abs").unwrap();
    wrong[at..at + 3].copy_from_slice(b"Abz");
    folder.write("wrong.onnx", wrong);
    let (code, out, err) = ferromx(&["onnx", "check", &folder.path("wrong.onnx")]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("1 problem") && err.contains("Abz 'node'"), "{err}");
}

#[test]
fn models_are_imported_shown_and_exported() {
    let folder = Folder::new();
    folder.write("m.onnx", model("graphs", "Linear, bias first"));
    let (m, prefix, again) = (folder.path("m.onnx"), folder.path("m"), folder.path("again.onnx"));
    let (code, out, err) = ferromx(&["onnx", "import", &m, &prefix]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("m-symbol.json") && folder.has("m-symbol.json") && folder.has("m-0000.params"), "{out}");
    let (code, out, _) = ferromx(&["inspect", &format!("{prefix}-symbol.json")]);
    assert!(code == 0 && out.contains("FullyConnected"), "{out}");
    let (code, out, _) = ferromx(&["inspect", &format!("{prefix}-0000.params")]);
    assert!(code == 0 && out.contains("arg:") && out.contains("arrays,"), "{out}");
    let (code, out, err) = ferromx(&["onnx", "export", &prefix, "0", &again, "--opset", "17", "--progress"]);
    assert!(code == 0 && out.contains("again.onnx: "), "{out}{err}");
    assert!(err.contains("mapping") && err.contains("writing"), "progress was asked for: {err}");
    let (code, out, _) = ferromx(&["inspect", &again]);
    assert!(code == 0 && out.contains("operator set 'ai.onnx' of version 17") && out.contains("input "), "{out}");
    let (code, _, err) = ferromx(&["onnx", "export", &prefix, "0", &again, "--opset", "3"]);
    assert!(code == 1 && err.contains("version 3 of the operator set cannot be exported"), "{err}");
    let (code, _, err) = ferromx(&["onnx", "export", &prefix, "7", &again]);
    assert!(code == 1 && err.contains("m-0007.params"), "{err}");
    let (code, _, err) = ferromx(&["onnx", "import", &m, &prefix, "--shape", "nothing"]);
    assert!(code == 1 && err.contains("'nothing' is not the shape of an input"), "{err}");
    let (code, _, err) = ferromx(&["onnx", "import", &m, &prefix, "--shape", "q=1,2"]);
    assert!(code == 1 && err.contains("the model has no input 'q'"), "{err}");
    let (code, _, err) = ferromx(&["inspect", &folder.path("m.txt")]);
    assert!(code == 1 && err.contains(".params, .json and .onnx"), "{err}");
}

#[test]
fn processes_and_rules_are_listed() {
    for framework in ["onnx", "nnef"] {
        let (code, all, _) = ferromx(&[framework, "rules"]);
        assert!(code == 0 && all.contains("Rules:") && all.contains("window_pads("), "{framework}");
        let (code, one_way, _) = ferromx(&[framework, "rules", "--one-way"]);
        assert!(code == 0 && !one_way.contains("<->") && !one_way.contains("Rules:"), "{framework}");
        assert!(one_way.lines().count() < all.lines().count());
    }
}

#[test]
fn folders_of_models_are_run() {
    let folder = Folder::new();
    folder.write("a/model.onnx", model("elementwise", "Abs"));
    folder.write("a/input_0.npy", npy("(2, 3)", &[1.0, -2.0, 3.0, -4.0, 5.0, -6.0]));
    folder.write("b/model.onnx", model("elementwise", "Abs"));
    folder.write("b/input_0.npy", npy("(4,)", &[1.0, -2.0, 3.0, -4.0]));
    folder.write("c/model.onnx", model("elementwise", "Abs"));
    folder.write("d/readme.txt", "no model here");
    folder.write("b/output_0.npy", "what an earlier run left");
    let (code, out, err) = ferromx(&["onnx", "run", &folder.path("")]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "1 of 3 models ran\n", ""));
    assert_eq!(
        elements(&std::fs::read(folder.0.path().join("a/output_0.npy")).unwrap()),
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    );
    assert!(!folder.has("a/error.txt") && !folder.has("a/exported.onnx") && !folder.has("b/output_0.npy"));
    assert!(
        folder.text("b/error.txt").contains("has shape [2,3], but [4] was given"),
        "{}",
        folder.text("b/error.txt")
    );
    assert!(folder.text("c/error.txt").contains("input_0.npy"), "{}", folder.text("c/error.txt"));
    assert!(!folder.has("d/error.txt"));
    // With --export and --progress.
    let (code, _, err) = ferromx(&["--progress", "onnx", "run", &folder.path(""), "--export"]);
    assert!(code == 0 && folder.has("a/exported.onnx") && !folder.has("a/export_error.txt"));
    assert!(err.contains("1 of 3: ") && err.contains("3 of 3: "), "{err}");
    folder.write("e/model.onnx", std::fs::read(folder.0.path().join("a/exported.onnx")).unwrap());
    folder.write("e/input_0.npy", npy("(2, 3)", &[-1.0; 6]));
    let (code, out, _) = ferromx(&["onnx", "run", &folder.path("")]);
    assert_eq!((code, out.as_str()), (0, "2 of 4 models ran\n"));
    assert_eq!(elements(&std::fs::read(folder.0.path().join("e/output_0.npy")).unwrap()), [1.0; 6]);
    let (code, _, err) = ferromx(&["onnx", "run", &folder.path("d")]);
    assert!(code == 1 && err.contains("no folder in it has a model.onnx"), "{err}");
    let (code, _, err) = ferromx(&["onnx", "run", &folder.path("nowhere")]);
    assert!(code == 1 && err.contains("nowhere"), "{err}");
}

#[test]
fn models_whose_course_depends_on_data_run_but_are_not_exported() {
    let folder = Folder::new();
    folder.write("a/model.onnx", model("indexing", "Unique"));
    folder.write("a/input_0.npy", npy("(4,)", &[3.0, 1.0, 3.0, 2.0]));
    let (code, out, _) = ferromx(&["onnx", "run", &folder.path(""), "--export"]);
    assert_eq!((code, out.as_str()), (0, "1 of 1 models ran\n"));
    assert!(folder.has("a/output_0.npy") && !folder.has("a/exported.onnx"));
    assert!(folder.text("a/export_error.txt").contains("node by node"));
}

#[test]
fn models_of_nnef_are_checked_and_imported() {
    let folder = Folder::new();
    let conv = case("nnef/data/cases.jsonl", "conv");
    folder.write("m/graph.nnef", conv["text"].as_str().unwrap());
    for (label, bytes) in conv["files"].as_object().unwrap() {
        folder.write(&format!("m/{label}.dat"), hex(bytes.as_str().unwrap()));
    }
    let (code, out, err) = ferromx(&["nnef", "check", &folder.path("m")]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("all 1 nodes can be mapped") && out.contains("float32 [2,3,5,4]"), "{out}");
    let (code, _, err) = ferromx(&["nnef", "import", &folder.path("m/graph.nnef"), &folder.path("p")]);
    assert!(code == 0 && folder.has("p-symbol.json") && folder.has("p-0000.params"), "{err}");
    let (code, out, _) = ferromx(&["inspect", &folder.path("p-symbol.json")]);
    assert!(code == 0 && out.contains("Convolution '"), "{out}");
    folder.write("m/graph.nnef", conv["text"].as_str().unwrap().replace("conv(", "convolve("));
    let (code, _, err) = ferromx(&["nnef", "check", &folder.path("m")]);
    assert!(code == 1 && err.contains("convolve 'y'"), "{err}");
}
