# What ./run and ./check share. Sourced by them, in the project's root.

readonly logs=build/logs
mkdir -p "$logs"

say() {
  printf '== %s\n' "$*"
}

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

need() {
  command -v "$1" >/dev/null || fail "$1 is missing. $2"
}

need_tools() {
  need cargo "Install Rust 1.89 or later with rustup."
  need cc "Install a C compiler, for example the package gcc."
  java_command >/dev/null
  command -v mvn >/dev/null || command -v sbt >/dev/null || fail "Maven and sbt are missing. Install one of them, for example the package maven."
}

java_command() {
  if [[ -n ${JAVA_HOME:-} && -x $JAVA_HOME/bin/java ]]; then
    echo "$JAVA_HOME/bin/java"
  else
    command -v java || fail "java is missing. Install JDK 11 or later, or set JAVA_HOME."
  fi
}

# logged NAME COMMAND... : runs with its output in a log, which is shown when the command fails. Says every 20 seconds that it is
# still at work.
logged() {
  local name=$1 log=$logs/$1.log start=$SECONDS pid
  shift
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - start > 0 && (SECONDS - start) % 20 == 0)); then
      printf '   ... %s: %d s\n' "$name" $((SECONDS - start))
      sleep 1
    fi
  done
  if ! wait "$pid"; then
    tail -60 "$log" >&2
    fail "$name failed; all of its output is in $log"
  fi
}

# changed STAMP PATH... : whether a file under the paths is newer than the stamp, build products aside.
changed() {
  local stamp=$1
  shift
  [[ ! -f $stamp ]] && return 0
  [[ -n $(find "$@" \( -name target -o -name .bsp \) -prune -o -type f -newer "$stamp" -print -quit) ]]
}

# The optimised library and the metadata of its operators.
build_native() {
  say "Building the native library"
  logged native cargo build --release -p libmxnet
  target/release/dump_ops target/release/libmxnet.so target/release/ops.jsonl
}

# The Scala library as a jar with the native library inside, in the local repository.
publish_library() {
  local stamp=build/published.stamp
  if changed "$stamp" target/release/libmxnet.so target/release/ops.jsonl codegen jvm scripts; then
    say "Building the Scala library (a few minutes the first time)"
    logged scala in_folder jvm publishLocal
    touch "$stamp"
  fi
}

compile_example() {
  local stamp=build/example.stamp
  if changed "$stamp" build/published.stamp examples; then
    say "Compiling the example"
    logged example in_folder examples/lenet compile "export Runtime/fullClasspath"
    grep -E '\.jar' "$logs/example.log" | tail -1 >build/lenet.classpath
    touch "$stamp"
  fi
}

# in_folder FOLDER SBT-COMMAND...
in_folder() {
  local root=$PWD folder=$1
  shift
  (cd "$folder" && "$root/scripts/sbt" "$@")
}
