//! What this build and this processor can do, as `LibInfo` and `MXLibInfoFeatures` list it.

/// Names of features, and whether they are there. The names of MXNet come first, so that programs that look for one find it.
pub fn all() -> Vec<(&'static str, bool)> {
    let absent = [
        "CUDA",
        "CUDNN",
        "NCCL",
        "CUDA_RTC",
        "TENSORRT",
        "OPENCV",
        "CAFFE",
        "PROFILER",
        "DIST_KVSTORE",
        "SSE",
        "MKLDNN",
        "OPENMP",
        "TVM_OP",
        "SIGNAL_HANDLER",
        "INT64_TENSOR_SIZE",
    ];
    let mut all: Vec<(&'static str, bool)> = absent.into_iter().map(|name| (name, false)).collect();
    for (name, on) in &mut all {
        *on = matches!(*name, "INT64_TENSOR_SIZE");
    }
    all.push(("CPU_AVX", has_avx()));
    all.push(("CPU_AVX2", has_avx2()));
    all.push(("CPU_AVX512", has_avx512()));
    all
}

#[cfg(target_arch = "x86_64")]
fn has_avx() -> bool {
    is_x86_feature_detected!("avx")
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
use {has_avx as has_avx2, has_avx as has_avx512};
