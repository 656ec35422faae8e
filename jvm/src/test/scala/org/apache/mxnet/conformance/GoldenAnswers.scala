package org.apache.mxnet.conformance

import org.apache.mxnet._
import org.apache.mxnet.internal.util.Json

import scala.io.Source
import scala.util.control.NonFatal

/** Answers the cases of the goldens: the program of the conformance runner's `--program` (`tests/conformance/src/process.rs`). Reads
  * one JSON object per line from standard input and writes one per line to standard output.
  */
object GoldenAnswers {

  def main(args: Array[String]): Unit =
    Source.stdin.getLines().foreach { line =>
      println(render(answer(new Fields(Json.parse(line)))))
      Console.out.flush()
    }

  private def answer(request: Fields): Any =
    try
      ResourceScope.using() {
        new NumpyScope(request.flag("np_shape")).withScope {
          request.text("kind") match {
            case "op" if request.flag("bound") => bound(request)
            case "op"                          => onArrays(request)
            case "infer"                       => inferred(request)
            case "graph"                       => graph(request)
          }
        }
      }
    catch {
      case NonFatal(e) => Map("error" -> String.valueOf(e.getMessage))
    }

  /** Calls the operator on arrays, and records it if gradients are requested. */
  private def onArrays(request: Fields): Any = {
    val dense = request.arrays("inputs")
    val stypes = request.texts("stypes")
    val inputs =
      if (stypes.isEmpty) dense.map(_._2)
      else dense.map(_._2).zip(stypes).map { case (array, stype) => cast(array, stype) }
    val byName = dense.map(_._1).zip(inputs).toMap
    val wrt = request.texts("wrt")
    val gradients = wrt.zip(request.texts("grad_stypes")).map { case (name, stype) =>
      cast(NDArray.zeros(byName(name).shape, null, byName(name).dtype), stype)
    }
    val out = if (request.flag("in_place")) Map("out" -> inputs.head) else Map.empty[String, Any]
    def call() = NDArray.genericNDArrayFunctionInvoke(request.text("op"), inputs, request.attributes ++ out).arr.toSeq
    Autograd.markVariables(wrt.map(byName), gradients)
    val train = request.flag("train")
    val outputs = if (wrt.isEmpty) Autograd.pause(train)(call()) else Autograd.record(train)(call())
    if (wrt.nonEmpty) Autograd.backward(outputs, request.arrays("head_grads").map(_._2), trainMode = train)
    Map(
      "outputs" -> outputs.map(digits),
      "storage_types" -> (if (stypes.isEmpty) Nil else outputs.map(storageType)),
      "grads" -> wrt.zip(gradients.map(digits)).toMap,
      "aux" -> request.texts("aux").map(name => name -> digits(byName(name))).toMap
    )
  }

  /** Binds a network of one operator. */
  private def bound(request: Fields): Any = {
    val inputs = request.arrays("inputs")
    val byName = inputs.toMap
    val variables = inputs.map { case (name, _) => Symbol.Variable(name) }
    val symbol = Symbol.createFromListedSymbols(request.text("op"), "op")(variables.toArray, request.attributes)
    val names = symbol.listArguments()
    val before = request.arrays("grads_before").toMap
    val wrt = request.texts("wrt").filter(names.contains)
    val gradients = wrt.map(name => name -> before.getOrElse(name, ones(byName(name)))).toMap
    val requests = names.map(name => name -> (if (gradients.contains(name)) request.text("req") else "null")).toMap
    val aux = symbol.listAuxiliaryStates()
    val executor =
      symbol.bind(Context.cpu(), names.map(byName), gradients, requests, aux.map(byName), null, null)
    val train = request.flag("train")
    executor.forward(train)
    val outputs = executor.outputs.toSeq.map(digits)
    val error =
      try {
        if (gradients.nonEmpty) executor.backward(request.arrays("head_grads").map(_._2).toArray)
        None
      } catch {
        case NonFatal(e) => Some("grads_error" -> e.getMessage)
      }
    Map[String, Any](
      "outputs" -> outputs,
      "storage_types" -> Nil,
      "grads" -> gradients.map { case (name, gradient) => name -> digits(gradient) },
      "aux" -> aux.map(name => name -> digits(byName(name))).toMap
    ) ++ error
  }

  private def inferred(request: Fields): Any = {
    val symbol = Symbol.createFromListedSymbols(request.text("op"), "op")(Array.empty, request.attributes)
    def known(key: String) = request.map(key).map { case (name, value) => s"op_$name" -> value }
    Map(
      "names" -> Seq(symbol.listArguments(), symbol.listAuxiliaryStates(), symbol.listOutputs()),
      "inferred" -> (if (request.has("shapes")) shapes(symbol, known("shapes")) else types(symbol, known("types")))
    )
  }

  private def graph(request: Fields): Any = {
    val symbol = Symbol.loadJson(request.text("json"))
    Map(
      "arg_names" -> symbol.listArguments(),
      "aux_names" -> symbol.listAuxiliaryStates(),
      "output_names" -> symbol.listOutputs(),
      "internals" -> symbol.getInternals().listOutputs(),
      "attrs" -> symbol.attrMap().toSeq.flatMap { case (node, attrs) =>
        attrs.map { case (k, v) => Seq(s"$node$$$k", v) }
      },
      "json" -> symbol.toJson,
      "shapes" -> shapes(symbol, request.map("shapes")),
      "types" -> types(symbol, request.map("types"))
    )
  }

  private def shapes(symbol: Symbol, known: Map[String, Any]): Any = {
    val (args, outputs, aux) =
      symbol.inferShapePartial(known.map { case (name, dims) => name -> Shape(Fields.numbers(dims).map(_.toInt)) })
    lists(args, outputs, aux)((shape: Shape) => shape.toArray.mkString("[", ",", "]"))
  }

  private def types(symbol: Symbol, known: Map[String, Any]): Any = {
    val (args, outputs, aux) =
      symbol.inferTypePartial(known.map { case (name, dtype) => name -> DType.withName(dtype.toString) })
    lists(args, outputs, aux)((dtype: DType.DType) => if (dtype == DType.Unknown) "?" else dtype.toString)
  }

  private def lists[T](args: Seq[T], outputs: Seq[T], aux: Seq[T])(text: T => String): Any = {
    def texts(values: Seq[T]) = values.map(value => if (value == null) "?" else text(value))
    Map("arg" -> texts(args), "out" -> texts(outputs), "aux" -> texts(aux))
  }

  private def cast(array: NDArray, stype: String): NDArray =
    NDArray.genericNDArrayFunctionInvoke("cast_storage", Seq(array), Map("stype" -> stype))

  private def storageType(array: NDArray): String = array match {
    case sparse: SparseNDArray if sparse.sparseFormat == SparseFormat.CSR => "csr"
    case _: SparseNDArray                                                 => "row_sparse"
    case _                                                                => "default"
  }

  /** An array in which every byte is 1. */
  private def ones(like: NDArray): NDArray = {
    val bytes = like.serialize()
    java.util.Arrays.fill(bytes, bytes.length - like.size * DType.numOfBytes(like.dtype), bytes.length, 1.toByte)
    NDArray.deserialize(bytes)
  }

  private def digits(array: NDArray): String = array.serialize().map(byte => f"$byte%02x").mkString

  /** Values as JSON. */
  private def render(value: Any): String = value match {
    case fields: Map[_, _] =>
      fields.map { case (key, item) => s"${render(key)}:${render(item)}" }.mkString("{", ",", "}")
    case items: Iterable[_] => items.map(render).mkString("[", ",", "]")
    case text: String       => quoted(text)
    case other              => throw new IllegalArgumentException(s"$other cannot be rendered")
  }

  private def quoted(text: String): String =
    text
      .map {
        case c @ ('"' | '\\') => s"\\$c"
        case c if c < ' '     => f"\\u${c.toInt}%04x"
        case c                => c.toString
      }
      .mkString("\"", "", "\"")

  /** The fields of a JSON object. */
  private final class Fields(value: Any) {
    private val fields = value.asInstanceOf[collection.Map[String, Any]]

    def has(key: String): Boolean = fields.get(key).exists(_ != null)

    def text(key: String): String = fields(key).toString

    def flag(key: String): Boolean = fields(key) == true

    def texts(key: String): Seq[String] = fields(key).asInstanceOf[collection.Seq[Any]].map(_.toString).toSeq

    def map(key: String): Map[String, Any] = fields(key).asInstanceOf[collection.Map[String, Any]].toMap

    def attributes: Map[String, String] = map("attrs").map { case (key, value) => key -> value.toString }

    /** Arrays by name, in order. */
    def arrays(key: String): Seq[(String, NDArray)] =
      fields(key).asInstanceOf[collection.Seq[Any]].toSeq.map { item =>
        val array = new Fields(item)
        val bytes = array.text("array").grouped(2).map(Integer.parseInt(_, 16).toByte).toArray
        array.text("name") -> NDArray.deserialize(bytes)
      }
  }

  private object Fields {
    def numbers(value: Any): Seq[Double] = value.asInstanceOf[collection.Seq[Any]].toSeq.map(_.asInstanceOf[Double])
  }
}
