#!/usr/bin/env bash
# Lists the functions of the header that no program in this folder calls, and fails if there are any.
set -euo pipefail
cd "$(dirname "$0")"
missing=0
for name in $(grep -oE '\b(MX|NN|Ferro)[A-Za-z0-9_]+ *\(' ../../native/capi/include/mxnet/c_api.h | tr -d ' (' | sort -u); do
  grep -qw "$name" ./*.c check.h || { echo "no program calls $name"; missing=1; }
done
exit $missing
