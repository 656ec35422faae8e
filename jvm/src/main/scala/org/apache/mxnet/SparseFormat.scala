package org.apache.mxnet

/** Storage types of arrays. The identifiers are those of MXNet's C API. */
object SparseFormat extends Enumeration {
  type SparseFormat = Value

  /** All elements. */
  val DEFAULT: Value = Value(0, "default")

  /** The nonzero rows and their indices. */
  val ROW_SPARSE: Value = Value(1, "row_sparse")

  /** A matrix in compressed sparse row format. */
  val CSR: Value = Value(2, "csr")
}
