package org.apache.mxnet
package internal.visualization

import scala.collection.mutable

/** Places the nodes of an acyclic graph in layers from top to bottom, so that every edge points down (Sugiyama, Tagawa
  * and Toda, 1981).
  *
  * An edge that spans several layers passes through a dummy vertex in each of them. The order within a layer follows
  * the mean position of the neighbors, which avoids most crossings; positions are then moved towards the neighbors as
  * far as the boxes allow.
  *
  * @param widths width of each node
  * @param edges pairs (from, to)
  * @param gap minimum horizontal distance between two boxes
  */
private[mxnet] final class LayeredLayout(
    widths: IndexedSeq[Double],
    edges: IndexedSeq[(Int, Int)],
    gap: Double
) {

  /** A box or, with `node` -1, a dummy vertex of an edge. */
  private final class Slot(val node: Int, val layer: Int, val width: Double) {
    var x: Double = 0
    val above = mutable.ArrayBuffer.empty[Slot]
    val below = mutable.ArrayBuffer.empty[Slot]
  }

  /** Layer of each node, from 0 at the top. */
  val layerOf: IndexedSeq[Int] = layers()

  private val slots = widths.indices.map(i => new Slot(i, layerOf(i), widths(i)))
  private val paths: IndexedSeq[IndexedSeq[Slot]] = edges.map { case (from, to) => path(from, to) }
  private val rows: IndexedSeq[mutable.ArrayBuffer[Slot]] = makeRows()
  orderRows()
  assignCoordinates()

  /** Center of each node. */
  val x: IndexedSeq[Double] = slots.map(_.x)

  /** For each edge, the horizontal positions in the layers from that of its start to that of its end. */
  val routes: IndexedSeq[IndexedSeq[Double]] = paths.map(_.map(_.x))

  /** Width of the drawing. */
  val width: Double = rows.flatten.map(slot => slot.x + slot.width / 2).maxOption.getOrElse(0.0)

  private def layers(): IndexedSeq[Int] = {
    val layer = Array.fill(widths.length)(0)
    val order = topological()
    val incoming = edges.groupMap(_._2)(_._1)
    order.foreach(node =>
      layer(node) = incoming.getOrElse(node, IndexedSeq.empty).map(layer(_) + 1).maxOption.getOrElse(0)
    )
    // An input is in the layer above its first reader.
    val outgoing = edges.groupMap(_._1)(_._2)
    order.filterNot(incoming.contains).foreach { node =>
      outgoing.get(node).foreach(targets => layer(node) = math.max(0, targets.map(layer(_)).min - 1))
    }
    layer.toIndexedSeq
  }

  private def topological(): IndexedSeq[Int] = {
    val unvisitedInputs = Array.fill(widths.length)(0)
    edges.foreach { case (_, to) => unvisitedInputs(to) += 1 }
    val outgoing = edges.groupMap(_._1)(_._2)
    val ready = mutable.Queue.from(widths.indices.filter(unvisitedInputs(_) == 0))
    val order = IndexedSeq.newBuilder[Int]
    while (ready.nonEmpty) {
      val node = ready.dequeue()
      order += node
      outgoing.getOrElse(node, IndexedSeq.empty).foreach { to =>
        unvisitedInputs(to) -= 1
        if (unvisitedInputs(to) == 0) ready += to
      }
    }
    order.result()
  }

  private def path(from: Int, to: Int): IndexedSeq[Slot] = {
    val between = (layerOf(from) + 1 until layerOf(to)).map(layer => new Slot(-1, layer, gap / 2))
    val all = (slots(from) +: between) :+ slots(to)
    all.zip(all.tail).foreach { case (upper, lower) =>
      upper.below += lower
      lower.above += upper
    }
    all
  }

  private def makeRows(): IndexedSeq[mutable.ArrayBuffer[Slot]] = {
    val rows = IndexedSeq.fill(layerOf.maxOption.fold(0)(_ + 1))(mutable.ArrayBuffer.empty[Slot])
    slots.foreach(slot => rows(slot.layer) += slot)
    paths.foreach(_.filter(_.node < 0).foreach(slot => rows(slot.layer) += slot))
    rows.foreach(row => row.indices.foreach(i => row(i).x = i.toDouble))
    rows
  }

  private def orderRows(): Unit = for (sweep <- 0 until LayeredLayout.Sweeps) {
    val downwards = sweep % 2 == 0
    (if (downwards) rows else rows.reverse).foreach { row =>
      val sorted = row.sortBy(slot => mean(if (downwards) slot.above else slot.below, slot.x))
      row.clear()
      row ++= sorted
      row.indices.foreach(i => row(i).x = i.toDouble)
    }
  }

  private def mean(neighbors: collection.Seq[Slot], default: Double): Double =
    if (neighbors.isEmpty) default else neighbors.map(_.x).sum / neighbors.length

  private def assignCoordinates(): Unit = {
    rows.foreach { row =>
      var right = 0.0
      row.foreach { slot =>
        slot.x = right + slot.width / 2
        right += slot.width + gap
      }
      row.foreach(_.x -= (right - gap) / 2)
    }
    for (sweep <- 0 to LayeredLayout.Sweeps) {
      val downwards = sweep % 2 == 0
      (if (downwards) rows else rows.reverse).foreach { row =>
        val desired = row.map(slot => desiredX(if (downwards) slot.above else slot.below, slot))
        val (inner, sources) = row.indices.partition(i => row(i).node < 0 || row(i).above.nonEmpty)
        moveTowards(row, inner, desired)
        // Variables yield to the nodes on the main path of the network.
        sources.foreach(i => row(i).x = clampedX(row, i, inner ++ sources.filter(_ < i), desired(i)))
      }
    }
    val left = rows.flatten.map(slot => slot.x - slot.width / 2).minOption.getOrElse(0.0)
    rows.flatten.foreach(_.x -= left)
  }

  /** The mean position of the neighbors, preferring those on the main path; the slot's own position without
    * neighbors.
    */
  private def desiredX(neighbors: collection.Seq[Slot], slot: Slot): Double = {
    val mainPath = neighbors.filter(other => other.node < 0 || other.above.nonEmpty)
    mean(if (mainPath.nonEmpty) mainPath else neighbors, slot.x)
  }

  /** Minimum distance between the centers of two slots of a row, with room for those between them. */
  private def distance(row: collection.IndexedSeq[Slot], from: Int, to: Int): Double =
    (from until to).map(i => (row(i).width + row(i + 1).width) / 2 + gap).sum

  /** Moves some of a row's slots towards the desired positions as far as order and widths allow: the mean of packing
    * from the left and from the right.
    */
  private def moveTowards(
      row: collection.IndexedSeq[Slot],
      chosen: IndexedSeq[Int],
      desired: collection.IndexedSeq[Double]
  ): Unit = {
    val fromLeft = chosen.map(desired(_)).toArray
    val fromRight = fromLeft.clone()
    for (i <- 1 until chosen.length) {
      fromLeft(i) = math.max(fromLeft(i), fromLeft(i - 1) + distance(row, chosen(i - 1), chosen(i)))
    }
    for (i <- chosen.length - 2 to 0 by -1) {
      fromRight(i) = math.min(fromRight(i), fromRight(i + 1) - distance(row, chosen(i), chosen(i + 1)))
    }
    chosen.indices.foreach(i => row(chosen(i)).x = (fromLeft(i) + fromRight(i)) / 2)
  }

  /** The position nearest to `desired` at which slot `index` keeps the minimum distance from the slots `fixed`. */
  private def clampedX(
      row: collection.IndexedSeq[Slot],
      index: Int,
      fixed: IndexedSeq[Int],
      desired: Double
  ): Double = {
    val min = fixed.filter(_ < index).map(i => row(i).x + distance(row, i, index)).maxOption
    val max = fixed.filter(_ > index).map(i => row(i).x - distance(row, index, i)).minOption
    val raised = min.fold(desired)(math.max(_, desired))
    max.fold(raised)(math.min(_, raised))
  }
}

private[mxnet] object LayeredLayout {

  /** Number of passes over the layers, alternately downwards and upwards. */
  private val Sweeps = 12
}
