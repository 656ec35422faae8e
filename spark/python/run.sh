#!/usr/bin/env bash
# Runs the tests of the PySpark wrapper, in a classic session and through Spark Connect, with the library that `sbt publishLocal` in jvm/ has
# published.
#   FERROMX_PYSPARK=PYTHON  a Python that has pyspark[connect] 4.1; without it nothing is run
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ -z ${FERROMX_PYSPARK:-} ]]; then
  echo "skipped: set FERROMX_PYSPARK to a Python that has the package pyspark[connect] 4.1"
  exit 0
fi
jars=$(cd spark && ../scripts/sbt "export Runtime/fullClasspath" | grep '\.jar' | tail -1)
export PYTHONPATH=spark/python PYSPARK_SUBMIT_ARGS="--jars ${jars//:/,} pyspark-shell"
export PYSPARK_PYTHON=$FERROMX_PYSPARK PYTHONDONTWRITEBYTECODE=1
for session in classic connect; do
  echo "$session"
  "$FERROMX_PYSPARK" spark/python/test_model.py $session
done
