//! NNVM's graphs: symbols with attributes that passes read and write. Graphs are optimized when they are bound, so the only passes
//! here convert to and from JSON.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use ferromx_runtime::error::Error;
use ferromx_runtime::symbol::AnnotatedGraph;

use super::args::{id, text, texts};
use super::ret::{put_handle, put_optional_text};
use super::types::{GraphHandle, SymbolHandle};
use super::{guard, set_last_error};
use crate::handle::{self, Object, graph, insert, insert_symbol, symbol};

/// Sets the message that `NNGetLastError` returns on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn NNAPISetLastError(msg: *const c_char) {
    if let Ok(message) = text(msg, "msg") {
        set_last_error(&message);
    }
}

/// Creates a graph from a symbol; the caller frees it.
#[unsafe(no_mangle)]
pub extern "C" fn NNGraphCreate(symbol_handle: SymbolHandle, graph_out: *mut GraphHandle) -> c_int {
    guard(|| {
        let symbol = symbol(id(symbol_handle))?;
        put_handle(graph_out, || Ok(insert(Object::Graph(Arc::new(AnnotatedGraph::new(symbol))))))
    })
}

/// Frees a graph; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn NNGraphFree(graph_handle: GraphHandle) -> c_int {
    guard(|| handle::free(id(graph_handle), "Graph"))
}

/// Creates a symbol with the outputs of a graph.
#[unsafe(no_mangle)]
pub extern "C" fn NNGraphGetSymbol(graph_handle: GraphHandle, symbol_out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let graph = graph(id(graph_handle))?;
        put_handle(symbol_out, || Ok(insert_symbol(graph.symbol().clone())))
    })
}

/// Sets an attribute of a graph from JSON of the form `["TYPE", VALUE]`, of type `str`, `int`, `size_t`, `list_str`, `list_int` or
/// `list_shape`.
#[unsafe(no_mangle)]
pub extern "C" fn NNGraphSetJSONAttr(
    graph_handle: GraphHandle,
    key: *const c_char,
    json_value: *const c_char,
) -> c_int {
    guard(|| graph(id(graph_handle))?.set_json(&text(key, "key")?, &text(json_value, "json_value")?))
}

/// Returns an attribute of a graph as JSON, valid until the next call on this thread; `success` is 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn NNGraphGetJSONAttr(
    graph_handle: GraphHandle,
    key: *const c_char,
    json_out: *mut *const c_char,
    success: *mut c_int,
) -> c_int {
    guard(|| {
        let value = graph(id(graph_handle))?.json(&text(key, "key")?)?;
        put_optional_text("NNGraphGetJSONAttr", value.as_deref(), json_out, success)
    })
}

/// Sets an attribute of a graph to the outputs of a symbol.
#[unsafe(no_mangle)]
pub extern "C" fn NNGraphSetNodeEntryListAttr_(
    graph_handle: GraphHandle,
    key: *const c_char,
    list: SymbolHandle,
) -> c_int {
    guard(|| {
        symbol(id(list))?;
        graph(id(graph_handle))?.set_entries(&text(key, "key")?);
        Ok(())
    })
}

/// Creates a graph by applying passes in order: `SaveJSON` stores the graph in its attribute `json`, `LoadJSON` loads it from there.
#[unsafe(no_mangle)]
pub extern "C" fn NNGraphApplyPasses(
    src: GraphHandle,
    num_pass: u32,
    pass_names: *mut *const c_char,
    dst: *mut GraphHandle,
) -> c_int {
    guard(|| {
        let names = texts(pass_names, num_pass as usize, "pass_names")?;
        let result = graph(id(src))?.apply(&names)?;
        put_handle(dst, || Ok(insert(Object::Graph(Arc::new(result)))))
    })
}

/// Always an error: control dependencies are not supported. Nodes run after their inputs, in no other order.
#[unsafe(no_mangle)]
pub extern "C" fn NNAddControlDeps(symbol_handle: SymbolHandle, src_dep: SymbolHandle) -> c_int {
    guard(|| {
        symbol(id(symbol_handle))?;
        symbol(id(src_dep))?;
        Err(Error::Unsupported(
            "control dependencies are not supported: nodes run after their inputs; make the later node read an output of the earlier one"
                .into(),
        ))
    })
}
