#!/usr/bin/env bash
# Runs a program of DJL's MXNet engine, in the oldest and the newest version that we test, with this library behind it.
#   LIBRARY_DIR=DIR  takes the library from elsewhere than target/release; with the folder of MXNet's own package the program tests itself
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
library=$(cd "${LIBRARY_DIR:-$root/target/release}" && pwd)
export MXNET_LIBRARY_PATH=$library DJL_CACHE_DIR=$root/build/djl
[[ -e $library/libmxnet.so ]] || { echo "there is no $library/libmxnet.so: run cargo build --release -p libmxnet" >&2; exit 1; }
cd "$root/tests/clients/djl"
exec "$root/scripts/sbt" djl-0-27-0/run djl-0-36-0/run
