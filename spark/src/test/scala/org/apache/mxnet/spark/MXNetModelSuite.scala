package org.apache.mxnet.spark

import java.awt.image.BufferedImage
import java.io.{ByteArrayInputStream, ByteArrayOutputStream, IOException, ObjectInputStream, ObjectOutputStream}
import java.nio.file.{Files, Path, Paths}
import javax.imageio.ImageIO

import scala.util.Using

import org.apache.mxnet._
import org.apache.mxnet.spark.internal.{ModelFiles, ModelSession}
import org.apache.spark.SparkEnv
import org.apache.spark.ml.evaluation.MulticlassClassificationEvaluator
import org.apache.spark.ml.feature.VectorAssembler
import org.apache.spark.ml.functions.array_to_vector
import org.apache.spark.ml.linalg.Vectors
import org.apache.spark.ml.param.ParamMap
import org.apache.spark.ml.{Pipeline, PipelineModel, PipelineStage, Transformer}
import org.apache.spark.sql.functions.{array, col, lit, typedlit, udf, when}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.{Column, DataFrame}

class MXNetModelSuite extends ClusterSuite {
  import MXNetModelSuite._

  private def lenet: MXNetModel = new MXNetModel()
    .setModelPath(Digits.ModelPath)
    .setEpoch(Digits.ModelEpoch)
    .setFeedDict(Map("data" -> "pixels"))
    .setInputShapes(Map("data" -> Shape(1, 8, 8)))
    .setFetchDict(Map("probabilities" -> "softmax_output"))
    .setPredictionCol("prediction")

  private lazy val digits = Digits.test(spark)

  private def probabilities(frame: DataFrame): Map[Int, Seq[Float]] =
    frame.select("id", "probabilities").collect().map(row => row.getInt(0) -> row.getSeq[Float](1)).toMap

  /** Twice its input: the simplest network. */
  private def doubled(dtype: String = "float64"): MXNetModel = {
    val data = Symbol.Variable("data")
    val network = Symbol.api.cast(data = data * 2.0, dtype = dtype, name = "doubled")
    new MXNetModel()
      .setNetwork(network, Map.empty)
      .setFeedDict(Map("data" -> "value"))
      .setFetchDict(Map("doubled" -> "doubled_output"))
  }

  private def temporary(name: String): Path = {
    val directory = Files.createTempDirectory("ferromx-test-")
    directory.resolve(name)
  }

  test("LeNet has the accuracy and the probabilities of the library alone") {
    val answers = lenet.transform(digits.repartition(3))
    val evaluator = new MulticlassClassificationEvaluator().setMetricName("accuracy")
    val correct = Digits.expected.indices.count { i =>
      Digits.expected(i).indexOf(Digits.expected(i).max) == Digits.testLabels(i).toInt
    }
    assert(correct >= 280)
    assertEquals(evaluator.evaluate(answers), correct.toDouble / Digits.testLabels.length)
    val found = probabilities(answers)
    assertEquals(found.size, Digits.testLabels.length)
    found.foreach { case (id, row) =>
      row.zip(Digits.expected(id)).foreach { case (a, b) => assertEqualsFloat(a, b, 1e-6f) }
    }
  }

  test("answers have the same bits for every batch size and partitioning") {
    val reference = probabilities(lenet.setBatchSize(64).transform(digits.repartition(1)))
    for (batchSize <- Seq(1, 7, 64); partitions <- Seq(2, 13))
      assertEquals(
        probabilities(lenet.setBatchSize(batchSize).transform(digits.repartition(partitions))),
        reference,
        s"batch size $batchSize, $partitions partitions"
      )
  }

  test("32 tasks share one session in each executor") {
    // Content that no other test uses, so that this model is not shared.
    val directory = temporary("lenet")
    Files.copy(Paths.get(Digits.ModelPath + "-symbol.json"), Paths.get(s"$directory-symbol.json"))
    Files.copy(Paths.get(f"${Digits.ModelPath}-0030.params"), Paths.get(s"$directory-0001.params"))
    val before = loadsByExecutor()
    val model = lenet.setModelPath(directory.toString).setEpoch(1)
    assertEquals(model.transform(digits.repartition(32)).count(), 297L)
    assertEquals(model.transform(digits.repartition(32)).select("probabilities").collect().length, 297)
    val after = loadsByExecutor()
    assertEquals(after.keySet.size, 2)
    after.foreach { case (executor, loads) => assertEquals(loads - before.getOrElse(executor, 0L), 1L) }
  }

  private def loadsByExecutor(): Map[String, Long] =
    spark.sparkContext.parallelize(1 to 64, 64).map(_ => sessionLoads()).collect().toMap

  test("every type of column is read") {
    val numbers = Seq(1, 2, 3)
    def value(column: Column, model: MXNetModel = doubled()): Seq[Double] = {
      val row = model.transform(spark.range(1).select(column.as("value"))).select("doubled").head()
      row.getSeq[Number](0).map(_.doubleValue)
    }
    for (name <- Seq("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(9,2)", "decimal(38,10)")) {
      assertEquals(value(typedlit(numbers).cast(s"array<$name>")), Seq(2.0, 4.0, 6.0), name)
      assertEquals(value(lit(-7).cast(name)), Seq(-14.0), name)
    }
    assertEquals(value(lit(new java.math.BigDecimal("-1.75"))), Seq(-3.5))
    assertEquals(value(typedlit(Seq(true, false))), Seq(2.0, 0.0))
    assertEquals(value(lit(true)), Seq(2.0))
    assertEquals(value(array_to_vector(typedlit(Seq(0.5, 0.25)))), Seq(1.0, 0.5))
    val sparse = spark.createDataFrame(Seq(Tuple1(Vectors.sparse(4, Array(1, 3), Array(5.0, -1.0))))).toDF("value")
    assertEquals(doubled().transform(sparse).head().getSeq[Double](1), Seq(0.0, 10.0, 0.0, -2.0))
  }

  test("outputs have the column type of their own type") {
    val types =
      Seq("float16" -> "FLOAT", "float32" -> "FLOAT", "float64" -> "DOUBLE", "int32" -> "INT", "int64" -> "BIGINT")
    for ((dtype, sql) <- types) {
      val frame = doubled(dtype).transform(spark.range(3).select(col("id").as("value")))
      assertEquals(frame.schema("doubled").dataType.sql, s"ARRAY<$sql>")
      assertEquals(frame.collect().map(_.getSeq[Number](1).head.intValue).toSeq, Seq(0, 2, 4))
    }
  }

  test("images are decoded, scaled to the input and normalized") {
    val image = new BufferedImage(4, 6, BufferedImage.TYPE_INT_RGB)
    for (x <- 0 until 4; y <- 0 until 6) image.setRGB(x, y, 0x0a141e)
    val png = new ByteArrayOutputStream
    ImageIO.write(image, "png", png)
    val frame = spark.createDataFrame(Seq(Tuple1(png.toByteArray))).toDF("value")
    def pixels(layout: String, shape: Shape): Seq[Double] = doubled()
      .setInputShapes(Map("data" -> shape))
      .setImageLayout(layout)
      .setImageMean(Array(10.0, 0.0, 0.0))
      .setImageStd(Array(1.0, 2.0, 3.0))
      .transform(frame)
      .head()
      .getSeq[Double](1)
    assertEquals(pixels("NCHW", Shape(3, 3, 2)), Seq(0.0, 20.0, 20.0).flatMap(Seq.fill(6)(_)))
    assertEquals(pixels("NHWC", Shape(3, 2, 3)), Seq.fill(6)(Seq(0.0, 20.0, 20.0)).flatten)
    val broken = spark.createDataFrame(Seq(Tuple1(Array[Byte](1, 2, 3)))).toDF("value")
    val model = doubled().setInputShapes(Map("data" -> Shape(3, 2, 2)))
    assert(causes(intercept[Exception](model.transform(broken).collect())).contains("column 'value' has an image"))
    val mean = causes(intercept[Exception](model.setImageMean(Array(1.0, 2.0)).transform(frame).collect()))
    assert(mean.contains("imageMean has 2 numbers, but the input has 3 channels"), mean)
  }

  test("images of Spark's data source are read as encoded ones") {
    val directory = Files.createTempDirectory("ferromx-images-")
    val colors = Map("red" -> 0xff0000, "mixed" -> 0x0a141e)
    colors.foreach { case (name, color) =>
      val image = new BufferedImage(4, 6, BufferedImage.TYPE_INT_RGB)
      for (x <- 0 until 4; y <- 0 until 6) image.setRGB(x, y, color)
      ImageIO.write(image, "png", directory.resolve(s"$name.png").toFile)
    }
    val gray = new BufferedImage(2, 2, BufferedImage.TYPE_BYTE_GRAY)
    gray.getRaster.setDataElements(0, 0, 2, 2, Array[Byte](1, 2, 3, 100))
    ImageIO.write(gray, "png", directory.resolve("gray.png").toFile)
    val decoded = spark.read.format("image").load(directory.toString)
    val encoded = spark.read.format("binaryFile").load(directory.toString)
    for (shape <- Seq(Shape(3, 3, 2), Shape(1, 2, 2))) {
      def pixels(table: DataFrame, column: String, name: String) = doubled()
        .setFeedDict(Map("data" -> column))
        .setInputShapes(Map("data" -> shape))
        .transform(table)
        .select(name, "doubled")
        .collect()
        .map(row => row.getString(0).split('/').last -> row.getSeq[Double](1))
        .toMap
      val found = pixels(decoded, "image", "image.origin")
      assertEquals(found.keySet, Set("red.png", "mixed.png", "gray.png"))
      pixels(encoded, "content", "path").foreach { case (file, expected) =>
        expected.zip(found(file)).foreach { case (a, b) => assertEqualsDouble(b, a, 2.0, s"$file $shape") }
      }
    }
    val broken = decoded.limit(1).withColumn("image", col("image").withField("nChannels", lit(2)))
    val model = doubled().setFeedDict(Map("data" -> "image")).setInputShapes(Map("data" -> Shape(3, 2, 2)))
    val error = causes(intercept[Exception](model.transform(broken).collect()))
    assert(error.contains("column 'image' has an image that cannot be read: it is"), error)
  }

  test("columns may have any name, and one that is ambiguous is an error") {
    def answers(name: String): Seq[Double] = {
      val model = doubled().setFeedDict(Map("data" -> name)).setHandleInvalid("skip")
      model.transform(spark.range(2).select(col("id").as(name))).collect().map(_.getSeq[Double](1).head).toSeq
    }
    for (name <- Seq("a.b", "two words", "back`tick")) assertEquals(answers(name), Seq(0.0, 2.0), name)
    val twice = spark.range(1).select(col("id").as("value"), lit(1).as("Value"))
    val error = intercept[IllegalArgumentException](doubled().transform(twice)).getMessage
    assert(error.contains("there are 2 columns 'value' for the input 'data'"), error)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try assertEquals(doubled().transform(twice).head().getSeq[Double](2), Seq(0.0))
    finally spark.conf.unset("spark.sql.caseSensitive")
  }

  test("an ONNX file and its bytes give what the symbol gives") {
    val (symbol, args, aux) = Model.loadCheckpoint(Digits.ModelPath, Digits.ModelEpoch)
    val file = temporary("lenet.onnx")
    Onnx.exportModel(symbol, args ++ aux, file.toString, inputs = Map("data" -> Shape(-1, 1, 8, 8)))
    val output = Onnx.importModel(file.toString).outputs.head
    val model = new MXNetModel().setFeedDict(Map("data" -> "pixels")).setFetchDict(Map("probabilities" -> output))
    for (
      loaded <- Seq(
        model.copy(model.extractParamMap()).setModelPath(file.toString),
        model.setPayload(Files.readAllBytes(file))
      )
    )
      probabilities(loaded.transform(digits)).foreach { case (id, row) =>
        row.zip(Digits.expected(id)).foreach { case (a, b) => assertEqualsFloat(a, b, 1e-5f) }
      }
  }

  test("outputs of inner nodes are features") {
    val model = lenet.setFetchDict(Map("features" -> "fc1_output")).setPredictionCol("")
    val answers = model.transform(digits)
    assertEquals(answers.columns.toSeq, Seq("id", "pixels", "label", "features"))
    assertEquals(answers.head().getSeq[Float](3).length, 128)
  }

  test("a pipeline with a model is saved and loaded") {
    val columns = (0 until 64).map(i => col("pixels")(i).as(s"p$i"))
    val table = digits.select(col("id") +: columns: _*)
    val assembler =
      new VectorAssembler().setInputCols(columns.indices.map(i => s"p$i").toArray).setOutputCol("features")
    val model = lenet.setFeedDict(Map("data" -> "features"))
    val pipeline = new Pipeline().setStages(Array[PipelineStage](assembler, model)).fit(table)
    val path = temporary("pipeline").toString
    pipeline.write.save(path)
    val loaded = PipelineModel.load(path)
    assertEquals(loaded.stages(1).asInstanceOf[MXNetModel].getInputShapes, Map("data" -> "1,8,8"))
    assertEquals(probabilities(loaded.transform(table)), probabilities(pipeline.transform(table)))
    assertEquals(loaded.transformSchema(table.schema).map(_.dataType), loaded.transform(table).schema.map(_.dataType))
  }

  test("a model without a path is saved with its content") {
    val path = temporary("doubled").toString
    doubled().write.save(path)
    val loaded = MXNetModel.load(path).transform(spark.range(3).select(col("id").as("value")))
    assertEquals(loaded.collect().map(_.getSeq[Double](1).head).toSeq, Seq(0.0, 2.0, 4.0))
  }

  test("a loaded model is saved to its own path, and survives its directory") {
    val table = spark.range(3).select(col("id").as("value"))
    def answers(stage: Transformer) =
      stage.transform(table).select("doubled").collect().map(_.getSeq[Double](0).head).toSeq
    val (alone, pipeline) = (temporary("alone").toString, temporary("pipeline").toString)
    doubled().write.save(alone)
    val loaded = MXNetModel.load(alone)
    loaded.write.overwrite().save(alone)
    assertEquals(answers(MXNetModel.load(alone)), Seq(0.0, 2.0, 4.0))
    new Pipeline().setStages(Array[PipelineStage](loaded)).fit(table).write.save(pipeline)
    PipelineModel.load(pipeline).write.overwrite().save(pipeline)
    val last = PipelineModel.load(pipeline)
    Seq(alone, pipeline).foreach(path =>
      Using.resource(Files.walk(Paths.get(path))) { files =>
        files.sorted(java.util.Comparator.reverseOrder()).forEach(Files.delete(_))
      }
    )
    assertEquals(answers(last), Seq(0.0, 2.0, 4.0))
    assertEquals(answers(loaded.copy(ParamMap.empty)), Seq(0.0, 2.0, 4.0))
  }

  test("a model without a path is serialized with its content, which a process stores once") {
    // Longer than one buffer of the stream.
    val weight = NDArray.array(Array.tabulate(600000)(i => (i % 997).toFloat), Shape(1000, 600))
    val network = Symbol.api.FullyConnected(Symbol.Variable("data"), num_hidden = 1000, no_bias = true, name = "fc")
    val model = new MXNetModel()
      .setNetwork(network, Map("fc_weight" -> weight))
      .setFeedDict(Map("data" -> "value"))
    def write(values: AnyRef*): Array[Byte] = {
      val bytes = new ByteArrayOutputStream
      Using.resource(new ObjectOutputStream(bytes))(out => values.foreach(out.writeObject))
      bytes.toByteArray
    }
    val in = new ObjectInputStream(new ByteArrayInputStream(write(model, model.copy(ParamMap.empty), "after")))
    val sent = Seq.fill(2)(in.readObject().asInstanceOf[MXNetModel])
    assertEquals(in.readObject(), "after": AnyRef)
    assertNotEquals(sent.head.files.main, model.files.main)
    assertEquals(sent.last.files.main, sent.head.files.main)
    val copied = sent.head.files
    assertEquals(ModelFiles(copied.main, copied.others).hash, model.files.hash, "of the content")
    assertEquals(sent.head.innerModel.getArgParams("fc_weight"), weight)

    val bytes = write(doubled())
    for (length <- Seq(bytes.length - 1, bytes.length / 2))
      intercept[IOException](new ObjectInputStream(new ByteArrayInputStream(bytes.take(length))).readObject())
    val whole = new ObjectInputStream(new ByteArrayInputStream(bytes)).readObject().asInstanceOf[MXNetModel]
    assertEquals(whole.transform(spark.range(1).select(lit(3.0).as("value"))).head().getSeq[Double](1), Seq(6.0))
  }

  test("the new columns stay lazy: joins, filters and streams see them as any others") {
    val frame = doubled().transform(spark.range(0, 6, 1, 2).select(col("id").as("value")))
    assertEquals(frame.as("a").join(frame.as("b"), "value").count(), 6L)
    assertEquals(frame.where(col("doubled")(0) > 6).select("value").collect().map(_.getLong(0)).toSet, Set(4L, 5L))
    assertEquals(frame.select("value").queryExecution.optimizedPlan.output.map(_.name), Seq("value"))
    val files = temporary("numbers").toString
    spark.range(5).select(col("id").as("value")).write.parquet(files)
    val stream = doubled().transform(spark.readStream.schema("value BIGINT").parquet(files))
    assert(stream.isStreaming)
    stream.writeStream
      .format("memory")
      .queryName("doubled_stream")
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
    val seen = spark.table("doubled_stream").select("value", "doubled").collect()
    assertEquals(
      seen.map(row => row.getLong(0) -> row.getSeq[Double](1).head).toMap,
      (0L to 4L).map(i => i -> i * 2.0).toMap
    )
  }

  test("a view of the new columns is read in another session") {
    doubled().transform(spark.range(3).select(col("id").as("value"))).createOrReplaceGlobalTempView("doubled_rows")
    val other = spark.newSession()
    assertEquals(other.table("global_temp.doubled_rows").where(col("doubled")(0) >= 2).count(), 2L)
    val rows = other.sql("SELECT value, doubled[0] AS twice FROM global_temp.doubled_rows").collect()
    assertEquals(rows.map(row => row.getLong(0) * 2.0).toSeq, rows.map(_.getDouble(1)).toSeq)
  }

  test("rows are filtered by other columns before the model runs") {
    val frame = spark.range(6).select(when(col("id") =!= 2, col("id")).as("value"), col("id"))
    val answers = doubled().transform(frame)
    // The model would fail at the row with null.
    assertEquals(answers.where("id > 3 AND doubled[0] > 8").collect().map(_.getLong(1)).toSeq, Seq(5L))
    assertEquals(answers.where(col("id") =!= 2).where("id < 4").count(), 3L)
    assert(causes(intercept[Exception](answers.where("doubled[0] > 8").collect())).contains("column 'value' is null"))
  }

  test("variables of the same name are one input") {
    val sum = Symbol.Variable("data") + Symbol.Variable("data") * 3.0
    val model = new MXNetModel()
      .setNetwork(sum, Map.empty)
      .setFeedDict(Map("data" -> "value"))
      .setFetchDict(Map("sum" -> sum.listOutputs().head))
    val sums = model.transform(spark.range(3).toDF("value")).select("sum").collect().map(_.getSeq[Float](0).head)
    assertEquals(sums.toSet, Set(0f, 4f, 8f))
  }

  test("rows with null are an error or skipped") {
    val frame = spark.range(4).select(when(col("id") === 2, lit(null)).otherwise(col("id")).as("value"))
    val error = causes(intercept[Exception](doubled().transform(frame).collect()))
    assert(error.contains("column 'value' is null in a row"), error)
    assertEquals(doubled().setHandleInvalid("skip").transform(frame).count(), 3L)
  }

  test("rows with NaN are an error, skipped, or given to the model") {
    val isBad = col("id") % 3 === 0
    val number = when(isBad, Double.NaN).otherwise(col("id").cast("double"))
    val toVector = udf((value: Double) => Vectors.dense(value))
    val frame = spark.range(40).repartition(3).select(col("id"), number.as("value"))
    val columns = Seq(col("value"), col("value").cast("float"), array(col("value")), toVector(col("value")))
    for (column <- columns) {
      val table = frame.select(col("id"), column.as("value"))
      val error = causes(intercept[Exception](doubled().transform(table).collect()))
      assert(error.contains("column 'value' has NaN in a row; set handleInvalid to 'skip'"), error)
      // A batch may have no valid rows.
      val skipping = doubled().setHandleInvalid("skip").setBatchSize(1).transform(table)
      assertEquals(skipping.count(), 26L)
      val kept = skipping.select("id", "doubled").collect().map(row => row.getLong(0) -> row.getSeq[Double](1).head)
      assertEquals(kept.toSeq.sorted, (0L until 40L).filter(_ % 3 != 0).map(id => id -> 2.0 * id))
      val all = doubled().setHandleInvalid("keep").transform(table).where("isnan(doubled[0])")
      assertEquals(all.count(), 14L)
    }
    assertEquals(doubled().setHandleInvalid("skip").transform(frame.where(isBad)).count(), 0L)
    val empty = frame.withColumn("value", lit(null).cast("double"))
    assert(
      causes(intercept[Exception](doubled().setHandleInvalid("keep").transform(empty).collect())).contains("is null")
    )
    val option = intercept[IllegalArgumentException](doubled().setHandleInvalid("ignore")).getMessage
    assert(option.contains("the parameter handleInvalid is invalid: 'ignore' is not one of error, skip, keep"), option)
  }

  test("errors of the schema name the column, what it is and what it should be") {
    def message(model: MXNetModel, frame: DataFrame = digits): String =
      intercept[IllegalArgumentException](model.transform(frame)).getMessage
    val missing = message(lenet.setFeedDict(Map("data" -> "image")))
    assert(
      missing.contains("there is no column 'image' for the input 'data'; the columns are id, pixels, label"),
      missing
    )
    val wrong = message(lenet.setFeedDict(Map("data" -> "name")), digits.withColumn("name", lit("three")))
    assert(wrong.contains("column 'name' has the type STRING; the input 'data' takes a number, an array"), wrong)
    val input = message(lenet.setFeedDict(Map("image" -> "pixels")))
    assert(input.contains("the model has no such input; it has data, softmax_label"), input)
    val output = message(lenet.setFetchDict(Map("probabilities" -> "softmax")))
    assert(output.contains("the model has no output 'softmax'; it has softmax_output"), output)
    assert(message(lenet.setPredictionCol("label")).contains("the new column 'label' exists already"))
    assert(message(new MXNetModel()).contains("has no model; set modelPath"))
    val short = lenet.transform(digits.withColumn("pixels", typedlit(Seq(1f, 2f))))
    val length = causes(intercept[Exception](short.collect()))
    assert(length.contains("column 'pixels' has a value of 2 elements, but the model's input needs 64"), length)
    val rank = causes(intercept[Exception](lenet.setInputShapes(Map("data" -> Shape(64))).transform(digits).collect()))
    assert(rank.contains("the model cannot take rows of shape data (64): Error in operator conv1"), rank)
    assert(rank.contains("set the parameter inputShapes"), rank)
    val unknown = message(lenet.setInputShapes(Map("image" -> Shape(1, 8, 8))))
    assert(unknown.contains("inputShapes has a shape for 'image', which is not an input; the inputs are data"), unknown)
    intercept[IllegalArgumentException](lenet.setBatchSize(0))
    val large = causes(intercept[Exception](lenet.setBatchSize(1 << 28).transform(digits).collect()))
    assert(large.contains("column 'pixels' needs 64 numbers per row, too many for a batch of 268435456 rows"), large)
  }

  test("files that are missing or damaged are named") {
    val missing = intercept[java.io.FileNotFoundException](lenet.setEpoch(7).transform(digits)).getMessage
    assert(missing.contains("lenet-0007.params"), missing)
    val prefix = temporary("bad")
    Files.copy(Paths.get(Digits.ModelPath + "-symbol.json"), Paths.get(s"$prefix-symbol.json"))
    Files.write(
      Paths.get(s"$prefix-0000.params"),
      Files.readAllBytes(Paths.get(s"${Digits.ModelPath}-0030.params")).take(5000)
    )
    val damaged = intercept[MXNetError](lenet.setModelPath(prefix.toString).setEpoch(0).transform(digits)).getMessage
    assert(damaged.startsWith("the model bad-symbol.json cannot be loaded: "), damaged)
    val onnx = intercept[MXNetError](lenet.setPayload(Array[Byte](1, 2, 3)).transform(digits)).getMessage
    assert(onnx.startsWith("the model model.onnx cannot be loaded: "), onnx)
  }

  test("an empty table gives an empty table") {
    assertEquals(lenet.transform(digits.where("id < 0")).collect().length, 0)
  }

  test("every parameter is explained, and a copy keeps the model") {
    val text = lenet.explainParams()
    assert(text.contains("""(current: {"data":"pixels"})"""), text)
    Seq("modelPath", "feedDict", "fetchDict", "inputShapes", "batchSize", "imageMean", "predictionCol", "handleInvalid")
      .foreach(name => assert(text.contains(s"$name: "), name))
    val copied = doubled().copy(ParamMap.empty)
    assertEquals(copied.transform(spark.range(1).select(col("id").as("value"))).count(), 1L)
    val model = doubled()
    val replaced = model.copy(ParamMap(model.modelPath -> Digits.ModelPath, model.epoch -> Digits.ModelEpoch))
    assertEquals(replaced.files.main.getFileName.toString, "lenet-symbol.json", "a path replaces the content")
  }

  private def causes(error: Throwable): String = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).mkString("\n")
}

object MXNetModelSuite {

  /** How many models the executor of this task loaded so far. Each task waits, so that both executors get some. */
  def sessionLoads(): (String, Long) = {
    Thread.sleep(20)
    SparkEnv.get.executorId -> ModelSession.numLoads
  }
}
