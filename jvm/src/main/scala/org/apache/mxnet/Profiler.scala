package org.apache.mxnet

/** Records how long operators take, in the format of Chrome's trace viewer. */
object Profiler {

  /** The states by name. */
  val state2Int: Map[String, Int] = Map("stop" -> 0, "run" -> 1)

  /** Configures the profiler; to be called while it is stopped.
    *
    * @param kwargs options such as `filename`, `profile_all`, `profile_symbolic`, `profile_imperative`
    */
  def profilerSetConfig(kwargs: Map[String, String]): Unit = {
    val (keys, values) = kwargs.toArray.unzip
    Base._LIB.profilerSetConfig(keys, values)
  }

  /** Starts (`run`) or stops (`stop`) recording. */
  def profilerSetState(state: String = "stop"): Unit = {
    val code = state2Int.getOrElse(
      state,
      throw new MXNetError(s"Profiler: '$state' is not a state; known: ${state2Int.keys.mkString(", ")}")
    )
    Base._LIB.profilerSetState(code)
  }

  /** Writes the profile to the configured file.
    *
    * @param finished 1 if nothing more will be recorded, else 0
    */
  def dumpProfile(finished: Int = 1): Unit = Base._LIB.profilerDump(finished != 0)
}
