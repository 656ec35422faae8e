package org.apache.mxnet

import java.nio.file.Files

class ProfilerSuite extends munit.FunSuite {
  test("a trace names the operators that ran while the profiler did") {
    val file = Files.createTempFile("trace", ".json")
    Profiler.profilerSetConfig(Map("filename" -> file.toString, "profile_all" -> "1"))
    Profiler.profilerSetState("run")
    NDArray.api.softsign(NDArray.ones(3))
    Profiler.profilerSetState("stop")
    NDArray.api.tanh(NDArray.ones(3))
    Profiler.dumpProfile()
    val trace = Files.readString(file)
    assert(trace.contains("softsign") && !trace.contains("tanh"), trace.take(500))
    Files.delete(file)
    assert(intercept[MXNetError](Profiler.profilerSetState("pause")).getMessage.contains("must be run or stop"))
    Profiler.profilerSetConfig(Map("file_name" -> file.toString))
    assertEquals(Profiler.state2Int, Map("stop" -> 0, "run" -> 1))
  }

  test("kernels in CUDA are refused by name") {
    assert(intercept[MXNetError](new Rtc("axpy", Array(), Array(), "")).getMessage.contains("'axpy'"))
  }
}
