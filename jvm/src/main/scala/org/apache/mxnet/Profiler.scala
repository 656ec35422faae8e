package org.apache.mxnet

import org.apache.mxnet.Base._LIB

/** Measures what the engine does, and writes it as a trace for Chrome's viewer (`chrome://tracing`). */
object Profiler {

  /** The numbers of the states. */
  val state2Int: Map[String, Int] = Map("stop" -> 0, "run" -> 1)

  /** Sets parameters, to be called before the profiler runs.
    *
    * @param kwargs `filename` (by default `profile.json`; also as `file_name`), `profile_all`, `profile_symbolic`,
    *   `profile_imperative`, `profile_memory`, `profile_api`, `continuous_dump`, `dump_period`, `aggregate_stats`
    */
  def profilerSetConfig(kwargs: Map[String, String]): Unit = {
    // The examples of the released package write it so.
    val (keys, values) = kwargs.map { case (key, value) =>
      (if (key == "file_name") "filename" else key) -> value
    }.unzip
    _LIB.profilerConfigure(keys.toArray, values.toArray)
  }

  /** Lets the profiler run (`run`) or stops it (`stop`). */
  def profilerSetState(state: String = "stop"): Unit =
    state2Int.get(state) match {
      case Some(code) => _LIB.profilerRun(code == 1)
      case None       => throw new MXNetError(s"Profiler: the state is '$state'; it must be run or stop")
    }

  /** Writes the trace to the file.
    *
    * @param finished 1 if the trace ends here; 0 if the next one holds what this one holds too
    */
  def dumpProfile(finished: Int = 1): Unit = _LIB.profilerDump(finished != 0)
}
