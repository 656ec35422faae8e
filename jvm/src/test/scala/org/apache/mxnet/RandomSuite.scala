package org.apache.mxnet

import munit.FunSuite

class RandomSuite extends FunSuite {
  private def draw(ctx: Context = Context.cpu()): Seq[Float] = Random.uniform(0f, 1f, Shape(4), ctx).toArray.toSeq

  /** The first numbers after a seed. */
  private def first(seed: Int): Seq[Float] = {
    Random.seed(seed)
    draw()
  }

  test("a thread with a seed of its own neither affects other numbers nor is affected") {
    val (one, two) = Random.withSeed(7)((draw(), draw()))
    assertNotEquals(one, two)
    Random.seed(1)
    val devices = Seq(draw(), draw())
    Random.seed(1)
    assertEquals(draw(), devices.head)
    Random.withSeed(7) {
      assertEquals(draw(), one)
      var other = Seq.empty[Float]
      val thread = new Thread(() => other = draw())
      thread.start()
      thread.join()
      assertEquals(other, devices(1), "another thread draws from the device")
      assertEquals(draw(Context.cpu(1)), two, "all devices draw from the thread's numbers")
    }
    val afterwards = draw()
    Random.seed(1)
    assertEquals(Seq.fill(3)(draw()).last, afterwards)
  }

  test("seed and state in withSeed are those of the thread, and an exception ends it") {
    val expected = first(1)
    Random.seed(1)
    intercept[IllegalStateException](Random.withSeed(7) {
      val seeded = first(3)
      val state = Random.getState()
      val next = draw()
      Random.setState(state)
      assertEquals(draw(), next)
      Random.withSeed(3)(assertEquals(draw(), seeded))
      assertNotEquals(draw(), next, "the outer numbers go on")
      throw new IllegalStateException
    })
    assertEquals(draw(), expected)
    intercept[MXNetError](Base._LIB.randomSetThread(Array(1L)))
  }
}
