"""The PySpark wrapper on the digits. Run in the root of the project, with the jars on Spark's class path:

    PYTHONPATH=spark/python python3 spark/python/test_model.py
"""

import tempfile
import unittest

from ferromx_spark import MXNetEstimator, MXNetModel
from pyspark.ml import Pipeline, PipelineModel
from pyspark.sql import SparkSession

DIGITS = "data/digits/t10k-"


class ModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
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

    def right(self, model):
        return model.transform(self.digits).where("prediction = label").count()

    def test_accuracy(self):
        self.assertGreaterEqual(self.right(self.model()), 280)
        self.assertEqual(len(self.model().transform(self.digits).head().probabilities), 10)

    def test_saved_alone_and_in_a_pipeline(self):
        with tempfile.TemporaryDirectory() as folder:
            model = self.model()
            model.save(folder + "/model")
            loaded = MXNetModel.load(folder + "/model")
            self.assertEqual(loaded.getOrDefault(loaded.inputShapes), {"data": "1,8,8"})
            self.assertEqual(loaded.getOrDefault(loaded.feedDict), {"data": "pixels"})
            self.assertEqual(self.right(loaded), self.right(model))
            Pipeline(stages=[model]).fit(self.digits).save(folder + "/pipeline")
            pipeline = PipelineModel.load(folder + "/pipeline")
            self.assertIsInstance(pipeline.stages[0], MXNetModel)
            self.assertEqual(self.right(pipeline), self.right(model))

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
        self.assertEqual(loaded.getOrDefault(loaded.optimizerParams), {"momentum": "0.9"})
        self.assertEqual(loaded.getOrDefault(loaded.symbol), network)
        model = loaded.fit(self.digits)
        self.assertIsInstance(model, MXNetModel)
        right = self.right(model)
        self.assertGreaterEqual(right, 270)
        tuned = estimator.setParams(numEpoch=1, learningRate=1e-6).setInitialModel(model).fit(self.digits)
        self.assertAlmostEqual(self.right(tuned), right, delta=3)

    def test_errors_name_the_column(self):
        with self.assertRaisesRegex(Exception, "there is no column 'image'"):
            self.model().setParams(feedDict={"data": "image"}).transform(self.digits)


if __name__ == "__main__":
    unittest.main()
