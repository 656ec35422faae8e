# Runs the steps of ./check, which sources this file, and counts their tests.

readonly done_before=build/passed
mkdir -p "$done_before"

# The number of tests that have passed so far, and the name of the running step.
passed=0
current=

# Sets processor_seconds to the processor time of all commands that have ended. A pipeline would see only its subshell's time.
count_processor_time() {
  times >build/times
  # shellcheck disable=SC2046 # words
  set -- $(tail -1 build/times | tr 'ms.' '   ')
  processor_seconds=$(($1 * 60 + $2 + $4 * 60 + $5))
}

# step NAME TITLE INPUTS COMMAND... : runs the command as `logged` does, unless it has passed with the same inputs, command and tools; then
# only its number of tests is added. INPUTS is a list of paths, and of words that begin with a dash.
step() {
  local name=$1 title=$2 inputs=$3 stamp=$done_before/$1 now start=$SECONDS processor_seconds processor_start
  shift 3
  # shellcheck disable=SC2086 # a list
  now=$(fingerprint $inputs "-$*")
  if [[ -f $stamp && $(<"$stamp") == "$now "* ]]; then
    say "$title: unchanged since it passed"
  else
    say "$title"
    rm -f "$stamp"
    current=$name
    count_processor_time
    processor_start=$processor_seconds
    logged "$name" "$@"
    count_processor_time
    current=
    printf '   %d s, %d s of processor time\n' $((SECONDS - start)) $((processor_seconds - processor_start))
    echo "$now $(tests_that passed "$name")" >"$stamp"
  fi
  passed=$((passed + $(sed 's/.* //' "$stamp")))
}

# tests_that passed|failed NAME: the number of tests that passed or failed, according to what cargo, sbt and the scripts in tests/ wrote to the
# step's log. A step that passed without counting tests counts as one.
tests_that() {
  local numbers=()
  case $1 in
    passed) numbers=('^test result: .* ([0-9]+) passed;.*' '.*Passed: Total .*, Passed ([0-9]+).*' '^([0-9]+) passed, [0-9]+ failed.*') ;;
    failed) numbers=('^test result: .* ([0-9]+) failed;.*' '.*Failed: Total [0-9]+, Failed ([0-9]+).*' '^[0-9]+ passed, ([0-9]+) failed.*') ;;
  esac
  sed -E 's/\x1b\[[0-9;]*m//g' "$logs/$2.log" |
    sed -nE "s/${numbers[0]}/\1/p; s/${numbers[1]}/\1/p; s/${numbers[2]}/\1/p" |
    awk -v alone="$([[ $1 == passed ]] && echo 1 || echo 0)" '{ n += $1 } END { print NR ? n : alone }'
}

# Prints the numbers of passed and failed tests, also if a step has failed.
report() {
  local status=$? failed=0
  ((${#running[@]} == 0)) || kill "${running[@]}" 2>/dev/null || true
  if ((status != 0)); then
    if [[ -n $current ]]; then
      failed=$(tests_that failed "$current")
      ((failed == 0)) || passed=$((passed + $(tests_that passed "$current")))
    fi
    ((failed > 0)) || failed=1
  fi
  printf '%d passed, %d failed\n' "$passed" "$failed"
}

readonly own_cargo_deny=build/tools/bin/cargo-deny

# Starts to build cargo-deny if it is not installed, which takes two minutes the first time.
begin_cargo_deny() {
  command -v cargo-deny >/dev/null || [[ -x $own_cargo_deny ]] ||
    begin deny cargo install cargo-deny --locked --version 0.20.2 --debug --no-default-features --root build/tools
}

# Checks licenses, bans and sources of the crates with cargo-deny. If that could not be built, for example without network, the check is
# skipped with a message.
check_licenses() {
  local deny=cargo-deny
  command -v cargo-deny >/dev/null || deny=$own_cargo_deny
  if [[ -n ${running[deny]:-} ]]; then
    say "Building cargo-deny"
    if ! finished deny; then
      say "Licenses and sources of the crates: skipped, because cargo-deny could not be built (see build/logs/deny.log)"
      return
    fi
  fi
  step lint-deny "Licenses and sources of the crates" "$manifests" "$deny" --offline check licenses bans sources
}
