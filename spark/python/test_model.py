"""The PySpark wrapper on the digits, in a classic session or, with the argument `connect`, through a server of Spark Connect. Run in the
root of the project, with the jars on Spark's class path:

    PYTHONPATH=spark/python python3 spark/python/test_model.py [connect]
"""

import sys
import tempfile
import unittest

from ferromx_spark import MXNetEstimator, MXNetModel
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.param import TypeConverters
from pyspark.sql import SparkSession

DIGITS = "data/digits/t10k-"
CONNECT = "connect" in sys.argv[1:]


class ModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        builder = SparkSession.builder.remote("local[2]") if CONNECT else SparkSession.builder.master("local[2]")
        cls.spark = builder.config("spark.ui.enabled", "false").getOrCreate()
        with open(DIGITS + "images-idx3-ubyte", "rb") as file:
            pixels = file.read()[16:]
        with open(DIGITS + "labels-idx1-ubyte", "rb") as file:
            labels = file.read()[8:]
        rows = [([byte / 256 for byte in pixels[64 * i : 64 * i + 64]], float(label)) for i, label in enumerate(labels)]
        cls.digits = cls.spark.createDataFrame(rows, "pixels array<float>, label double")

    @classmethod
    def tearDownClass(cls):
        cls.spark.stop()

    def model(self):
        return MXNetModel(
            modelPath="tests/oracle/fixtures/lenet",
            epoch=30,
            feedDict={"data": "pixels"},
            inputShapes={"data": (1, 8, 8)},
            fetchDict={"probabilities": "softmax_output"},
            predictionCol="prediction",
        )

    def count_correct(self, model):
        return model.transform(self.digits).where("prediction = label").count()

    def test_accuracy(self):
        self.assertGreaterEqual(self.count_correct(self.model()), 280)
        self.assertEqual(len(self.model().transform(self.digits).head().probabilities), 10)

    def test_saved_alone_and_in_a_pipeline(self):
        with tempfile.TemporaryDirectory() as folder:
            model = self.model()
            model.save(folder + "/model")
            loaded = MXNetModel.load(folder + "/model")
            self.assertEqual(loaded.getInputShapes(), {"data": "1,8,8"})
            self.assertEqual(loaded.getFeedDict(), {"data": "pixels"})
            self.assertEqual(loaded.getFetchDict(), {"probabilities": "softmax_output"})
            self.assertEqual(self.count_correct(loaded), self.count_correct(model))
            Pipeline(stages=[model]).fit(self.digits).save(folder + "/pipeline")
            pipeline = PipelineModel.load(folder + "/pipeline")
            self.assertIsInstance(pipeline.stages[0], MXNetModel)
            self.assertEqual(self.count_correct(pipeline), self.count_correct(model))

    def test_trained_saved_and_fine_tuned(self):
        with open("tests/oracle/fixtures/lenet-symbol.json") as file:
            network = file.read()
        estimator = MXNetEstimator(
            symbol=network,
            featuresCol="pixels",
            inputShapes={"data": (1, 8, 8)},
            optimizerParams={"momentum": 0.9},
            learningRate=0.05,
            batchSize=32,
            numEpoch=10,
            numWorkers=2,
        )
        with tempfile.TemporaryDirectory() as folder:
            estimator.save(folder + "/estimator")
            loaded = MXNetEstimator.load(folder + "/estimator")
        self.assertEqual(loaded.getOptimizerParams(), {"momentum": "0.9"})
        self.assertEqual(loaded.getOrDefault(loaded.symbol), network)
        model = loaded.fit(self.digits)
        self.assertIsInstance(model, MXNetModel)
        correct = self.count_correct(model)
        self.assertGreaterEqual(correct, 270)
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder + "/model")
            self.assertEqual(self.count_correct(MXNetModel.load(folder + "/model")), correct)
        if CONNECT:
            with self.assertRaisesRegex(NotImplementedError, "setInitialModel is not available"):
                estimator.setInitialModel(model)
            return
        tuned = estimator.setParams(numEpoch=1, learningRate=1e-6).setInitialModel(model).fit(self.digits)
        self.assertAlmostEqual(self.count_correct(tuned), correct, delta=3)

    @unittest.skipIf(CONNECT, "a client has no object of Scala")
    def test_parameters_and_defaults_equal_those_of_scala(self):
        for stage in MXNetModel(), MXNetEstimator():
            scala = {param.name(): param for param in stage._java_obj.params()}
            self.assertEqual({param.name for param in stage.params}, set(scala))
            for param in stage.params:
                default = stage._java_obj.getDefault(scala[param.name])
                self.assertEqual(stage.hasDefault(param), default.isDefined(), param.name)
                if default.isDefined():
                    value = default.get()
                    expected = list(value) if param.typeConverter is TypeConverters.toListFloat else param.typeConverter(value)
                    self.assertEqual(stage.getOrDefault(param), expected, param.name)

    def test_maps_are_dictionaries_or_json(self):
        estimator = MXNetEstimator(optimizerParams={"wd": 1e-4, "momentum": 0.5}, inputShapes='{"data": "64"}')
        self.assertEqual(estimator.getOptimizerParams(), {"momentum": "0.5", "wd": "0.0001"})
        self.assertEqual(estimator.getInputShapes(), {"data": "64"})
        self.assertEqual(estimator.getInitializerParams(), {})
        self.assertEqual(MXNetEstimator(inputShapes={"data": 64, "other": (2, 3)}).getInputShapes(), {"data": "64", "other": "2,3"})
        self.assertEqual((estimator.setNumWorkers(3).getNumShards(), estimator.setNumShards(6).getNumShards()), (3, 6))
        with self.assertRaisesRegex(TypeError, "takes an MXNetModel, not str"):
            estimator.setInitialModel("model")
        with self.assertRaises(TypeError):
            estimator.setParams(feedDict=7)

    def test_every_parameter_has_a_getter_and_a_setter(self):
        for stage in MXNetModel(), MXNetEstimator():
            for param in stage.params:
                suffix = param.name[0].upper() + param.name[1:]
                self.assertTrue(callable(getattr(stage, "set" + suffix)), param.name)
                self.assertTrue(callable(getattr(stage, "get" + suffix)), param.name)
        model = MXNetModel().setModelPath("x").setFeedDict({"data": "pixels"}).setImageMean([1, 2, 3]).setPredictionCol("p")
        self.assertEqual((model.getModelPath(), model.getFeedDict(), model.getImageMean()), ("x", {"data": "pixels"}, [1.0, 2.0, 3.0]))
        estimator = MXNetEstimator().setNumEpoch(3).setLabelCol("y").setSeed(7).setOptimizerParams({"wd": 0.1})
        self.assertEqual((estimator.getNumEpoch(), estimator.getLabelCol(), estimator.getSeed()), (3, "y", 7))
        self.assertEqual(estimator.getOptimizerParams(), {"wd": "0.1"})
        with self.assertRaises(TypeError):
            model.setBatchSize("many")

    def test_errors_name_the_column(self):
        with self.assertRaisesRegex(Exception, "there is no column 'image'"):
            self.model().setParams(feedDict={"data": "image"}).transform(self.digits).count()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
