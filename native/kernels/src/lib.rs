//! The computing kernels of FerroMX: slices in, slices out.
