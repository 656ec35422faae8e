#!/usr/bin/env bash
# Builds the C programs here against the header, links them to target/release/libmxnet.so, and runs them.
# LIBRARY_DIR=DIR uses the library in DIR; VALGRIND=1 runs the programs under valgrind if it is installed.
set -uo pipefail
cd "$(dirname "$0")/../.."
include=native/capi/include
library=${LIBRARY_DIR:-target/release}
library=$(cd "$library" && pwd) || exit 1
[ -e "$library/libmxnet.so" ] || { echo "there is no $library/libmxnet.so: run cargo build --release -p libmxnet"; exit 1; }
out=target/capi-tests
mkdir -p "$out"
passed=0 failed=0

count() { if [ "$1" -eq 0 ]; then echo "ok $2"; passed=$((passed + 1)); else echo "FAIL $2"; failed=$((failed + 1)); fi; }

printf '#include <mxnet/c_api.h>\nint main() { return 0; }\n' > "$out/header.c"
cp "$out/header.c" "$out/header.cc"
${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror -I "$include" -fsyntax-only "$out/header.c"; count $? header_in_c
${CXX:-c++} -std=c++11 -Wall -Wextra -Wpedantic -Werror -I "$include" -fsyntax-only "$out/header.cc"; count $? header_in_cpp
tests/capi/called.sh; count $? every_function_is_called

runner=()
if [ "${VALGRIND:-0}" = 1 ]; then
  if command -v valgrind > /dev/null; then
    # Memory that is still reachable at exit is fine; only definite leaks are errors.
    runner=(valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite)
  else
    echo "valgrind is not installed: running without it"
  fi
fi

for source in tests/capi/*.c; do
  name=$(basename "$source" .c)
  if ! ${CC:-cc} -std=gnu11 -O1 -g -Wall -Wextra -Werror -I "$include" "$source" -o "$out/$name" \
    -L "$library" -lmxnet -Wl,-rpath,"$library" -lm -lpthread; then
    count 1 "$name (build)"
    continue
  fi
  "${runner[@]}" "$out/$name" > "$out/$name.log" 2>&1
  status=$?
  cat "$out/$name.log"
  passed=$((passed + $(grep -c '^ok ' "$out/$name.log")))
  wrong=$(grep -c '^FAIL ' "$out/$name.log")
  # A program that crashes or leaks without a failed test counts as a failure.
  [ "$status" -ne 0 ] && [ "$wrong" -eq 0 ] && { echo "FAIL $name (exit status $status)"; wrong=1; }
  failed=$((failed + wrong))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
