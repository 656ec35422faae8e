package org.apache.mxnet

/** Imports NNEF models by the mapping processes that `ferromx nnef rules` lists. A model is a folder with `graph.nnef`
  * and a `.dat` file for each variable, which are read from that folder only, with or without `externalData`.
  */
object Nnef extends ModelFormat("NNEF")
