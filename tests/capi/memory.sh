#!/usr/bin/env bash
# Runs the C programs here while memory runs out: under limits of the address space, and with one allocation after the other failing.
# Their tests may fail then; the process must not end by a signal. Needs a library with the feature allocation-faults:
#   cargo build -p libmxnet --features allocation-faults
#   tests/capi/memory.sh [RUNS]     RUNS: per program and kind of failure, 20 unless given; the allocations are spread evenly
# LIBRARY_DIR=DIR takes the library from elsewhere than target/debug.
set -uo pipefail
cd "$(dirname "$0")/../.."
readonly runs=${1:-20}
library=$(cd "${LIBRARY_DIR:-target/debug}" && pwd) || exit 1
[ -e "$library/libmxnet.so" ] || { echo "there is no $library/libmxnet.so: run cargo build -p libmxnet --features allocation-faults"; exit 1; }
readonly library out=target/capi-memory
mkdir -p "$out"
passed=0 failed=0

# survives WHAT COMMAND... : the command may fail, but not by a signal, and not by a deadlock.
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

# The number of allocations that a program makes, to a factor of two.
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
