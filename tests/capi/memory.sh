#!/usr/bin/env bash
# Runs the C programs under out-of-memory conditions: with a limited address space, and with injected allocation failures. Their tests
# may fail, but no process may end by a signal. Needs a library with the feature allocation-faults:
#   cargo build -p libmxnet --features allocation-faults
#   tests/capi/memory.sh [RUNS]     RUNS: runs per program and kind of failure, 20 by default; failing allocations are spread evenly
# LIBRARY_DIR=DIR uses the library in DIR instead of target/debug.
set -uo pipefail
cd "$(dirname "$0")/../.."
readonly runs=${1:-20}
library=$(cd "${LIBRARY_DIR:-target/debug}" && pwd) || exit 1
[ -e "$library/libmxnet.so" ] || { echo "there is no $library/libmxnet.so: run cargo build -p libmxnet --features allocation-faults"; exit 1; }
readonly library out=target/capi-memory
mkdir -p "$out"
passed=0 failed=0

# survives WHAT COMMAND... : the command may fail, but must not end by a signal or a timeout.
survives() {
  local what=$1 status
  shift
  timeout 120 "$@" >"$out/log" 2>&1
  status=$?
  if [ "$status" -ge 124 ]; then
    echo "FAIL $what: exit status $status"
    tail -3 "$out/log"
    failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
}

limited() {
  ulimit -v "$1"
  shift
  exec "$@"
}

# Upper bound of a program's number of allocations, at most twice that number.
allocations() {
  local count=1024
  while FERROMX_FAIL_ALLOCATION=$count "$1" 2>&1 >/dev/null | grep -q 'this allocation fails'; do
    count=$((count * 2))
  done
  echo "$count"
}

export OMP_NUM_THREADS=2 RUST_BACKTRACE=1 STOP_AT_FAILURE=1
for source in tests/capi/*.c; do
  name=$(basename "$source" .c)
  program=$out/$name
  ${CC:-cc} -std=gnu11 -O1 -I native/capi/include "$source" -o "$program" -L "$library" -lmxnet -Wl,-rpath,"$library" -lm -lpthread || exit 1
  total=$(allocations "$program")
  for ((i = 0; i < runs; i++)); do
    survives "$name, allocation $((total * i / runs)) fails" env FERROMX_FAIL_ALLOCATION=$((total * i / runs)) "$program"
    kilobytes=$((120000 + 300000 * i / runs))
    survives "$name within $kilobytes KiB" bash -c "$(declare -f limited); limited $kilobytes $program"
  done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
