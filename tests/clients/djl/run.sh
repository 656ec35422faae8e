#!/usr/bin/env bash
# Runs a program that uses DJL's MXNet engine with this library, in the oldest and the newest supported version of DJL.
#   LIBRARY_DIR=DIR  the folder of the library, target/release by default; with that of MXNet's own package, the program tests itself
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
library=$(cd "${LIBRARY_DIR:-$root/target/release}" && pwd)
export MXNET_LIBRARY_PATH=$library DJL_CACHE_DIR=$root/build/djl
[[ -e $library/libmxnet.so ]] || { echo "there is no $library/libmxnet.so: run cargo build --release -p libmxnet" >&2; exit 1; }
cd "$root/tests/clients/djl"
exec "$root/scripts/sbt" djl-0-27-0/run djl-0-36-0/run
