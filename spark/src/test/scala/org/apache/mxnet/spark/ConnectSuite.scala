package org.apache.mxnet.spark

import java.net.ServerSocket
import java.nio.file.Files
import java.util.{ServiceLoader, UUID}

import scala.jdk.CollectionConverters._
import scala.util.Using

import munit.FunSuite
import org.apache.mxnet.Symbol
import org.apache.spark.connect.proto
import org.apache.spark.ml.param.Params
import org.apache.spark.ml.{Estimator, Transformer}
import org.apache.spark.sql.SparkSession
import org.sparkproject.connect.grpc.{Grpc, InsecureChannelCredentials, ManagedChannel, StatusRuntimeException}

/** A client of Spark Connect without this library's classes, and a server with them. The client sends the same messages as PySpark. */
class ConnectSuite extends FunSuite {
  override val munitTimeout = scala.concurrent.duration.Duration(10, "min")

  private lazy val port = Using.resource(new ServerSocket(0))(_.getLocalPort)

  private lazy val spark = SparkSession
    .builder()
    .master("local[2]")
    .appName("ferromx-spark4 Connect tests")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
    .config("spark.connect.grpc.binding.port", port.toString)
    // The server keeps every model on disk, and loads it when a client uses it.
    .config("spark.connect.session.connectML.mlCache.memoryControl.maxInMemorySize", "1024")
    .getOrCreate()

  private lazy val channel: ManagedChannel = {
    spark.sparkContext
    Grpc.newChannelBuilder(s"127.0.0.1:$port", InsecureChannelCredentials.create()).build()
  }

  private val session = UUID.randomUUID().toString
  private val directory = Files.createTempDirectory("ferromx-connect-")

  override def afterAll(): Unit = {
    channel.shutdownNow()
    spark.stop()
  }

  private def execute(plan: proto.Plan.Builder): Seq[proto.ExecutePlanResponse] = {
    val request = proto.ExecutePlanRequest
      .newBuilder()
      .setSessionId(session)
      .setUserContext(proto.UserContext.newBuilder().setUserId("test"))
      .setPlan(plan)
      .build()
    proto.SparkConnectServiceGrpc.newBlockingStub(channel).executePlan(request).asScala.toSeq
  }

  private def execute(command: proto.MlCommand.Builder): proto.MlCommandResult =
    execute(proto.Plan.newBuilder().setCommand(proto.Command.newBuilder().setMlCommand(command)))
      .find(_.hasMlCommandResult)
      .map(_.getMlCommandResult)
      .get

  private def text(value: String) = proto.Expression.Literal.newBuilder().setString(value).build()
  private def integer(value: Int) = proto.Expression.Literal.newBuilder().setInteger(value).build()
  private def double(value: Double) = proto.Expression.Literal.newBuilder().setDouble(value).build()

  private def params(values: (String, proto.Expression.Literal)*): proto.MlParams =
    proto.MlParams.newBuilder().putAllParams(values.toMap.asJava).build()

  private val modelParams = Seq(
    "modelPath" -> text(Digits.ModelPath),
    "epoch" -> integer(Digits.ModelEpoch),
    "feedDict" -> text("""{"data":"pixels"}"""),
    "inputShapes" -> text("""{"data":"1,8,8"}"""),
    "fetchDict" -> text("""{"probabilities":"softmax_output"}"""),
    "predictionCol" -> text("prediction")
  )

  private lazy val estimatorParams = Seq(
    "symbol" -> text(Symbol.load(s"${Digits.ModelPath}-symbol.json").toJson),
    "featuresCol" -> text("pixels"),
    "inputShapes" -> text("""{"data":"1,8,8"}"""),
    "optimizerParams" -> text("""{"momentum":"0.9"}"""),
    "learningRate" -> double(0.05),
    "batchSize" -> integer(32),
    "numEpoch" -> integer(4),
    "numWorkers" -> integer(2)
  )

  private def operator(name: String, kind: proto.MlOperator.OperatorType) =
    proto.MlOperator.newBuilder().setName(s"org.apache.mxnet.spark.$name").setUid(s"${name}_of_client").setType(kind)

  private def transformer = operator("MXNetModel", proto.MlOperator.OperatorType.OPERATOR_TYPE_TRANSFORMER)
  private def estimator = operator("MXNetEstimator", proto.MlOperator.OperatorType.OPERATOR_TYPE_ESTIMATOR)

  private lazy val digits: proto.Relation = {
    val path = directory.resolve("digits").toString
    Digits.train(spark).repartition(2).write.parquet(path)
    proto.Relation.newBuilder().setSql(proto.SQL.newBuilder().setQuery(s"SELECT * FROM parquet.`$path`")).build()
  }

  private def transform(
      set: proto.MlRelation.Transform.Builder => Unit,
      values: (String, proto.Expression.Literal)*
  ) = {
    val relation = proto.MlRelation.Transform.newBuilder().setInput(digits).setParams(params(values: _*))
    set(relation)
    proto.Relation.newBuilder().setMlRelation(proto.MlRelation.newBuilder().setTransform(relation)).build()
  }

  /** The number of correct predictions in a relation. */
  private def countCorrect(relation: proto.Relation): Long = {
    val path = directory.resolve(UUID.randomUUID().toString).toString
    val write = proto.WriteOperation
      .newBuilder()
      .setInput(relation)
      .setSource("parquet")
      .setPath(path)
      .setMode(proto.WriteOperation.SaveMode.SAVE_MODE_ERROR_IF_EXISTS)
    execute(proto.Plan.newBuilder().setCommand(proto.Command.newBuilder().setWriteOperation(write)))
    spark.read.parquet(path).where("prediction = label").count()
  }

  private lazy val fitted: String = execute(
    proto.MlCommand
      .newBuilder()
      .setFit(
        proto.MlCommand.Fit
          .newBuilder()
          .setEstimator(estimator)
          .setParams(params(estimatorParams: _*))
          .setDataset(digits)
      )
  ).getOperatorInfo.getObjRef.getId

  private def reference(id: String) = proto.ObjectRef.newBuilder().setId(id)

  private def read(operator: proto.MlOperator.Builder, path: String): proto.MlCommandResult.MlOperatorInfo =
    execute(
      proto.MlCommand.newBuilder().setRead(proto.MlCommand.Read.newBuilder().setOperator(operator).setPath(path))
    ).getOperatorInfo

  test("the stages are registered and have the constructors that the server and the ServiceLoader call") {
    def providers[A](service: Class[A]): Seq[Class[_]] =
      ServiceLoader.load(service).stream().iterator().asScala.map(_.`type`(): Class[_]).toSeq
    val stages = (providers(classOf[Transformer]) ++ providers(classOf[Estimator[_]])).distinct.filter {
      _.getName.startsWith("org.apache.mxnet.")
    }
    assertEquals(stages.toSet[Class[_]], Set[Class[_]](classOf[MXNetModel], classOf[MXNetEstimator]))
    stages.foreach { stage =>
      stage.getConstructor().newInstance()
      assertEquals(stage.getConstructor(classOf[String]).newInstance("uid").asInstanceOf[Params].uid, "uid")
      stage.getMethod("load", classOf[String])
      stage.getMethod("read")
    }
  }

  test("a client transforms with a model that it describes by parameters") {
    val direct = new MXNetModel()
      .setModelPath(Digits.ModelPath)
      .setEpoch(Digits.ModelEpoch)
      .setFeedDict(Map("data" -> "pixels"))
      .setInputShapes(Map("data" -> org.apache.mxnet.Shape(1, 8, 8)))
      .setFetchDict(Map("probabilities" -> "softmax_output"))
      .setPredictionCol("prediction")
      .transform(Digits.train(spark))
    val found = countCorrect(transform(_.setTransformer(transformer), modelParams: _*))
    assertEquals(found, direct.where("prediction = label").count())
    assert(found > 1400, found)
  }

  test("a client fits an estimator, and the model stays on the server") {
    val found = countCorrect(transform(_.setObjRef(reference(fitted))))
    assert(found > 1350, found)
    val smaller = transform(_.setObjRef(reference(fitted)), "batchSize" -> integer(7))
    assertEquals(countCorrect(smaller), found)
    val info = proto.MlCommand.newBuilder().setGetCacheInfo(proto.MlCommand.GetCacheInfo.newBuilder())
    assertEquals(execute(info).getParam.getArray.getElementsCount, 0, "models in memory")
  }

  test("a client saves and loads models and estimators") {
    val (model, stage) = (directory.resolve("model").toString, directory.resolve("estimator").toString)
    def write(set: proto.MlCommand.Write.Builder => Unit, path: String) = {
      val command = proto.MlCommand.Write.newBuilder().setPath(path)
      set(command)
      execute(proto.MlCommand.newBuilder().setWrite(command))
    }
    write(_.setObjRef(reference(fitted)), model)
    val expected = countCorrect(transform(_.setObjRef(reference(fitted))))
    val cached = read(operator("MXNetModel", proto.MlOperator.OperatorType.OPERATOR_TYPE_MODEL), model)
    assertEquals(countCorrect(transform(_.setObjRef(cached.getObjRef))), expected)
    // PySpark keeps the parameters of a transformer, which name the saved files.
    val described = read(transformer, model).getParams.getParamsMap.asScala.toSeq
    assertEquals(countCorrect(transform(_.setTransformer(transformer), described: _*)), expected)

    write(_.setOperator(estimator).setParams(params(estimatorParams: _*)), stage)
    val loaded = read(estimator, stage).getParams.getParamsMap.asScala
    assertEquals(loaded("optimizerParams").getString, """{"momentum":"0.9"}""")
    assertEquals(loaded.keySet.toSet, estimatorParams.map(_._1).toSet)
  }

  test("errors reach the client with the name of the column") {
    val wrong = modelParams.toMap.updated("feedDict", text("""{"data":"image"}""")).toSeq
    val error = intercept[StatusRuntimeException](countCorrect(transform(_.setTransformer(transformer), wrong: _*)))
    assert(error.getMessage.contains("there is no column 'image' for the input 'data'"), error.getMessage)
    val notJson = modelParams.toMap.updated("feedDict", text("data=pixels")).toSeq
    val malformed =
      intercept[StatusRuntimeException](countCorrect(transform(_.setTransformer(transformer), notJson: _*)))
    assert(malformed.getMessage.contains("data=pixels is not a JSON object of strings"), malformed.getMessage)
  }
}
