//! Symbols: creation, composition, attributes, listings, subgraphs, files.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::symbol::{AtomicSymbol, Symbol};
use parking_lot::RwLock;

use super::args::{first_attrs, id, optional_text, pairs, put, raw, symbols, text, texts};
use super::guard;
use super::ret::{Ret, put_handle, put_optional_text, put_text, put_texts};
use super::types::{AtomicSymbolCreator, OpHandle, SymbolHandle};
use crate::handle::{self, Object, SymbolState, insert, insert_symbol, symbol, symbol_state};

fn create_atomic(
    op: *mut c_void,
    n: u32,
    keys: *mut *const c_char,
    values: *mut *const c_char,
    out: *mut SymbolHandle,
) -> Result<()> {
    let (name, _) = handle::operator_of(id(op))?;
    let atomic = AtomicSymbol::new(name, first_attrs(keys, values, n as usize)?)?;
    put_handle(out, || Ok(insert(Object::Symbol(Arc::new(RwLock::new(SymbolState::Atomic(atomic)))))))
}

/// Composes an operator with its inputs, or replaces the variables of a graph. Changes the symbol of the handle.
fn compose(
    handle: SymbolHandle,
    name: *const c_char,
    n: u32,
    keys: *mut *const c_char,
    inputs: *mut SymbolHandle,
) -> Result<()> {
    let keys = if keys.is_null() { None } else { Some(texts(keys, n as usize, "keys")?) };
    let inputs = symbols(inputs, n as usize, "args")?;
    let name = optional_text(name).unwrap_or_default();
    let state = symbol_state(id(handle))?;
    let mut state = state.write();
    let composed = match &*state {
        SymbolState::Atomic(atomic) => atomic.compose(&name, &inputs, keys.as_deref())?,
        SymbolState::Graph(graph) => {
            let composed = graph.substitute(&inputs, keys.as_deref())?;
            if name.is_empty() { composed } else { composed.renamed(&name)? }
        }
    };
    *state = SymbolState::Graph(composed);
    Ok(())
}

fn set_attr(
    handle: SymbolHandle,
    key: &str,
    value: &str,
    on_graph: fn(&Symbol, &str, &str) -> Result<()>,
) -> Result<()> {
    let state = symbol_state(id(handle))?;
    let mut state = state.write();
    match &mut *state {
        SymbolState::Atomic(atomic) => atomic.set_attr(key, value)?,
        SymbolState::Graph(graph) => on_graph(graph, key, value)?,
    }
    Ok(())
}

fn get_attr(
    function: &'static str,
    handle: SymbolHandle,
    key: *const c_char,
    out: *mut *const c_char,
    success: *mut c_int,
) -> Result<()> {
    let value = symbol(id(handle))?.attr(&text(key, "key")?);
    put_optional_text(function, value.as_deref(), out, success)
}

/// Returns a list of alternating keys and values. The size is the number of pairs.
fn put_attrs(
    function: &'static str,
    items: Vec<(String, String)>,
    size: *mut u32,
    out: *mut *mut *const c_char,
) -> Result<()> {
    let mut ret = Ret::new();
    put(size, items.len() as u32, "out_size")?;
    put(out, ret.texts(items.into_iter().flat_map(|(k, v)| [k, v])), "out")?;
    ret.keep(function);
    Ok(())
}

fn put_symbol(out: *mut SymbolHandle, new: impl FnOnce() -> Result<Symbol>) -> Result<()> {
    put_handle(out, || new().map(insert_symbol))
}

fn children(handle: SymbolHandle) -> Result<Symbol> {
    Ok(symbol(id(handle))?.children().unwrap_or_else(|| Symbol::group(&[])))
}

/// The variables that an option selects: 0 all, 1 arguments, 2 auxiliary states.
fn variables(handle: SymbolHandle, option: c_int) -> Result<Vec<Symbol>> {
    let is_selected = |is_aux: bool| match option {
        0 => Ok(true),
        1 => Ok(!is_aux),
        2 => Ok(is_aux),
        _ => {
            Err(Error::Value(format!("option {option} is unknown: use 0 (all), 1 (arguments) or 2 (auxiliary states)")))
        }
    };
    let mut symbols = Vec::new();
    for variable in symbol(id(handle))?.variables() {
        if is_selected(variable.is_aux)? {
            symbols.push(Symbol::of_variable(variable.node));
        }
    }
    Ok(symbols)
}

fn variable_names(handle: SymbolHandle, option: c_int) -> Result<Vec<String>> {
    Ok(variables(handle, option)?.iter().filter_map(|s| s.name().map(str::to_string)).collect())
}

fn new_handles(symbols: Vec<Symbol>) -> Vec<SymbolHandle> {
    symbols.into_iter().map(|s| raw(insert_symbol(s))).collect()
}

/// Creates a symbol of an operator without inputs, which `MXSymbolCompose` sets.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolCreateAtomicSymbol(
    creator: AtomicSymbolCreator,
    num_param: u32,
    keys: *mut *const c_char,
    vals: *mut *const c_char,
    out: *mut SymbolHandle,
) -> c_int {
    guard(|| create_atomic(creator, num_param, keys, vals, out))
}

/// Like `MXSymbolCreateAtomicSymbol`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolCreateAtomicSymbol(
    op: OpHandle,
    num_param: u32,
    keys: *mut *const c_char,
    vals: *mut *const c_char,
    out: *mut SymbolHandle,
) -> c_int {
    guard(|| create_atomic(op, num_param, keys, vals, out))
}

/// Creates a variable.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolCreateVariable(name: *const c_char, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let name = text(name, "name")?;
        put_symbol(out, || Ok(Symbol::variable(&name, Default::default())))
    })
}

/// Like `MXSymbolCreateVariable`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolCreateVariable(name: *const c_char, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let name = text(name, "name")?;
        put_symbol(out, || Ok(Symbol::variable(&name, Default::default())))
    })
}

/// Groups symbols to one with all their outputs in order.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolCreateGroup(
    num_symbols: u32,
    symbol_list: *mut SymbolHandle,
    out: *mut SymbolHandle,
) -> c_int {
    guard(|| {
        let all = symbols(symbol_list, num_symbols as usize, "symbols")?;
        put_symbol(out, || Ok(Symbol::group(&all)))
    })
}

/// Like `MXSymbolCreateGroup`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolCreateGroup(
    num_symbols: u32,
    symbol_list: *mut SymbolHandle,
    out: *mut SymbolHandle,
) -> c_int {
    guard(|| {
        let all = symbols(symbol_list, num_symbols as usize, "symbols")?;
        put_symbol(out, || Ok(Symbol::group(&all)))
    })
}

/// Loads a symbol from JSON.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolCreateFromJSON(json: *const c_char, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let json = text(json, "json")?;
        put_symbol(out, || Symbol::from_json(&json))
    })
}

/// Loads a symbol from a JSON file.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolCreateFromFile(fname: *const c_char, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let fname = text(fname, "fname")?;
        put_symbol(out, || Symbol::load(&fname))
    })
}

/// Saves a symbol as JSON, valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolSaveToJSON(handle: SymbolHandle, out_json: *mut *const c_char) -> c_int {
    guard(|| put_text("MXSymbolSaveToJSON", &symbol(id(handle))?.to_json(), out_json))
}

/// Saves a symbol to a JSON file.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolSaveToFile(handle: SymbolHandle, fname: *const c_char) -> c_int {
    guard(|| symbol(id(handle))?.save(&text(fname, "fname")?))
}

/// Frees a handle; null is ignored. Symbols and executors that use its nodes stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolFree(handle: SymbolHandle) -> c_int {
    guard(|| handle::free(id(handle), "Symbol"))
}

/// Like `MXSymbolFree`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolFree(handle: SymbolHandle) -> c_int {
    guard(|| handle::free(id(handle), "Symbol"))
}

/// Creates a deep copy, which shares no nodes.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolCopy(handle: SymbolHandle, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let source = symbol(id(handle))?;
        put_symbol(out, || Ok(source.deep_copy()))
    })
}

/// Like `MXSymbolCopy`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolCopy(handle: SymbolHandle, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let source = symbol(id(handle))?;
        put_symbol(out, || Ok(source.deep_copy()))
    })
}

/// Creates a second symbol with the same nodes.
#[unsafe(no_mangle)]
pub extern "C" fn MXShallowCopySymbol(src: SymbolHandle, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let source = symbol(id(src))?;
        put_symbol(out, || Ok(source))
    })
}

/// Returns a description of the graph, valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolPrint(handle: SymbolHandle, out_str: *mut *const c_char) -> c_int {
    guard(|| put_text("MXSymbolPrint", &symbol(id(handle))?.debug_string(), out_str))
}

/// Like `MXSymbolPrint`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolPrint(handle: SymbolHandle, out_str: *mut *const c_char) -> c_int {
    guard(|| put_text("NNSymbolPrint", &symbol(id(handle))?.debug_string(), out_str))
}

/// Returns the name of a symbol with a single node, valid until the next call on this thread; `success` is 0 for a group.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolGetName(handle: SymbolHandle, out: *mut *const c_char, success: *mut c_int) -> c_int {
    guard(|| put_optional_text("MXSymbolGetName", symbol(id(handle))?.name(), out, success))
}

/// Returns an attribute, valid until the next call on this thread; `success` is 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolGetAttr(
    handle: SymbolHandle,
    key: *const c_char,
    out: *mut *const c_char,
    success: *mut c_int,
) -> c_int {
    guard(|| get_attr("MXSymbolGetAttr", handle, key, out, success))
}

/// Like `MXSymbolGetAttr`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolGetAttr(
    handle: SymbolHandle,
    key: *const c_char,
    out: *mut *const c_char,
    success: *mut c_int,
) -> c_int {
    guard(|| get_attr("NNSymbolGetAttr", handle, key, out, success))
}

/// Sets an attribute of a symbol with a single node.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolSetAttr(handle: SymbolHandle, key: *const c_char, value: *const c_char) -> c_int {
    guard(|| set_attr(handle, &text(key, "key")?, &text(value, "value")?, Symbol::set_attr))
}

/// Sets several attributes of a symbol with a single node.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolSetAttrs(
    handle: SymbolHandle,
    num_param: u32,
    keys: *mut *const c_char,
    values: *mut *const c_char,
) -> c_int {
    guard(|| {
        pairs(keys, values, num_param as usize)?
            .iter()
            .try_for_each(|(k, v)| set_attr(handle, k, v, Symbol::set_node_attr))
    })
}

/// Lists the attributes of all nodes as alternating `node$key` and value; `out_size` counts pairs. Valid until the next call on this
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolListAttr(handle: SymbolHandle, out_size: *mut u32, out: *mut *mut *const c_char) -> c_int {
    guard(|| put_attrs("MXSymbolListAttr", symbol(id(handle))?.list_attr(), out_size, out))
}

/// Like `MXSymbolListAttr`, for the symbol's node only.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolListAttrShallow(
    handle: SymbolHandle,
    out_size: *mut u32,
    out: *mut *mut *const c_char,
) -> c_int {
    guard(|| put_attrs("MXSymbolListAttrShallow", symbol(id(handle))?.list_attr_shallow(), out_size, out))
}

/// Lists attributes: option 0 like `MXSymbolListAttr`, 1 like `MXSymbolListAttrShallow`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolListAttrs(
    handle: SymbolHandle,
    recursive_option: c_int,
    out_size: *mut u32,
    out: *mut *mut *const c_char,
) -> c_int {
    guard(|| {
        let s = symbol(id(handle))?;
        let items = if recursive_option == 0 { s.list_attr() } else { s.list_attr_shallow() };
        put_attrs("NNSymbolListAttrs", items, out_size, out)
    })
}

/// Lists the arguments in the order of binding. Valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolListArguments(
    handle: SymbolHandle,
    out_size: *mut u32,
    out_str_array: *mut *mut *const c_char,
) -> c_int {
    guard(|| put_texts("MXSymbolListArguments", &symbol(id(handle))?.list_arguments(), out_size, out_str_array))
}

/// Lists the outputs. Valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolListOutputs(
    handle: SymbolHandle,
    out_size: *mut u32,
    out_str_array: *mut *mut *const c_char,
) -> c_int {
    guard(|| put_texts("MXSymbolListOutputs", &symbol(id(handle))?.list_outputs(), out_size, out_str_array))
}

/// Like `MXSymbolListOutputs`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolListOutputNames(
    handle: SymbolHandle,
    out_size: *mut u32,
    out_str_array: *mut *mut *const c_char,
) -> c_int {
    guard(|| put_texts("NNSymbolListOutputNames", &symbol(id(handle))?.list_outputs(), out_size, out_str_array))
}

/// Lists the auxiliary states. Valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolListAuxiliaryStates(
    handle: SymbolHandle,
    out_size: *mut u32,
    out_str_array: *mut *mut *const c_char,
) -> c_int {
    guard(|| {
        put_texts("MXSymbolListAuxiliaryStates", &symbol(id(handle))?.list_auxiliary_states(), out_size, out_str_array)
    })
}

/// Lists the names of variables: option 0 all, 1 arguments, 2 auxiliary states. Valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolListInputNames(
    handle: SymbolHandle,
    option: c_int,
    out_size: *mut u32,
    out_str_array: *mut *mut *const c_char,
) -> c_int {
    guard(|| put_texts("NNSymbolListInputNames", &variable_names(handle, option)?, out_size, out_str_array))
}

/// Lists variables as new symbols, which the caller frees; options as in `NNSymbolListInputNames`. The list is valid until the
/// next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolListInputVariables(
    handle: SymbolHandle,
    option: c_int,
    out_size: *mut u32,
    out_sym_array: *mut *mut SymbolHandle,
) -> c_int {
    guard(|| {
        let symbols = variables(handle, option)?;
        let mut ret = Ret::new();
        put(out_size, symbols.len() as u32, "out_size")?;
        put(out_sym_array, std::ptr::null_mut(), "out_sym_array")?;
        put(out_sym_array, ret.list(new_handles(symbols)), "out_sym_array")?;
        ret.keep("NNSymbolListInputVariables");
        Ok(())
    })
}

/// Lists the variables of the graph as new symbols, which the caller frees. The list is valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolGetInputSymbols(
    handle: SymbolHandle,
    inputs: *mut *mut SymbolHandle,
    input_size: *mut c_int,
) -> c_int {
    guard(|| {
        let symbols = variables(handle, 0)?;
        let mut ret = Ret::new();
        put(input_size, symbols.len() as c_int, "input_size")?;
        put(inputs, std::ptr::null_mut(), "inputs")?;
        put(inputs, ret.list(new_handles(symbols)), "inputs")?;
        ret.keep("MXSymbolGetInputSymbols");
        Ok(())
    })
}

/// Creates a symbol with every output of every node.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolGetInternals(handle: SymbolHandle, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let s = symbol(id(handle))?;
        put_symbol(out, || Ok(s.internals()))
    })
}

/// Like `MXSymbolGetInternals`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolGetInternals(handle: SymbolHandle, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let s = symbol(id(handle))?;
        put_symbol(out, || Ok(s.internals()))
    })
}

/// Creates a symbol with the inputs of the output nodes; for a variable, it has no outputs.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolGetChildren(handle: SymbolHandle, out: *mut SymbolHandle) -> c_int {
    guard(|| put_symbol(out, || children(handle)))
}

/// Like `MXSymbolGetChildren`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolGetChildren(handle: SymbolHandle, out: *mut SymbolHandle) -> c_int {
    guard(|| put_symbol(out, || children(handle)))
}

/// Creates a symbol with one output.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolGetOutput(handle: SymbolHandle, index: u32, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let s = symbol(id(handle))?;
        put_symbol(out, || s.output(index as usize))
    })
}

/// Like `MXSymbolGetOutput`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolGetOutput(handle: SymbolHandle, index: u32, out: *mut SymbolHandle) -> c_int {
    guard(|| {
        let s = symbol(id(handle))?;
        put_symbol(out, || s.output(index as usize))
    })
}

/// Returns the number of outputs.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolGetNumOutputs(handle: SymbolHandle, output_count: *mut u32) -> c_int {
    guard(|| put(output_count, symbol(id(handle))?.num_outputs() as u32, "output_count"))
}

/// Like `MXSymbolGetNumOutputs`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolGetNumOutputs(handle: SymbolHandle, output_count: *mut u32) -> c_int {
    guard(|| put(output_count, symbol(id(handle))?.num_outputs() as u32, "output_count"))
}

/// Composes an operator with its inputs, by position if `keys` is null and by name otherwise; missing inputs become variables. If the
/// symbol already has inputs, replaces its variables. The symbol is changed in place; `name` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolCompose(
    handle: SymbolHandle,
    name: *const c_char,
    num_args: u32,
    keys: *mut *const c_char,
    args: *mut SymbolHandle,
) -> c_int {
    guard(|| compose(handle, name, num_args, keys, args))
}

/// Like `MXSymbolCompose`.
#[unsafe(no_mangle)]
pub extern "C" fn NNSymbolCompose(
    handle: SymbolHandle,
    name: *const c_char,
    num_args: u32,
    keys: *mut *const c_char,
    args: *mut SymbolHandle,
) -> c_int {
    guard(|| compose(handle, name, num_args, keys, args))
}

/// Reduces the symbol in place to the subgraph of its first output: the nodes with the same attribute `__subgraph_name__`. Outputs of other
/// operators become variables. Returns those outputs in the order of the variables, as new symbols, which the caller frees; the list is
/// valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolCutSubgraph(
    sym: SymbolHandle,
    inputs: *mut *mut SymbolHandle,
    input_size: *mut c_int,
) -> c_int {
    guard(|| {
        let state = symbol_state(id(sym))?;
        let (graph, cut) = symbol(id(sym))?.cut();
        let mut ret = Ret::new();
        put(input_size, cut.len() as c_int, "input_size")?;
        put(inputs, std::ptr::null_mut(), "inputs")?;
        *state.write() = SymbolState::Graph(graph);
        put(inputs, ret.list(new_handles(cut)), "inputs")?;
        ret.keep("MXSymbolCutSubgraph");
        Ok(())
    })
}

/// Always an error, as in MXNet: would create a symbol of the gradients, which executors and autograd compute instead.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolGrad(
    sym: SymbolHandle,
    num_wrt: u32,
    wrt: *mut *const c_char,
    out: *mut SymbolHandle,
) -> c_int {
    guard(|| {
        let _ = out;
        symbol(id(sym))?;
        let names = texts(wrt, num_wrt as usize, "wrt")?.join(", ");
        Err(Error::Unsupported(format!(
            "MXNet gives no symbol of the gradients of {names}: bind the symbol with arrays for its gradients and call backward"
        )))
    })
}

/// Creates a symbol of the same graph without the casts of mixed precision.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolRemoveAmpCast(sym_handle: SymbolHandle, ret_sym_handle: *mut SymbolHandle) -> c_int {
    guard(|| {
        let source = symbol(id(sym_handle))?;
        put_symbol(ret_sym_handle, || Ok(source.without_amp_casts()))
    })
}

/// Creates an operator without inputs from the operator and parameters of a symbol with a single node.
#[unsafe(no_mangle)]
pub extern "C" fn MXGenAtomicSymbolFromSymbol(sym_handle: SymbolHandle, ret_sym_handle: *mut SymbolHandle) -> c_int {
    guard(|| {
        let atomic = symbol(id(sym_handle))?.to_atomic()?;
        put_handle(ret_sym_handle, || Ok(insert(Object::Symbol(Arc::new(RwLock::new(SymbolState::Atomic(atomic)))))))
    })
}
