package org.apache.mxnet.spark.internal

import org.apache.spark.sql.catalyst.expressions.XXH64

/** Seeds of the random numbers of a training. Several workers and trainings may run in one process, so each computation
  * has its own numbers, which depend only on what is computed.
  */
private[mxnet] object RandomStreams {

  /** For the forward and the backward pass of a shard. */
  def ofShard(seed: Long, epoch: Int, step: Long, shard: Int): Long = hash(seed, epoch.toLong, step, shard.toLong)

  /** For the update of a parameter. */
  def ofUpdate(seed: Long, epoch: Int, step: Long, parameter: Int): Long =
    // Shards are not negative.
    hash(seed, epoch.toLong, step, -1L - parameter)

  private def hash(seed: Long, numbers: Long*): Long =
    numbers.foldLeft(seed)((state, number) => XXH64.hashLong(number, state))
}
