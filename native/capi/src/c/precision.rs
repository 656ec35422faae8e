//! Quantization and mixed precision.

use std::collections::{HashMap, HashSet};
use std::ffi::{c_char, c_int};

use ferromx_runtime::arrays::dtype_of_code;
use ferromx_runtime::ensure;
use ferromx_runtime::error::Result;
use ferromx_runtime::low_precision::{AmpRules, ConditionalOp, Quantization};

use super::args::{get, id, slice, text, texts};
use super::guard;
use super::ret::{put_handle, put_texts};
use super::types::SymbolHandle;
use crate::handle::{insert_symbol, symbol};

fn names(list: *mut *const c_char, n: u32, what: &str) -> Result<HashSet<String>> {
    Ok(texts(list, n as usize, what)?.into_iter().collect())
}

/// Quantizes a symbol to 8-bit integers and lists the outputs whose ranges are to be calibrated; the list is valid until the next call on
/// this thread. Nodes and operators may be excluded; parameters that are quantized offline become variables. The mode is `full` or `smart`,
/// the quantized type `int8`, `uint8` or `auto`, the granularity `tensor-wise` or `channel-wise`.
#[unsafe(no_mangle)]
pub extern "C" fn MXQuantizeSymbol(
    sym_handle: SymbolHandle,
    ret_sym_handle: *mut SymbolHandle,
    dev_type: *const c_int,
    num_excluded_sym_names: u32,
    excluded_sym_names: *mut *const c_char,
    num_excluded_op_names: u32,
    excluded_op_names: *mut *const c_char,
    num_offline: u32,
    offline_params: *mut *const c_char,
    quantized_dtype: *const c_char,
    calib_quantize: bool,
    quantize_mode: *const c_char,
    quantize_granularity: *const c_char,
    out_num_calib_names: *mut u32,
    out_calib_names: *mut *mut *const c_char,
) -> c_int {
    guard(|| {
        check_quantization(dev_type, &text(quantized_dtype, "quantized_dtype")?, quantize_granularity)?;
        let rules = Quantization {
            excluded_nodes: names(excluded_sym_names, num_excluded_sym_names, "excluded_sym_names")?,
            excluded_ops: names(excluded_op_names, num_excluded_op_names, "excluded_op_names")?,
            offline_params: names(offline_params, num_offline, "offline_params")?,
            dtype: text(quantized_dtype, "quantized_dtype")?.into_owned(),
            mode: text(quantize_mode, "quantize_mode")?.parse()?,
            is_channel_wise: text(quantize_granularity, "quantize_granularity")? == "channel-wise",
        };
        let (quantized, calibrated) = symbol(id(sym_handle))?.quantized(&rules)?;
        let listed = if calib_quantize { calibrated.as_slice() } else { &[] };
        put_texts("MXQuantizeSymbol", listed, out_num_calib_names, out_calib_names)?;
        put_handle(ret_sym_handle, || Ok(insert_symbol(quantized)))
    })
}

fn check_quantization(dev_type: *const c_int, dtype: &str, granularity: *const c_char) -> Result<()> {
    ferromx_runtime::context::Context::from_codes(get(dev_type, "dev_type")?, 0)?;
    ensure!(matches!(dtype, "int8" | "uint8" | "auto"), "quantized_dtype is {dtype}: use int8, uint8 or auto");
    let granularity = text(granularity, "quantize_granularity")?;
    ensure!(
        matches!(&*granularity, "tensor-wise" | "channel-wise"),
        "quantize_granularity is {granularity}: use tensor-wise or channel-wise"
    );
    Ok(())
}

/// Sets calibrated ranges in a quantized symbol: the minimum and maximum of each output that `MXQuantizeSymbol` lists.
#[unsafe(no_mangle)]
pub extern "C" fn MXSetCalibTableToQuantizedSymbol(
    qsym_handle: SymbolHandle,
    num_layers: u32,
    layer_names: *mut *const c_char,
    low_quantiles: *const f32,
    high_quantiles: *const f32,
    ret_sym_handle: *mut SymbolHandle,
) -> c_int {
    guard(|| {
        let n = num_layers as usize;
        let (low, high) = (slice(low_quantiles, n, "low_quantiles")?, slice(high_quantiles, n, "high_quantiles")?);
        let ranges = low.iter().copied().zip(high.iter().copied());
        let table: HashMap<_, _> = texts(layer_names, n, "layer_names")?.into_iter().zip(ranges).collect();
        let calibrated = symbol(id(qsym_handle))?.calibrated(&table)?;
        put_handle(ret_sym_handle, || Ok(insert_symbol(calibrated)))
    })
}

/// Operators that run in float32 for some values of a parameter. The values of operator `i` are `values[starts[i]..starts[i + 1]]`.
struct Conditions {
    ops: *mut *const c_char,
    params: *mut *const c_char,
    values: *mut *const c_char,
    starts: *const c_int,
    num_starts: u32,
    num_ops: u32,
}

impl Conditions {
    fn read(&self) -> Result<Vec<ConditionalOp>> {
        let n = self.num_ops as usize;
        let starts = slice(self.starts, self.num_starts as usize, "ind_ptr")?;
        let is_ordered = starts.first().is_none_or(|s| *s >= 0) && starts.is_sorted();
        ensure!(starts.len() > n && is_ordered, "ind_ptr must be {} ascending numbers, but is {starts:?}", n + 1);
        let values = texts(self.values, starts[n] as usize, "conditional_param_vals")?;
        let (ops, params) =
            (texts(self.ops, n, "conditional_fp32_op_names")?, texts(self.params, n, "conditional_param_names")?);
        let values_of = |i: usize| values[starts[i] as usize..starts[i + 1] as usize].to_vec();
        let conditions = ops.into_iter().zip(params).enumerate();
        Ok(conditions.map(|(i, (op, param))| ConditionalOp { op, param, values: values_of(i) }).collect())
    }
}

/// Converts a symbol to mixed precision: some operators run in a 16-bit type, some in float32, some in the widest type of their inputs,
/// with casts between them. `arg_type_data` has the types of the variables `arg_names`. With `cast_optional_params`, parameters that are
/// read in the 16-bit type get that type as their attribute `__dtype__` instead of a cast. Conditional operator `i` runs in float32 if its
/// parameter has one of the values `ind_ptr[i] .. ind_ptr[i + 1]` of `conditional_param_vals`.
#[unsafe(no_mangle)]
pub extern "C" fn MXReducePrecisionSymbol(
    sym_handle: SymbolHandle,
    ret_sym_handle: *mut SymbolHandle,
    num_args: u32,
    arg_type_data: *const c_int,
    num_ind_ptr: u32,
    ind_ptr: *const c_int,
    target_dtype: *const c_int,
    cast_optional_params: c_int,
    num_target_dtype_op_names: u32,
    num_fp32_op_names: u32,
    num_widest_dtype_op_names: u32,
    num_conditional_fp32_op_names: u32,
    num_excluded_symbols: u32,
    num_model_params: u32,
    target_dtype_op_names: *mut *const c_char,
    fp32_op_names: *mut *const c_char,
    widest_dtype_op_names: *mut *const c_char,
    conditional_fp32_op_names: *mut *const c_char,
    excluded_symbols: *mut *const c_char,
    conditional_param_names: *mut *const c_char,
    conditional_param_vals: *mut *const c_char,
    model_param_names: *mut *const c_char,
    arg_names: *mut *const c_char,
) -> c_int {
    guard(|| {
        let conditions = Conditions {
            ops: conditional_fp32_op_names,
            params: conditional_param_names,
            values: conditional_param_vals,
            starts: ind_ptr,
            num_starts: num_ind_ptr,
            num_ops: num_conditional_fp32_op_names,
        };
        let types = slice(arg_type_data, num_args as usize, "arg_type_data")?.iter().map(|code| dtype_of_code(*code));
        let rules = AmpRules {
            target: dtype_of_code(get(target_dtype, "target_dtype")?)?,
            target_ops: names(target_dtype_op_names, num_target_dtype_op_names, "target_dtype_op_names")?,
            fp32_ops: names(fp32_op_names, num_fp32_op_names, "fp32_op_names")?,
            widest_ops: names(widest_dtype_op_names, num_widest_dtype_op_names, "widest_dtype_op_names")?,
            conditional: conditions.read()?,
            excluded: names(excluded_symbols, num_excluded_symbols, "excluded_symbols")?,
            model_params: names(model_param_names, num_model_params, "model_param_names")?,
            data: texts(arg_names, num_args as usize, "arg_names")?
                .into_iter()
                .zip(types.collect::<Result<Vec<_>>>()?)
                .collect(),
            cast_params: cast_optional_params != 0,
        };
        let reduced = symbol(id(sym_handle))?.reduced_precision(&rules)?;
        put_handle(ret_sym_handle, || Ok(insert_symbol(reduced)))
    })
}
