package org.apache.mxnet.spark

import java.net.Socket
import java.time.Duration

import scala.concurrent.duration.DurationInt
import scala.concurrent.{Await, ExecutionContext, Future}

import munit.FunSuite
import org.apache.mxnet._

/** Two workers connect and sum arrays, as the tasks of [[MXNetEstimator]] do, while strangers connect to their ports. */
class HostilePeerSuite extends FunSuite {
  private implicit val threads: ExecutionContext = ExecutionContext.global

  test("half-open connections, huge lengths and a wrong secret disturb no worker") {
    val workers = Seq.fill(2)(DistributedJob.listen())
    val impostor = DistributedJob.listen()
    val sockets = workers.flatMap { job =>
      Seq.fill(2)(new Socket("127.0.0.1", job.port))
    }
    // Every second connection stays half-open.
    sockets.indices.filter(_ % 2 == 1).foreach(i => sockets(i).getOutputStream.write(Array.fill(64)(0xff.toByte)))
    try {
      val peers = workers.map(job => s"127.0.0.1:${job.port}")
      val refused = Future(
        intercept[MXNetError](
          impostor.join(1, Seq(peers.head, s"127.0.0.1:${impostor.port}"), secret('x'), Duration.ofSeconds(5))
        )
      )
      val sums = workers.zipWithIndex.map { case (job, rank) =>
        Future {
          job.join(rank, peers, secret('s'), Duration.ofSeconds(60))
          val store = job.createStore()
          val value = NDArray.ones(Shape(3))
          store.init("sum", NDArray.zeros(Shape(3)))
          store.push("sum", value * (rank + 1f))
          store.pull("sum", value)
          value.toArray.toSeq
        }
      }
      sums.foreach(sum => assertEquals(Await.result(sum, 90.seconds), Seq(3f, 3f, 3f)))
      val message = Await.result(refused, 90.seconds).getMessage
      assert(message.contains("rank 0 (127.0.0.1:"), message)
    } finally {
      sockets.foreach(_.close())
      (workers :+ impostor).foreach(_.close())
    }
  }

  private def secret(letter: Char): Array[Byte] = Array.fill(32)(letter.toByte)
}
