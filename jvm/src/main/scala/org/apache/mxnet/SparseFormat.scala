package org.apache.mxnet

/** How an array's elements are stored. The identifiers are the storage types of MXNet's C API. */
object SparseFormat extends Enumeration {
  type SparseFormat = Value

  /** Every element, row by row. */
  val DEFAULT: Value = Value(0, "default")

  /** The rows that are not zero, and their indices. */
  val ROW_SPARSE: Value = Value(1, "row_sparse")

  /** Compressed sparse rows of a matrix. */
  val CSR: Value = Value(2, "csr")
}
