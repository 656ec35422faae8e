package org.apache.mxnet.module
package internal

import java.io.{BufferedInputStream, DataInputStream, DataOutputStream, EOFException}
import java.nio.file.{Files, Paths}
import java.util.zip.{CRC32, CheckedInputStream, CheckedOutputStream}

import org.apache.mxnet.Callback.EpochRecord
import org.apache.mxnet._
import org.apache.mxnet.internal.userop.OpProperties
import org.apache.mxnet.internal.util.{AtomicFile, Blocks, FieldState}

import scala.util.Using

/** The state of training between two epochs, which determines the bits of all later epochs.
  *
  * @param epoch number of the next epoch
  * @param random state of the random numbers
  * @param trainData position of the training data
  * @param evalData position of the validation data, if there are any
  * @param history metrics of the epochs so far
  * @param callbacks class and state of each callback
  */
private[mxnet] final case class TrainingCheckpoint(
    epoch: Int,
    params: Model.Params,
    optimizer: OptimizerCheckpoint,
    random: Array[Long],
    trainData: Array[Byte],
    evalData: Option[Array[Byte]],
    history: IndexedSeq[EpochRecord],
    callbacks: IndexedSeq[(String, Array[Byte])]
) {

  /** Sets the parameters of a module. */
  def restoreParams(module: BaseModule): Unit = module.setParams(params.args, params.aux)

  /** Replaces a file by this state. */
  def write(file: String): Unit = AtomicFile.write(file) { stream =>
    val checked = new CheckedOutputStream(stream, new CRC32)
    val out = new DataOutputStream(checked)
    out.writeInt(TrainingCheckpoint.Magic)
    out.writeInt(TrainingCheckpoint.Version)
    out.writeInt(epoch)
    params.write(out)
    optimizer.write(out)
    Blocks.writeAll(out, random)(out.writeLong)
    Blocks.write(out, trainData)
    Blocks.writeAll(out, evalData)(Blocks.write(out, _))
    Blocks.writeAll(out, history)(TrainingCheckpoint.writeRecord(out, _))
    Blocks.writeAll(out, callbacks) { case (name, state) =>
      Blocks.writeText(out, name)
      Blocks.write(out, state)
    }
    out.writeLong(checked.getChecksum.getValue)
    out.flush()
  }
}

private[mxnet] object TrainingCheckpoint {

  /** First four bytes of a file: "FMTC". */
  private val Magic = 0x464d5443
  private val Version = 1

  /** The state to continue from; None to start from the beginning. */
  def toResume(params: FitParams, resume: Boolean): Option[TrainingCheckpoint] =
    if (!resume) None
    else {
      val file = params.checkpoint.getOrElse {
        throw new IllegalArgumentException("resume is set, but no checkpoint file: set it with FitParams.setCheckpoint")
      }
      if (Files.exists(Paths.get(file))) Some(read(file)) else None
    }

  /** Reads what [[TrainingCheckpoint.write]] wrote. */
  def read(file: String): TrainingCheckpoint =
    try
      Using.resource(Files.newInputStream(Paths.get(file))) { stream =>
        verify(file)
        parse(file, new DataInputStream(new BufferedInputStream(stream)))
      }
    catch { case _: EOFException => throw new MXNetError(s"$file ends too early: the checkpoint is incomplete") }

  /** Checks the checksum at the end of a file before its content is parsed. */
  private def verify(file: String): Unit = {
    val length = Files.size(Paths.get(file))
    Using.resource(new BufferedInputStream(Files.newInputStream(Paths.get(file)))) { stream =>
      val checked = new CheckedInputStream(stream, new CRC32)
      val buffer = new Array[Byte](1 << 16)
      var left = length - java.lang.Long.BYTES
      while (left > 0) {
        val count = checked.read(buffer, 0, math.min(left, buffer.length.toLong).toInt)
        if (count < 0) throw new EOFException()
        left -= count
      }
      val sum = checked.getChecksum.getValue
      if (left < 0 || new DataInputStream(stream).readLong() != sum)
        throw new MXNetError(s"$file is not a training checkpoint, or it is damaged: its checksum is wrong")
    }
  }

  private def parse(file: String, in: DataInputStream): TrainingCheckpoint = {
    if (in.readInt() != Magic) throw new MXNetError(s"$file is not a training checkpoint")
    val version = in.readInt()
    if (version != Version)
      throw new MXNetError(s"$file is a checkpoint of version $version; this library reads version $Version")
    TrainingCheckpoint(
      in.readInt(),
      Model.Params.read(in),
      OptimizerCheckpoint.read(in),
      Blocks.readAll(in)(in.readLong()).toArray,
      Blocks.read(in),
      Blocks.readAll(in)(Blocks.read(in)).headOption,
      Blocks.readAll(in)(readRecord(in)),
      Blocks.readAll(in)(Blocks.readText(in) -> Blocks.read(in))
    )
  }

  private def writeRecord(out: DataOutputStream, record: EpochRecord): Unit = {
    out.writeInt(record.epoch)
    Seq(record.train, record.validation).foreach { metrics =>
      Blocks.writeAll(out, metrics) { case (name, value) =>
        Blocks.writeText(out, name)
        out.writeFloat(value)
      }
    }
    out.writeDouble(record.samplesPerSecond)
    out.writeDouble(record.seconds)
  }

  private def readRecord(in: DataInputStream): EpochRecord = {
    def metrics() = Blocks.readAll(in)(Blocks.readText(in) -> in.readFloat())
    EpochRecord(in.readInt(), metrics(), metrics(), in.readDouble(), in.readDouble())
  }
}

/** An optimizer between two updates.
  *
  * @param kind name of its class
  * @param states its state of each parameter
  * @param updateCounts updates of each parameter
  * @param counters mutable fields of the optimizer
  * @param schedules mutable fields of each of its learning rate schedules
  */
private[mxnet] final case class OptimizerCheckpoint(
    kind: String,
    states: Array[Byte],
    updateCounts: Map[Int, Int],
    counters: Map[String, Any],
    schedules: IndexedSeq[Map[String, Any]]
) {

  def write(out: DataOutputStream): Unit = {
    Blocks.writeText(out, kind)
    Blocks.write(out, states)
    Blocks.writeAll(out, updateCounts.toSeq.sorted) { case (index, count) =>
      out.writeInt(index)
      out.writeInt(count)
    }
    Blocks.writeText(out, OpProperties.toJson("of the optimizer", counters))
    Blocks.writeAll(out, schedules)(values => Blocks.writeText(out, OpProperties.toJson("of the schedule", values)))
  }

  /** Sets the counters of an optimizer, whose states are restored already. */
  def restoreCounters(optimizer: Optimizer): Unit = {
    if (optimizer.getClass.getName != kind)
      throw new MXNetError(
        s"the checkpoint was written by training with the optimizer $kind; it cannot resume with " +
          s"${optimizer.getClass.getName}: use the same optimizer, or delete the checkpoint to start again"
      )
    optimizer.restoreUpdateCounts(updateCounts)
    FieldState.write(optimizer, counters)
    FieldState.referenced(optimizer, classOf[LRScheduler]).zip(schedules).foreach { case (schedule, values) =>
      FieldState.write(schedule, values)
    }
  }
}

private[mxnet] object OptimizerCheckpoint {

  /** The state of an optimizer, given its state of each parameter. */
  def of(optimizer: Optimizer, states: Array[Byte]): OptimizerCheckpoint = OptimizerCheckpoint(
    optimizer.getClass.getName,
    states,
    optimizer.updateCounts,
    FieldState.read(optimizer),
    FieldState.referenced(optimizer, classOf[LRScheduler]).map(FieldState.read).toIndexedSeq
  )

  def read(in: DataInputStream): OptimizerCheckpoint = OptimizerCheckpoint(
    Blocks.readText(in),
    Blocks.read(in),
    Blocks.readAll(in)(in.readInt() -> in.readInt()).toMap,
    OpProperties.fromJson("of the optimizer", Blocks.readText(in)),
    Blocks.readAll(in)(OpProperties.fromJson("of the schedule", Blocks.readText(in)))
  )
}
