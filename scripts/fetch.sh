# What ./run and ./check get from the network. They do it first, so that a machine without network says so at once, and says what is
# missing. What is there already is not asked for again. Sourced by them, in the project's root.

# fetch NAME WHAT REMEDY COMMAND... : runs the command, and says what is missing and what to do if it fails.
fetch() {
  local name=fetch-$1 what=$2 remedy=$3
  shift 3
  (logged "$name" "$@") && return
  fail "could not fetch $what. Without network: connect once and run this again; what is fetched is kept, and later runs need no network.
$remedy All of the output is in $logs/$name.log"
}

# fetch_once NAME WHAT REMEDY INPUTS COMMAND... : as fetch, unless it succeeded before with the same inputs, a list of paths.
fetch_once() {
  local stamp=build/fetched/$1 name=$1 what=$2 remedy=$3 now
  # shellcheck disable=SC2086 # a list
  now=$(fingerprint $4 "-${*:5}")
  if [[ ! -f $stamp || $(<"$stamp") != "$now" ]]; then
    fetch "$name" "$what" "$remedy" "${@:5}"
    mkdir -p build/fetched
    echo "$now" >"$stamp"
  fi
}

readonly cargo_remedy="Behind a mirror or a proxy: name it in ~/.cargo/config.toml."
readonly maven_remedy="Behind a mirror or a proxy: name it in ~/.m2/settings.xml."
readonly sbt_remedy="Behind a mirror: name it in ~/.sbt/repositories; behind a proxy: SBT_OPTS=-Dhttps.proxyHost=... -Dhttps.proxyPort=..."

# What both need: crates (of all systems, which cargo-deny reads), sbt, the Scala compiler, the libraries and the formatter of the Scala
# projects. The formatter comes with the first file that it formats, here an empty one.
fetch_for_run() {
  say "Fetching what the build needs"
  fetch crates "the crates that Cargo.lock lists, from crates.io" "$cargo_remedy" cargo fetch --locked
  fetch launcher "sbt's launcher, from Maven Central" "$maven_remedy" scripts/sbt --fetch-launcher
  : >build/Empty.scala
  fetch_once scala "sbt, the Scala compiler and the libraries of jvm/, from Maven Central" "$sbt_remedy" \
    "scripts/sbt .scalafmt.conf codegen/build.sbt jvm/build.sbt jvm/project/build.properties jvm/project/plugins.sbt" \
    in_folder jvm update scalaCompilerBridgeBinaryJar "scalafmtOnly $PWD/build/Empty.scala"
}

# What only ./check needs: the Scala 3 compiler, for a user's project that depends on the library, which is not published yet, the
# clients that others wrote, and Spark.
fetch_for_check() {
  fetch_for_run
  fetch_once scala3 "the Scala 3 compiler, from Maven Central" "$sbt_remedy" "scripts/sbt tests/consumer/scala3/build.sbt" \
    in_folder tests/consumer/scala3 'set libraryDependencies := libraryDependencies.value.filterNot(_.name == "mxnet")' \
    update scalaCompilerBridgeBinaryJar
  fetch_once djl "DJL's MXNet engine, from Maven Central" "$sbt_remedy" "scripts/sbt tests/clients/djl/build.sbt" in_folder tests/clients/djl update
  ! spark_runs || fetch_once spark "Spark, from Maven Central" "$sbt_remedy" "scripts/sbt spark/build.sbt spark/project/plugins.sbt" \
    in_folder spark 'set spark / libraryDependencies := (spark / libraryDependencies).value.filterNot(_.name == "mxnet")' update
}
