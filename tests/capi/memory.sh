#!/usr/bin/env bash
# Runs the C programs under out-of-memory conditions: with injected allocation failures, and with a limited address space. Their tests
# may fail, but no process may end by a signal. Needs a debug build of the library: cargo build --workspace
#   tests/capi/memory.sh [RUNS]     RUNS: runs per program and kind of failure, 20 by default; failing allocations are spread evenly
#   tests/capi/memory.sh all        one run for each allocation of each program, which fails; takes days
# LIBRARY_DIR=DIR uses the library in DIR instead of target/debug.
set -uo pipefail
cd "$(dirname "$0")/../.."
readonly runs=${1:-20}
[[ $runs == all || $runs =~ ^[1-9][0-9]*$ ]] || { echo "memory.sh: expected a number of runs or 'all', not '$runs'" >&2; exit 1; }
library=$(cd "${LIBRARY_DIR:-target/debug}" && pwd) || exit 1
[ -e "$library/libmxnet.so" ] || { echo "there is no $library/libmxnet.so: run cargo build --workspace"; exit 1; }
readonly library out=target/capi-memory
mkdir -p "$out"
processors=$(nproc 2>/dev/null || echo 1)
readonly processors results=$out/results
: >"$results"

# survives WHAT COMMAND... : runs the command in the background, with as many others as there are processors. It may fail, but must not
# end by a signal or a timeout.
survives() {
  while (($(jobs -rp | wc -l) >= processors)); do
    wait -n
  done
  outcome "$@" &
}

outcome() {
  local what=$1 status log
  shift
  log=$(mktemp "$out/log.XXXXXX")
  timeout 120 "$@" >"$log" 2>&1
  status=$?
  if [ "$status" -ge 124 ]; then
    printf 'FAIL %s: exit status %s\n%s\n' "$what" "$status" "$(tail -3 "$log")"
    echo failed >>"$results"
  else
    echo passed >>"$results"
  fi
  rm -f "$log"
}

limited() {
  ulimit -v "$1"
  shift
  exec "$@"
}

export OMP_NUM_THREADS=2 RUST_BACKTRACE=1 STOP_AT_FAILURE=1
for source in tests/capi/*.c; do
  name=$(basename "$source" .c)
  program=$out/$name
  ${CC:-cc} -std=gnu11 -O1 -I native/capi/include "$source" -o "$program" -L "$library" -lmxnet -Wl,-rpath,"$library" -lm -lpthread || exit 1
  failures=$(FERROMX_FAIL_ALLOCATION=0 "$program" 2>&1 >/dev/null | grep -c 'this allocation fails')
  [ "$failures" -gt 0 ] || { echo "$library/libmxnet.so is not a debug build: run cargo build --workspace"; exit 1; }
  reports=$(FERROMX_FAIL_ALLOCATION=-1 "$program" 2>&1 >/dev/null | grep -c '1024 more allocations')
  total=$((1024 * (reports + 1)))
  count=$([ "$runs" = all ] && echo "$total" || echo "$runs")
  for ((i = 0; i < count; i++)); do
    n=$((total * (2 * i + 1) / (2 * count)))
    survives "$name, allocation $n of about $total fails" env FERROMX_FAIL_ALLOCATION=$n "$program"
  done
  for ((i = 0; i < count && i < 1000; i++)); do
    kilobytes=$((120000 + 300000 * i / (count < 1000 ? count : 1000)))
    survives "$name within $kilobytes KiB" bash -c "$(declare -f limited); limited $kilobytes $program"
  done
done
wait
passed=$(grep -c passed "$results") failed=$(grep -c failed "$results")
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
