"""MXNet models in PySpark: a wrapper of the Scala class, with its parameters.

The jar `ferromx-spark4_2.13` must be on the class path of the driver and the executors, for example by
`spark-submit --packages io.github.ferromx:ferromx-spark4_2.13:0.1.0`.
"""

import sys

from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasHandleInvalid, HasPredictionCol
from pyspark.ml.util import JavaMLReadable, JavaMLReader, JavaMLWritable
from pyspark.ml.wrapper import JavaModel

__all__ = ["MXNetModel"]


def _items(value):
    """The pairs of a dictionary or of a map of the JVM."""
    if isinstance(value, dict):
        return list(value.items())
    pairs = value.toSeq()
    return [(pairs.apply(i)._1(), pairs.apply(i)._2()) for i in range(pairs.length())]


def _string_map(value):
    return {TypeConverters.toString(key): TypeConverters.toString(item) for key, item in _items(value)}


def _shape_map(value):
    def text(shape):
        return shape if isinstance(shape, str) else ",".join(str(int(size)) for size in shape)

    return {TypeConverters.toString(key): text(shape) for key, shape in _items(value)}


class MXNetModel(JavaModel, HasPredictionCol, HasHandleInvalid, JavaMLReadable, JavaMLWritable):
    """Runs a trained network on the rows of a table and adds its outputs as columns.

    >>> model = MXNetModel(
    ...     modelPath="hdfs:///models/lenet",
    ...     feedDict={"data": "pixels"},
    ...     inputShapes={"data": (1, 28, 28)},
    ...     fetchDict={"probabilities": "softmax_output"},
    ... )
    >>> model.transform(images)
    """

    _classpath_model = "org.apache.mxnet.spark.MXNetModel"

    modelPath = Param(Params._dummy(), "modelPath", "path of the model", TypeConverters.toString)
    epoch = Param(Params._dummy(), "epoch", "number NNNN of the file PREFIX-NNNN.params", TypeConverters.toInt)
    feedDict = Param(Params._dummy(), "feedDict", "column of each input, by the name of the input", _string_map)
    fetchDict = Param(Params._dummy(), "fetchDict", "output for each new column, by the name of the column", _string_map)
    inputShapes = Param(Params._dummy(), "inputShapes", "shape of a row of an input, without the batch", _shape_map)
    batchSize = Param(Params._dummy(), "batchSize", "number of rows that the model is run on at once", TypeConverters.toInt)
    imageLayout = Param(Params._dummy(), "imageLayout", "dimensions of images: NCHW or NHWC", TypeConverters.toString)
    imageMean = Param(Params._dummy(), "imageMean", "what is subtracted from pixels", TypeConverters.toListFloat)
    imageStd = Param(Params._dummy(), "imageStd", "what pixels are then divided by", TypeConverters.toListFloat)

    @keyword_only
    def __init__(
        self,
        *,
        modelPath=None,
        epoch=0,
        feedDict=None,
        fetchDict=None,
        inputShapes=None,
        batchSize=64,
        imageLayout="NCHW",
        imageMean=None,
        imageStd=None,
        predictionCol="",
        handleInvalid="error",
    ):
        super().__init__()
        self._java_obj = self._new_java_obj(self._classpath_model, self.uid)
        self._setDefault(
            epoch=0,
            inputShapes={},
            batchSize=64,
            imageLayout="NCHW",
            imageMean=[],
            imageStd=[],
            predictionCol="",
            handleInvalid="error",
        )
        self._set(**{name: value for name, value in self._input_kwargs.items() if value is not None})

    def setParams(self, **values):
        """Sets parameters by their names."""
        return self._set(**values)

    def setPayload(self, onnx):
        """Sets the model by the content of an ONNX file, in place of `modelPath`."""
        self._java_obj.setPayload(onnx)
        self.clear(self.modelPath)
        return self

    @classmethod
    def read(cls):
        return _Reader(cls)


class _Reader(JavaMLReader):
    """Finds the Scala class, whose package has another name than this one."""

    @classmethod
    def _java_loader_class(cls, clazz):
        return clazz._classpath_model


# PySpark looks for the class of a loaded stage in the module that is named as the Scala package.
sys.modules["org.apache.mxnet.spark"] = sys.modules[__name__]
