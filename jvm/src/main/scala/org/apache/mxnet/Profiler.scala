package org.apache.mxnet

import org.apache.mxnet.Base._LIB

/** Measures operators and API calls, and writes a trace for Chrome's viewer (`chrome://tracing`). */
object Profiler {

  /** The codes of the states. */
  val state2Int: Map[String, Int] = Map("stop" -> 0, "run" -> 1)

  /** Configures the profiler; call it before the profiler runs.
    *
    * @param kwargs `filename` (by default `profile.json`; also as `file_name`), `profile_all`, `profile_symbolic`,
    *   `profile_imperative`, `profile_memory`, `profile_api`, `continuous_dump`, `dump_period`, `aggregate_stats`
    */
  def profilerSetConfig(kwargs: Map[String, String]): Unit = {
    if (kwargs == null) throw new MXNetError("Profiler.profilerSetConfig: kwargs is null; give Map() for the defaults")
    // The examples of MXNet's Scala package use this spelling.
    val (keys, values) = kwargs.map { case (key, value) =>
      (if (key == "file_name") "filename" else key) -> value
    }.unzip
    _LIB.profilerConfigure(keys.toArray, values.toArray)
  }

  /** Starts (`run`) or stops (`stop`) the profiler. A trace that no call writes is written when the process ends. */
  def profilerSetState(state: String = "stop"): Unit =
    state2Int.get(state) match {
      case Some(code) => _LIB.profilerRun(code == 1)
      case None       => throw new MXNetError(s"Profiler: the state is '$state'; it must be run or stop")
    }

  /** Writes the trace to the file.
    *
    * @param finished 1 to discard the events afterwards; 0 to include them in the next trace
    */
  def dumpProfile(finished: Int = 1): Unit = _LIB.profilerDump(finished != 0)
}
