# Functions shared by ./run and ./check, which source this file in the project's root.

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
  tools=$(rustc -vV && "${CC:-cc}" --version && "$(java_command)" -version 2>&1 &&
    env | LC_ALL=C sort | sed -nE '/^(CARGO_PROFILE_|RUSTFLAGS=|RUSTDOCFLAGS=|FERROMX_ISA=|JAVA_TOOL_OPTIONS=|MXNET_|OMP_NUM_THREADS=)/p')
}

java_command() {
  if [[ -n ${JAVA_HOME:-} && -x $JAVA_HOME/bin/java ]]; then
    echo "$JAVA_HOME/bin/java"
  else
    command -v java || fail "java is missing. Install JDK 11 or later, or set JAVA_HOME."
  fi
}

# Spark 4 needs JDK 17.
spark_runs() {
  local version
  version=$("$(java_command)" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java.specification.version = //p')
  [[ $version =~ ^[0-9]+$ && $version -ge 17 ]]
}

# The process identifiers of the commands that `begin` has started and nothing has waited for.
declare -A running=()

# begin NAME COMMAND... : runs a command in the background, with its output in a log file.
begin() {
  local name=$1
  shift
  "$@" >"$logs/$name.log" 2>&1 </dev/null &
  running[$name]=$!
}

# finished NAME : waits for a command that `begin` has started, and returns its status. Prints the elapsed time every 20 seconds.
finished() {
  local name=$1 start=$SECONDS pid=${running[$1]} status=0
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - start > 0 && (SECONDS - start) % 20 == 0)); then
      printf '   ... %s: %d s\n' "$name" $((SECONDS - start))
      sleep 1
    fi
  done
  wait "$pid" || status=$?
  unset "running[$name]"
  ((SECONDS - start < 20)) || printf '   ... %s: done in %d s\n' "$name" $((SECONDS - start))
  return "$status"
}

# await NAME : like `finished`. If the command failed, shows the lines of the log that name failures, and its end.
await() {
  local log=$logs/$1.log
  if ! finished "$1"; then
    grep -aE -A 3 "^test .* FAILED$|panicked at|\*\*\* FAILED \*\*\*|^error(\[|:)|^\[error\]" "$log" | head -80 >&2 || true
    tail -40 "$log" >&2
    fail "$1 failed; the full output is in $log"
  fi
}

# logged NAME COMMAND... : runs a command as `begin` and `await` do.
logged() {
  begin "$@"
  await "$1"
}

# The versions of the compilers, and the variables that affect the build or the library. They are part of every fingerprint, so that a
# change repeats builds and tests.
tools=

# fingerprint WORD... PATH... : prints a line that changes with the words, the files under the paths and the tools. Words begin with a
# dash. Build products and hidden folders are ignored.
fingerprint() {
  local words=() paths=()
  for word in "$@"; do
    if [[ $word == -* ]]; then words+=("$word"); else paths+=("$word"); fi
  done
  {
    printf '%s\n' "$tools" "${words[@]}"
    find "${paths[@]}" -type d \( -name target -o -name '.?*' \) -prune -o -type f -exec cksum {} + | LC_ALL=C sort -k 3
  } | cksum
}

# The native library in the published jars.
readonly library=target/release/libmxnet.so

build_native() {
  say "Building the native library"
  logged native cargo build --release -p libmxnet
}

# The jars that sbt has published to the local Ivy and Maven repositories, according to its log.
published_jars() {
  sed -nE 's/.*published .* to (file:)?(.*[0-9]\.jar)$/\2/p' "$logs/scala.log"
}

# Publishes the Scala libraries, as jars with the native library inside, to the local repositories. All clones publish to the same
# repositories, so the checksums of the published jars are compared, too.
publish_library() {
  local made=build/published now
  # shellcheck disable=SC2086 # a list of paths
  now=$(fingerprint $library codegen jvm scripts/sbt LICENSE NOTICE Cargo.lock)
  if [[ ! -f $made || $(<"$made") != "$now $(published_jars | xargs cksum 2>/dev/null)" ]]; then
    say "Building the Scala library (a few minutes the first time)"
    logged scala in_folder jvm publishLocal publishM2
    echo "$now $(published_jars | xargs cksum)" >"$made"
  fi
}

compile_example() {
  local made=build/example now
  now=$(fingerprint build/published examples/lenet scripts/sbt)
  if [[ ! -f $made || $(<"$made") != "$now" ]]; then
    say "Compiling the example"
    logged example in_folder examples/lenet compile "export Runtime/fullClasspath"
    grep -E '\.jar' "$logs/example.log" | tail -1 >build/lenet.classpath
    echo "$now" >"$made"
  fi
}

# in_folder FOLDER SBT-COMMAND...
in_folder() {
  local root=$PWD folder=$1
  shift
  (cd "$folder" && "$root/scripts/sbt" "$@")
}
