# Downloads for ./run and ./check, which source this file in the project's root. They download first, so that a missing network is reported
# immediately. Files that have been downloaded before are not requested again.

# fetch NAME WHAT REMEDY COMMAND... : runs a download command. If it fails, says what is missing and what to do.
fetch() {
  local name=fetch-$1 what=$2 remedy=$3
  shift 3
  (logged "$name" "$@") && return
  fail "could not download $what. Connect to the network and run this again; later runs need no network.
$remedy The full output is in $logs/$name.log"
}

# fetch_once NAME WHAT REMEDY INPUTS COMMAND... : like fetch, but does nothing if it has succeeded before with the same inputs (a list of
# paths).
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

readonly cargo_remedy="If you use a mirror or a proxy, configure it in ~/.cargo/config.toml."
readonly maven_remedy="If you use a mirror or a proxy, configure it in ~/.m2/settings.xml."
readonly sbt_remedy="If you use a mirror, configure it in ~/.sbt/repositories; for a proxy, set SBT_OPTS=\"-Dhttps.proxyHost=... -Dhttps.proxyPort=...\"."

# What both scripts need: crates (for all systems, because cargo-deny reads them), sbt, the Scala compiler, and the libraries and formatter of
# the Scala projects. sbt downloads the formatter when it formats a file, here an empty one.
fetch_for_run() {
  say "Downloading dependencies"
  fetch crates "the crates that Cargo.lock lists, from crates.io" "$cargo_remedy" cargo fetch --locked
  fetch launcher "sbt's launcher, from Maven Central" "$maven_remedy" scripts/sbt --fetch-launcher
  : >build/Empty.scala
  fetch_once scala "sbt, the Scala compiler and the libraries of jvm/, from Maven Central" "$sbt_remedy" \
    "scripts/sbt .scalafmt.conf codegen/build.sbt jvm/build.sbt jvm/project/build.properties jvm/project/plugins.sbt" \
    in_folder jvm update scalaCompilerBridgeBinaryJar "scalafmtOnly $PWD/build/Empty.scala"
}

# What only ./check needs: the Scala 3 compiler, DJL and Spark. The library itself is removed from the dependencies, because it is not
# published yet.
fetch_for_check() {
  fetch_for_run
  fetch_once scala3 "the Scala 3 compiler, from Maven Central" "$sbt_remedy" "scripts/sbt tests/consumer/scala3/build.sbt" \
    in_folder tests/consumer/scala3 'set libraryDependencies := libraryDependencies.value.filterNot(_.name == "mxnet")' \
    update scalaCompilerBridgeBinaryJar
  fetch_once djl "DJL's MXNet engine, from Maven Central" "$sbt_remedy" "scripts/sbt tests/clients/djl/build.sbt" in_folder tests/clients/djl update
  ! spark_runs || fetch_once spark "Spark, from Maven Central" "$sbt_remedy" "scripts/sbt spark/build.sbt spark/project/plugins.sbt" \
    in_folder spark 'set spark / libraryDependencies := (spark / libraryDependencies).value.filterNot(_.name == "mxnet")' update
}
