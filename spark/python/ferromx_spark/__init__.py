"""MXNet models in PySpark: wrappers of the Scala classes, with their parameters.

The jar `ferromx-spark4_2.13` must be on the class path of the driver and the executors, for example by
`spark-submit --packages io.github.ferromx:ferromx-spark4_2.13:0.1.0`.
"""

import json
import sys

from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasHandleInvalid,
    HasLabelCol,
    HasOutputCol,
    HasPredictionCol,
    HasSeed,
    HasValidationIndicatorCol,
)
from pyspark.ml.util import JavaMLReadable, JavaMLReader, JavaMLWritable
from pyspark.ml.wrapper import JavaEstimator, JavaModel, JavaTransformer
from pyspark.sql.utils import is_remote

__all__ = ["MXNetEstimator", "MXNetModel"]


def _map(value, text=TypeConverters.toString):
    """A dictionary as JSON, the form of the parameter in Scala, too."""
    items = json.loads(value) if isinstance(value, str) else dict(value)
    texts = {TypeConverters.toString(key): text(item) for key, item in items.items()}
    return json.dumps(texts, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _setting_map(value):
    """Numbers become texts, as in MXNet."""
    return _map(value, str)


def _shape(value):
    if isinstance(value, (str, int)):
        return str(value)
    return ",".join(str(int(size)) for size in value)


def _shape_map(value):
    return _map(value, _shape)


def _with_accessors(stage):
    """Adds the methods getX and setX of each parameter that the class does not have yet."""

    def add(name):
        suffix = name[0].upper() + name[1:]
        if not hasattr(stage, "get" + suffix):
            setattr(stage, "get" + suffix, lambda self: self.getOrDefault(name))
        if not hasattr(stage, "set" + suffix):
            setattr(stage, "set" + suffix, lambda self, value: self._set(**{name: value}))

    for name in dir(stage):
        if isinstance(getattr(stage, name), Param):
            add(name)
    return stage


class _Stage(JavaMLReadable, JavaMLWritable):
    """Methods that both stages share."""

    feedDict = Param(Params._dummy(), "feedDict", "column of each input, by the name of the input", _map)
    inputShapes = Param(Params._dummy(), "inputShapes", "shape of a row of an input, without the batch", _shape_map)

    def _start(self, defaults, values, java_object=None):
        self._java_obj = java_object or self._new_java_obj(self._classpath, self.uid)
        self._setDefault(inputShapes={}, **defaults)
        self._set(**{name: value for name, value in values.items() if value is not None})

    def setParams(self, **values):
        """Sets parameters by their names."""
        return self._set(**values)

    def _dictionary(self, param):
        return json.loads(self.getOrDefault(param))

    def getFeedDict(self):
        return self._dictionary(self.feedDict)

    def getInputShapes(self):
        return self._dictionary(self.inputShapes)

    @classmethod
    def read(cls):
        return _remote_reader(cls) if is_remote() else _Reader(cls)


@_with_accessors
class MXNetModel(_Stage, JavaModel, HasPredictionCol, HasHandleInvalid):
    """Runs a trained network on the rows of a table and adds its outputs as columns.

    >>> model = MXNetModel(
    ...     modelPath="hdfs:///models/lenet",
    ...     feedDict={"data": "pixels"},
    ...     inputShapes={"data": (1, 28, 28)},
    ...     fetchDict={"probabilities": "softmax_output"},
    ... )
    >>> model.transform(images)
    """

    _classpath = "org.apache.mxnet.spark.MXNetModel"

    modelPath = Param(Params._dummy(), "modelPath", "path of the model", TypeConverters.toString)
    epoch = Param(Params._dummy(), "epoch", "number NNNN of the file PREFIX-NNNN.params", TypeConverters.toInt)
    fetchDict = Param(Params._dummy(), "fetchDict", "output for each new column, by the name of the column", _map)
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
        defaults = dict(
            epoch=0, batchSize=64, imageLayout="NCHW", imageMean=[], imageStd=[], predictionCol="", handleInvalid="error"
        )
        self._start(defaults, self._input_kwargs)

    def getFetchDict(self):
        return self._dictionary(self.fetchDict)

    def setPayload(self, onnx):
        """Sets the model by the content of an ONNX file, in place of `modelPath`."""
        _require_classic("setPayload", "set modelPath to a file that the server can read")
        self._java_obj.setPayload(onnx)
        self.clear(self.modelPath)
        return self

    def _is_described(self):
        """True if a Spark Connect server creates the model from the parameters; False if it already has the model."""
        return isinstance(self._java_obj, str)

    def _as_transformer(self):
        transformer = JavaTransformer(self._java_obj)
        transformer._resetUid(self.uid)
        transformer._paramMap = self._paramMap
        return transformer

    def _transform(self, dataset):
        return JavaModel._transform(self._as_transformer() if self._is_described() else self, dataset)

    def write(self):
        if self._is_described():
            from pyspark.ml.connect.readwrite import RemoteMLWriter

            return RemoteMLWriter(self._as_transformer())
        return super().write()

    def __repr__(self):
        return f"MXNetModel: uid={self.uid}" if is_remote() else super().__repr__()

    @classmethod
    def _from_java(cls, java_stage):
        """The wrapper of a model that the JVM created: trained, or loaded."""
        model = cls()
        model._java_obj = java_stage
        if is_remote():  # a reference; the server has the parameters
            return model
        model._resetUid(java_stage.uid())
        model._transfer_params_from_java()
        return model


@_with_accessors
class MXNetEstimator(
    _Stage,
    JavaEstimator,
    HasFeaturesCol,
    HasLabelCol,
    HasPredictionCol,
    HasOutputCol,
    HasSeed,
    HasValidationIndicatorCol,
    HasHandleInvalid,
):
    """Trains a network on the rows of a table, with tasks that add up their gradients at every step.

    >>> estimator = MXNetEstimator(
    ...     symbol=network.tojson(),
    ...     featuresCol="pixels",
    ...     inputShapes={"data": (1, 28, 28)},
    ...     optimizerParams={"momentum": "0.9"},
    ...     numWorkers=4,
    ... )
    >>> model = estimator.fit(images)
    """

    _classpath = "org.apache.mxnet.spark.MXNetEstimator"

    symbol = Param(Params._dummy(), "symbol", "the network as JSON", TypeConverters.toString)
    labelName = Param(Params._dummy(), "labelName", "name of the network's argument for the label", TypeConverters.toString)
    numWorkers = Param(Params._dummy(), "numWorkers", "number of tasks that train at the same time", TypeConverters.toInt)
    numShards = Param(Params._dummy(), "numShards", "number of shards of a batch, a multiple of numWorkers", TypeConverters.toInt)
    batchSize = Param(Params._dummy(), "batchSize", "number of rows of a batch over all workers", TypeConverters.toInt)
    numEpoch = Param(Params._dummy(), "numEpoch", "number of passes over the data", TypeConverters.toInt)
    optimizer = Param(Params._dummy(), "optimizer", "name of the optimizer, such as sgd or adam", TypeConverters.toString)
    optimizerParams = Param(Params._dummy(), "optimizerParams", "settings of the optimizer", _setting_map)
    metric = Param(Params._dummy(), "metric", "name of the metric, such as acc or rmse", TypeConverters.toString)
    metricMode = Param(Params._dummy(), "metricMode", "better metric: auto, max or min", TypeConverters.toString)
    initializer = Param(Params._dummy(), "initializer", "name of the initializer, such as xavier", TypeConverters.toString)
    initializerParams = Param(Params._dummy(), "initializerParams", "settings of the initializer", _setting_map)
    learningRate = Param(Params._dummy(), "learningRate", "learning rate of the optimizer", TypeConverters.toFloat)
    checkpointDir = Param(Params._dummy(), "checkpointDir", "directory of checkpoints", TypeConverters.toString)
    checkpointInterval = Param(Params._dummy(), "checkpointInterval", "epochs between two checkpoints", TypeConverters.toInt)
    checkpointKeep = Param(Params._dummy(), "checkpointKeep", "number of checkpoints to keep; 0 for all", TypeConverters.toInt)
    earlyStopping = Param(Params._dummy(), "earlyStopping", "epochs without a better metric; 0 for never", TypeConverters.toInt)
    timeout = Param(Params._dummy(), "timeout", "seconds that a worker waits for others", TypeConverters.toInt)

    @keyword_only
    def __init__(
        self,
        *,
        symbol=None,
        featuresCol="features",
        labelCol="label",
        feedDict=None,
        labelName="softmax_label",
        inputShapes=None,
        numWorkers=1,
        numShards=None,
        batchSize=128,
        numEpoch=10,
        optimizer="sgd",
        optimizerParams=None,
        metric="acc",
        metricMode="auto",
        initializer="xavier",
        initializerParams=None,
        learningRate=0.01,
        seed=42,
        validationIndicatorCol=None,
        checkpointDir=None,
        checkpointInterval=1,
        checkpointKeep=2,
        earlyStopping=0,
        outputCol="output",
        predictionCol="prediction",
        handleInvalid="error",
        timeout=300,
    ):
        super().__init__()
        defaults = dict(
            labelName="softmax_label",
            numWorkers=1,
            batchSize=128,
            numEpoch=10,
            optimizer="sgd",
            optimizerParams={},
            metric="acc",
            metricMode="auto",
            initializer="xavier",
            initializerParams={},
            learningRate=0.01,
            seed=42,
            checkpointInterval=1,
            checkpointKeep=2,
            earlyStopping=0,
            outputCol="output",
            handleInvalid="error",
            timeout=300,
        )
        self._start(defaults, self._input_kwargs)

    def getOptimizerParams(self):
        return self._dictionary(self.optimizerParams)

    def getInitializerParams(self):
        return self._dictionary(self.initializerParams)

    def getNumShards(self):
        return self.getOrDefault(self.numShards) if self.isDefined(self.numShards) else self.getNumWorkers()

    def setInitialModel(self, model):
        """Sets a model whose parameters training starts from."""
        if not isinstance(model, MXNetModel):
            raise TypeError(f"setInitialModel takes an MXNetModel, not {type(model).__name__}")
        _require_classic("setInitialModel", "fine-tune in a classic session")
        model._transfer_params_to_java()
        self._java_obj.setInitialModel(model._java_obj)
        return self

    def _create_model(self, java_model):
        return MXNetModel._from_java(java_model)


class _Reader(JavaMLReader):
    """Finds the Scala class, whose package has another name than this one."""

    @classmethod
    def _java_loader_class(cls, clazz):
        return clazz._classpath


def _remote_reader(clazz):
    """Reads a stage through Spark Connect. The parameters of a model name the saved files, so that it is read as a transformer."""
    from pyspark.ml.connect.readwrite import RemoteMLReader

    base = JavaEstimator if issubclass(clazz, JavaEstimator) else JavaTransformer
    return RemoteMLReader(type(clazz.__name__, (base,), {"__module__": "org.apache.mxnet.spark"}))


def _require_classic(method, remedy):
    if is_remote():
        raise NotImplementedError(f"{method} is not available through Spark Connect; {remedy}")


# PySpark looks for the class of a loaded stage in the module that is named as the Scala package.
sys.modules["org.apache.mxnet.spark"] = sys.modules[__name__]
