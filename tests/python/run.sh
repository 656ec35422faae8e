#!/usr/bin/env bash
# Runs the programs in this folder, which use MXNet's Python package, with this library and with MXNet's, and compares their results.
#   FERROMX_PYTHON=PYTHON  a Python that has the package mxnet 1.9.1; without it nothing is run
#   LIBRARY=FILE           the library, target/release/libmxnet.so by default
#   tests/python/run.sh arrays symbols   runs only these programs
set -uo pipefail
cd "$(dirname "$0")"
if [ -z "${FERROMX_PYTHON:-}" ]; then
  echo "skipped: set FERROMX_PYTHON to a Python that has the package mxnet 1.9.1"
  exit 0
fi
library=$(realpath "${LIBRARY:-../../target/release/libmxnet.so}") || exit 1
[ -e "$library" ] || { echo "there is no $library: run cargo build --release -p libmxnet"; exit 1; }
"$FERROMX_PYTHON" -W ignore -c 'import mxnet; assert mxnet.__version__ == "1.9.1", mxnet.__version__' ||
  { echo "$FERROMX_PYTHON does not have the package mxnet 1.9.1: install it or set FERROMX_PYTHON to another Python"; exit 1; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
programs=("$@")
[ ${#programs[@]} -gt 0 ] || programs=(arrays edges symbols numpy_api gluon_layers gluon_train model_zoo inference recurrent_blocks
    autograd_errors opperf data_dependent module_fit executors key_value_stores data_iterators library precision
    control_flow optimizers distributed moving_averages gradient_storage
    sparse_graphs user_operators)
expected() {
  RECORD_TO="$out/expected.npz" "$FERROMX_PYTHON" -W ignore "$1.py" > "$out/expected.log" 2>&1
}

failed=0
for name in "${programs[@]}"; do
  echo "$name"
  expected "$name" &
  MXNET_LIBRARY_PATH=$library RECORD_TO="$out/actual.npz" "$FERROMX_PYTHON" -W ignore "$name.py" > "$out/actual.log" 2>&1
  status=$?
  # MXNet's library crashes now and then, so it has a second chance.
  wait $! || expected "$name" || { echo "  it fails with MXNet's library:"; tail -5 "$out/expected.log"; failed=1; continue; }
  [ $status -eq 0 ] || { echo "  FAIL"; tail -8 "$out/actual.log"; failed=1; continue; }
  "$FERROMX_PYTHON" compare.py "$out/expected.npz" "$out/actual.npz" || { echo "  FAIL"; failed=1; }
done
exit $failed
