#!/usr/bin/env bash
# Tests the published packages: the contents of the jars, and a Maven project with the library on the class path and on the module path.
#   IVY_HOME=DIR, MAVEN_REPOSITORY=DIR  the local repositories, if they are not the usual ones
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
ivy=${IVY_HOME:-$HOME/.ivy2}/local/io.github.ferromx
maven=${MAVEN_REPOSITORY:-$HOME/.m2/repository}
module=io.github.ferromx.mxnet
out=$root/build/package
rm -rf "$out"
mkdir -p "$out"
passed=0 failed=0

check() {
  local name=$1
  shift
  if "$@" >"$out/log" 2>&1; then
    passed=$((passed + 1))
  else
    echo "FAIL $name"
    cat "$out/log"
    failed=$((failed + 1))
  fi
}

holds() {
  local list=$1 entry
  shift
  for entry in "$@"; do grep -qx -- "$entry" "$list" || { echo "no $entry"; return 1; }; done
}

holds_no() { ! grep -E -- "$2" "$1"; }

same() { diff "$1" "$2"; }

# Both lists have the name and version of each crate that is linked on this platform.
crates_listed() {
  local host
  host=$(rustc -vV | sed -n 's/^host: //p')
  cargo tree --offline --locked --manifest-path "$root/Cargo.toml" -p libmxnet --edges normal,no-proc-macro --target "$host" --prefix none --format '{p}' |
    sed -nE '/\(proc-macro\)|\(\/|\(\*\)$/!p' | sed -E 's/ v/ /; s/ .*\(.*//' | awk '{ print $1, $2 }' | sort -u >"$out/linked"
  sed -nE 's/^([a-z0-9_-]+ [0-9][^ :]*): .*/\1/p' "$1" | sort -u >"$out/listed"
  same "$out/linked" "$out/listed"
}

has_license_of_each() {
  local crate
  while read -r crate; do
    grep -q "^META-INF/licenses/${crate/ /-}/" "$2" || { echo "no license of $crate"; return 1; }
  done < <(sed -nE 's/^([a-z0-9_-]+ [0-9][^ :]*): .*/\1/p' "$1")
}

metadata=META-INF/native-image/io.github.ferromx/mxnet
for scala in 2.13 3; do
  jar=$ivy/mxnet_$scala/0.1.0/jars/mxnet_$scala.jar
  unpacked=$out/$scala
  mkdir -p "$unpacked"
  (cd "$unpacked" && jar xf "$jar") || exit 1
  jar tf "$jar" >"$out/jar"
  jar tf "$ivy/mxnet_$scala/0.1.0/srcs/mxnet_$scala-sources.jar" >"$out/sources"
  check "mxnet_$scala: library and licenses" holds "$out/jar" META-INF/LICENSE META-INF/NOTICE META-INF/THIRD-PARTY.txt native/linux-x86_64/libmxnet.so
  check "mxnet_$scala: the crates that cargo links are listed" crates_listed "$unpacked/META-INF/THIRD-PARTY.txt"
  check "mxnet_$scala: the license of each crate" has_license_of_each "$unpacked/META-INF/THIRD-PARTY.txt" "$out/jar"
  jar --describe-module --file "$jar" | sed -n 's/^\(open \)*\([a-z.]*\)@.*/\2/p' >"$out/name"
  check "mxnet_$scala: module name" grep -qx "$module" "$out/name"
  check "mxnet_$scala: the types of arguments" holds "$out/jar" org/apache/mxnet/utils/CToScalaUtils.class org/apache/mxnet/codegen/ParsedType.class
  check "mxnet_$scala: native image" holds "$out/jar" $metadata/jni-config.json $metadata/resource-config.json $metadata/reflect-config.json
  check "mxnet_$scala: no tests or build files" holds_no "$out/jar" '(Suite|\.sbt$)'
  check "mxnet_$scala: sources" holds "$out/sources" org/apache/mxnet/NDArray.scala org/apache/mxnet/SymbolAPIBase.scala org/apache/mxnet/literal/LiteralConversions.scala
  check "mxnet_$scala: only sources" holds_no "$out/sources" '(^native/|\.(so|class|tasty|json)$)'
  # The classes that the native library looks up by name.
  for class in MXNetError MXMonitorCallback internal.jni.{LibInfo,InferredShapes,KVStoreCallback} internal.userop.OperatorBridge \
    internal.interop.RawNode; do
    check "mxnet_$scala: JNI metadata of $class" grep -q "\"org.apache.mxnet.$class\"" "$unpacked/$metadata/jni-config.json"
  done
  pom=$maven/io/github/ferromx/mxnet_$scala/0.1.0/mxnet_$scala-0.1.0.pom
  check "mxnet_$scala: the pom names only what programs need" holds_no "$pom" '(mxnet-(types|model|macros|literals)|scala-reflect|munit|<artifactId>mxnet_(2.13|3)</artifactId>.*scope)'
  check "mxnet_$scala: the local repositories agree" cmp "$jar" "$maven/io/github/ferromx/mxnet_$scala/0.1.0/mxnet_$scala-0.1.0.jar"
done

# A Maven project.
project=$root/tests/consumer/maven
if command -v mvn >/dev/null; then
  check "a Maven user's project" mvn --quiet --batch-mode -Dmaven.repo.local="$maven" -f "$project/pom.xml" \
    compile dependency:build-classpath
  classpath=$(<"$project/target/classpath")
  check "the class path" java -cp "$project/target/classes:$classpath" Main
  # With --enable-native-access the JVM must not warn. JVMs before version 22 never warn.
  java --module-path "$classpath" --add-modules "$module" --enable-native-access="$module" -cp "$project/target/classes" Main "$module" >"$out/module" 2>&1
  check "the module path" grep -qx "the library works in module $module" "$out/module"
  check "the module path: no warning" holds_no "$out/module" 'WARNING'
else
  echo "A Maven project: skipped, because mvn is not installed"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
