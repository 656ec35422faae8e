package org.apache.mxnet

import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}
import java.util.concurrent.{CountDownLatch, CyclicBarrier}

import org.apache.mxnet.Base.CPtrAddress
import org.apache.mxnet.internal.memory.Handles

/** Native resources and scopes, with resources that only count how often they are freed. */
class NativeResourceSuite extends munit.FunSuite {

  private class Fake(counter: AtomicInteger, address: Long = 42L) extends NativeResource {
    override def nativeAddress: CPtrAddress = address
    override val nativeDeAllocator: CPtrAddress => Int = Fake.deAllocator(counter, address)
    override val bytesAllocated: Long = 8L
    override val ref: NativeResourceRef = register()
    def use(): Long = handleOf("Fake")
  }

  private object Fake {
    def deAllocator(counter: AtomicInteger, expected: Long): CPtrAddress => Int = { address =>
      assert(address == expected)
      counter.incrementAndGet()
    }
  }

  private case class Pair(first: NativeResource, second: NativeResource)

  private def withCounter(test: AtomicInteger => Unit): Unit = test(new AtomicInteger)

  test("disposing frees once, and twice is harmless") {
    withCounter { freed =>
      val resource = new Fake(freed)
      assert(!resource.isDisposed)
      assert(!NativeResourceRef.isDeAllocated(resource.ref))
      resource.dispose()
      resource.dispose()
      resource.close()
      assertEquals(freed.get, 1)
      assert(resource.isDisposed)
      assert(NativeResourceRef.isDeAllocated(resource.ref))
    }
  }

  test("dispose frees as the object says at that time") {
    class Switching(var counter: AtomicInteger) extends NativeResource {
      override def nativeAddress: CPtrAddress = 42L
      override def nativeDeAllocator: CPtrAddress => Int = Fake.deAllocator(counter, 42L)
      override val bytesAllocated: Long = 8L
      override val ref: NativeResourceRef = register()
    }
    val (first, second) = (new AtomicInteger, new AtomicInteger)
    val resource = new Switching(first)
    resource.counter = second
    resource.dispose()
    assertEquals((first.get, second.get), (0, 1))
  }

  test("using a disposed object is an error that names it") {
    withCounter { freed =>
      val resource = new Fake(freed)
      assertEquals(resource.use(), 42L)
      resource.dispose()
      val error = intercept[MXNetError](resource.use())
      assert(error.getMessage.startsWith("Fake: it was used after dispose()"), error.getMessage)
    }
  }

  test("threads that dispose at the same time free once") {
    withCounter { freed =>
      (1 to 200).foreach { _ =>
        val resource = new Fake(freed)
        val start = new CyclicBarrier(4)
        val threads = Seq.fill(4)(new Thread(() => {
          start.await()
          resource.dispose()
        }))
        threads.foreach(_.start())
        threads.foreach(_.join())
      }
      assertEquals(freed.get, 200)
    }
  }

  test("the garbage collector frees what nobody disposed") {
    withCounter { freed =>
      (1 to 100).foreach(_ => new Fake(freed))
      val deadline = System.nanoTime + 20L * 1000 * 1000 * 1000
      while (freed.get < 100 && System.nanoTime < deadline) {
        System.gc()
        Thread.sleep(20)
      }
      assertEquals(freed.get, 100)
    }
  }

  test("a resource that is not tracked any more is not freed") {
    withCounter { freed =>
      val resource = new Fake(freed)
      NativeResourceRef.deRegister(resource.ref)
      resource.dispose()
      assertEquals(freed.get, 0)
    }
  }

  test("a scope frees what was made in it, except the result") {
    withCounter { freed =>
      val kept = ResourceScope.using() {
        new Fake(freed)
        new Fake(freed)
      }
      assertEquals(freed.get, 1)
      assert(!kept.isDisposed)
      kept.dispose()
      assertEquals(freed.get, 2)
    }
  }

  test("results in collections, options, tuples, arrays, maps and case classes are kept") {
    withCounter { freed =>
      def fake = new Fake(freed)
      val results = Seq[() => Any](
        () => Seq(fake, fake),
        () => Some(fake),
        () => (fake, 1, "x"),
        () => Array(fake, fake),
        () => Map("a" -> fake),
        () => Pair(fake, fake),
        () => Right(Seq(Option(fake)))
      )
      val counts = results.map { result =>
        val kept = ResourceScope.resourcesIn(ResourceScope.using()(result())).toSeq
        assert(kept.nonEmpty && kept.forall(!_.isDisposed))
        kept.size
      }
      assertEquals(counts, Seq(2, 1, 1, 2, 1, 2, 1))
      assertEquals(freed.get, 0)
    }
  }

  test("a result that refers to itself is kept; an infinite one is an error") {
    withCounter { freed =>
      final class Node(var next: Any, val resource: Fake) extends Product1[Any] {
        override def _1: Any = (next, resource)
        override def canEqual(that: Any): Boolean = that.isInstanceOf[Node]
      }
      val cycle = ResourceScope.using() {
        val node = new Node(null, new Fake(freed))
        node.next = node
        node
      }
      assertEquals((freed.get, cycle.resource.isDisposed), (0, false))
      val error = intercept[MXNetError](ResourceScope.using()(LazyList.from(0)))
      assert(error.getMessage.contains("return a finite one"), error.getMessage)
    }
  }

  test("a scope that is given stays open after using and usingIfScopeExists, which run in it even within another") {
    withCounter { freed =>
      val kept = ResourceScope.usingIfScopeExists(None)(new Fake(freed))
      assertEquals((freed.get, kept.isDisposed), (0, false))
      val scope = new ResourceScope
      val inScope = ResourceScope.using() {
        val other = new Fake(freed)
        ResourceScope.usingIfScopeExists(Some(scope)) {
          assert(new Fake(freed).scope.exists(_ eq scope))
        }
        ResourceScope.using(scope)(assert(new Fake(freed).scope.exists(_ eq scope)))
        assert(!other.scope.exists(_ eq scope))
        freed.get
      }
      assertEquals((inScope, freed.get), (0, 1))
      scope.close()
      assertEquals((freed.get, ResourceScope.getCurrentScope()), (3, None))
    }
  }

  test("an interrupted thread frees what was collected without waiting, and stays interrupted") {
    Thread.currentThread().interrupt()
    NativeResourceRef.freeCollected()
    assert(Thread.interrupted())
  }

  test("WarnIfNotDisposed warns of what was not disposed, and keeps where it was created if that is traced") {
    class Watched(isTraced: Boolean, val isDisposed: Boolean) extends WarnIfNotDisposed {
      var warnings = 0
      override protected def tracingEnabled: Boolean = isTraced
      override protected def logDisposeWarning(): Unit = warnings += 1
      def trace: Option[Array[StackTraceElement]] = creationTrace
      def collected(): Int = {
        finalize()
        warnings
      }
    }
    assertEquals(Seq(true, false).map(new Watched(false, _).collected()), Seq(0, 1))
    assertEquals(new Watched(false, true).trace, None)
    assert(new Watched(true, true).trace.exists(_.exists(_.getClassName == getClass.getName)))
  }

  test("a result moves to the scope around, which frees it") {
    withCounter { freed =>
      ResourceScope.using() {
        val inner = ResourceScope.using()(new Fake(freed))
        assertEquals(freed.get, 0)
        assert(!inner.isDisposed)
        ()
      }
      assertEquals(freed.get, 1)
    }
  }

  test("a result leaves a scope that is given, also if the scope is the innermost one") {
    withCounter { freed =>
      val scope = new ResourceScope
      val result = ResourceScope.using(scope)(new Fake(freed))
      scope.close()
      assertEquals((freed.get, result.isDisposed), (0, false))
      val within = ResourceScope.using() {
        val inner = new ResourceScope
        val moved = ResourceScope.using(inner)(new Fake(freed))
        inner.close()
        assertEquals((freed.get, moved.isDisposed), (0, false))
        moved.scope
      }
      assertEquals((freed.get, within.nonEmpty), (1, true))
    }
  }

  test("a scope frees also when the body fails, and the failure reaches the caller") {
    withCounter { freed =>
      intercept[IllegalStateException] {
        ResourceScope.using() {
          new Fake(freed)
          throw new IllegalStateException("body")
        }
      }
      assertEquals(freed.get, 1)
    }
  }

  test("a scope frees the other resources if one cannot be disposed") {
    withCounter { freed =>
      final class Failing(name: String) extends NativeResource {
        override def nativeAddress: CPtrAddress = 42L
        override def nativeDeAllocator: CPtrAddress => Int = _ => throw new IllegalStateException(name)
        override val bytesAllocated: Long = 0L
        override val ref: NativeResourceRef = register()
      }
      val error = intercept[IllegalStateException] {
        ResourceScope.using() {
          new Failing("first")
          new Fake(freed)
          new Failing("second")
          new Fake(freed)
          ()
        }
      }
      assertEquals((error.getMessage, error.getSuppressed.map(_.getMessage).toSeq), ("first", Seq("second")))
      assertEquals(freed.get, 2)
      assertEquals(ResourceScope.getCurrentScope(), None)
    }
  }

  test("handles are freed if a later one cannot be created") {
    var freed = Seq.empty[Long]
    def create(items: Seq[Int]): Array[Long] = Handles.createAll(items, freed :+= _) { item =>
      if (item < 0) throw new IllegalStateException(s"no handle for $item")
      item.toLong
    }
    assertEquals(create(Seq(1, 2)).toSeq, Seq(1L, 2L))
    assertEquals(intercept[IllegalStateException](create(Seq(3, 4, -1, 5))).getMessage, "no handle for -1")
    assertEquals(freed, Seq(3L, 4L))
  }

  test("add, contains, remove and a given scope") {
    withCounter { freed =>
      val outside = new Fake(freed)
      val scope = new ResourceScope
      val (removed, added) = ResourceScope.using(scope) {
        val mine = new Fake(freed)
        scope.add(outside)
        scope.remove(mine)
        (Seq(scope.contains(mine), scope.contains(outside)), mine.hashCode)
      }
      assertEquals(removed, Seq(false, true))
      assertEquals(freed.get, 0)
      scope.close()
      assertEquals(freed.get, 1)
      assert(outside.isDisposed)
      assert(added != 0)
    }
  }

  test("what is disposed in a scope is not in it any more, and is freed once") {
    withCounter { freed =>
      ResourceScope.using() {
        new Fake(freed).dispose()
      }
      assertEquals(freed.get, 1)
    }
  }

  test("scopes belong to their thread") {
    withCounter { freed =>
      val made = new CountDownLatch(1)
      ResourceScope.using() {
        val thread = new Thread(() => {
          new Fake(freed)
          made.countDown()
        })
        thread.start()
        made.await()
        thread.join()
      }
      assertEquals(freed.get, 0)
    }
  }

  test("moveToOuterScope without a scope around leaves the resource to its owner") {
    withCounter { freed =>
      val total = new AtomicLong
      val scope = new ResourceScope
      val resource = new Fake(freed)
      assert(scope.contains(resource))
      scope.moveToOuterScope(resource)
      assert(!scope.contains(resource))
      scope.close()
      assertEquals((freed.get, total.get), (0, 0L))
      resource.dispose()
      assertEquals(freed.get, 1)
    }
  }

  test("an array that a function took out of its scope says which scope freed it") {
    val sum = ResourceScope.using() {
      val array = NDArray.ones(2, 3)
      () => array.toArray.sum
    }
    val message = intercept[MXNetError](sum()).getMessage
    assert(message.startsWith("NDArray of shape (2,3): it was used after the ResourceScope"), message)
    assert(message.contains("the scope returned a org.apache.mxnet.NativeResourceSuite$$Lambda"), message)
    assert(message.contains("return the arrays themselves"), message)
  }

  test("an array from a closed scope names its shape, one that was disposed does not blame the scope") {
    var freed, disposed: NDArray = null
    ResourceScope.using() {
      freed = NDArray.zeros(4)
      disposed = NDArray.zeros(4)
      disposed.dispose()
    }
    assert(
      intercept[MXNetError](freed.toArray).getMessage
        .startsWith("NDArray of shape (4): it was used after the ResourceScope")
    )
    val message = intercept[MXNetError](disposed + freed).getMessage
    assert(message.startsWith("NDArray of shape (4): it was used after dispose()"), message)
  }

  test("an array within an option of Java is kept") {
    val kept = ResourceScope.using()(java.util.Optional.of(NDArray.ones(2)))
    assertEquals(kept.get.toArray.sum, 2f)
  }

  test("resources leave and enter scopes in any order") {
    withCounter { freed =>
      val outer = new ResourceScope
      val inner = new ResourceScope
      val resources = Vector.fill(5)(new Fake(freed))
      inner.remove(resources(2))
      inner.remove(resources(0))
      inner.remove(resources(0))
      outer.add(resources(4))
      inner.add(resources(0))
      inner.add(resources(0))
      assertEquals(resources.map(inner.contains), Vector(true, true, false, true, false))
      assertEquals(resources.map(outer.contains), Vector(false, false, false, false, true))
      resources(1).dispose()
      assertEquals(freed.get, 1)
      inner.close()
      assertEquals(resources.map(_.isDisposed), Vector(true, true, false, true, false))
      outer.close()
      assertEquals(freed.get, 4)
      resources(2).dispose()
    }
  }
}
