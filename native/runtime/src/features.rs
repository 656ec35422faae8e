//! Features of this build and processor for `MXLibInfoFeatures`.

/// Names of features and whether they are enabled. All names of MXNet are listed, because programs look them up.
pub fn all() -> Vec<(&'static str, bool)> {
    const ABSENT: [&str; 22] = [
        "CUDA",
        "CUDNN",
        "NCCL",
        "CUDA_RTC",
        "TENSORRT",
        "OPENMP",
        "SSE",
        "F16C",
        "JEMALLOC",
        "BLAS_OPEN",
        "BLAS_ATLAS",
        "BLAS_MKL",
        "BLAS_APPLE",
        "LAPACK",
        "MKLDNN",
        "OPENCV",
        "CAFFE",
        "CXX14",
        "SIGNAL_HANDLER",
        "DEBUG",
        "TVM_OP",
        // Sizes have 64 bits, but released packages do not list this feature, and with it Python cannot create bfloat16 arrays.
        "INT64_TENSOR_SIZE",
    ];
    let mut all: Vec<_> = ABSENT.into_iter().map(|name| (name, false)).collect();
    all.extend([("PROFILER", true), ("DIST_KVSTORE", true)]);
    all.extend(sse_features());
    all.extend([("CPU_AVX", has_avx()), ("CPU_AVX2", has_avx2()), ("CPU_AVX512", has_avx512())]);
    all
}

#[cfg(target_arch = "x86_64")]
fn sse_features() -> [(&'static str, bool); 6] {
    [
        ("CPU_SSE", is_x86_feature_detected!("sse")),
        ("CPU_SSE2", is_x86_feature_detected!("sse2")),
        ("CPU_SSE3", is_x86_feature_detected!("sse3")),
        ("CPU_SSE4_1", is_x86_feature_detected!("sse4.1")),
        ("CPU_SSE4_2", is_x86_feature_detected!("sse4.2")),
        ("CPU_SSE4A", is_x86_feature_detected!("sse4a")),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn sse_features() -> [(&'static str, bool); 6] {
    ["CPU_SSE", "CPU_SSE2", "CPU_SSE3", "CPU_SSE4_1", "CPU_SSE4_2", "CPU_SSE4A"].map(|name| (name, false))
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
