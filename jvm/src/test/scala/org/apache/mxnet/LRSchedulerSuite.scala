package org.apache.mxnet

class LRSchedulerSuite extends munit.FunSuite {
  test("FactorScheduler gives the rates of MXNet's") {
    // s = mx.lr_scheduler.FactorScheduler(step=5, factor=0.5, base_lr=1.0); [s(i) for i in [0, 1, 5, 6, 7, 10, 11, 26]]
    val scheduler = new FactorScheduler(step = 5, factor = 0.5f)
    scheduler.baseLR = 1f
    val rates = Seq(0, 1, 5, 6, 7, 10, 11, 26).map(scheduler(_))
    assertEquals(rates, Seq(1f, 1f, 1f, 0.5f, 0.5f, 0.5f, 0.25f, 0.03125f))
  }

  test("steps and factors out of range are errors") {
    assert(
      intercept[IllegalArgumentException](new FactorScheduler(0, 0.5f)).getMessage
        .contains("step of FactorScheduler is 0")
    )
    assert(intercept[IllegalArgumentException](new FactorScheduler(1, 1f)).getMessage.contains("less than 1"))
  }
}
