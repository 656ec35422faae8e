#!/usr/bin/env bash
# Trains LeNet with five seeds. The mean test accuracy must be within 0.01 of the mean of five runs of MXNet 1.9.1 on the same data, and a
# new process must make the same predictions as the trained network. In both libraries, a single seed may be up to 0.015 below the mean.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/common.sh

classpath=$(<build/lenet.classpath)
java=$(java_command)
expected=$(sed -n 's/.*"id":"checkpoint\/lenet".*"mean":\([0-9.]*\).*/\1/p' tests/oracle/fixtures/expected.jsonl)
[[ -n $expected ]] || fail "tests/oracle/fixtures/expected.jsonl has no accuracies of MXNet; restore it from version control"
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT

accuracies=()
for seed in 42 1 2 3 4; do
  accuracy=$("$java" -cp "$classpath" org.apache.mxnet.examples.lenet.Main train --seed "$seed" --output "$output" | sed -n 's/^test accuracy //p')
  echo "seed $seed: test accuracy $accuracy"
  accuracies+=("$accuracy")
done
"$java" -cp "$classpath" org.apache.mxnet.examples.lenet.Main predict --output "$output"
printf '%s\n' "${accuracies[@]}" | awk -v expected="$expected" '
  { sum += $1 }
  END {
    mean = sum / NR; distance = mean - expected; if (distance < 0) distance = -distance
    printf "mean %.4f, MXNet 1.9.1 %.4f\n", mean, expected
    failed = distance > 0.01
    printf "%d passed, %d failed\n", !failed, failed
    exit failed
  }'
