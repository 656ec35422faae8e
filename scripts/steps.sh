# The steps of ./check, and the count of what they tested. Sourced there.

readonly done_before=build/passed
mkdir -p "$done_before"

# Tests that passed in the steps so far, and the step at work.
passed=0
current=

# step NAME TITLE INPUTS COMMAND... : runs the command as `logged` does. A step that passed with the same inputs, command and
# tools is not run again; what it counted is kept. INPUTS is a list of paths, and of words that begin with a dash.
step() {
  local name=$1 title=$2 inputs=$3 stamp=$done_before/$1 now
  shift 3
  # shellcheck disable=SC2086 # a list
  now=$(fingerprint $inputs "-$*")
  if [[ -f $stamp && $(<"$stamp") == "$now "* ]]; then
    say "$title: passed before, and nothing has changed since"
  else
    say "$title"
    rm -f "$stamp"
    current=$name
    logged "$name" "$@"
    current=
    echo "$now $(tests_that passed "$name")" >"$stamp"
  fi
  passed=$((passed + $(sed 's/.* //' "$stamp")))
}

# tests_that passed|failed NAME: how many, by what cargo, sbt and the scripts of tests/ wrote in the step's log. A step that passed and
# counts no tests is one by itself.
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

# Prints what passed and failed, also when a step failed half-way.
report() {
  local status=$? failed=0
  if ((status != 0)); then
    if [[ -n $current ]]; then
      failed=$(tests_that failed "$current")
      ((failed == 0)) || passed=$((passed + $(tests_that passed "$current")))
    fi
    ((failed > 0)) || failed=1
  fi
  printf '%d passed, %d failed\n' "$passed" "$failed"
}

# Licences, bans and sources of the crates, by cargo-deny: the one that is installed, else one that is built here, in a minute the first
# time. Without the crates of that nothing is wrong with the project, so that the lint is left out then, and says so.
check_licences() {
  local deny=cargo-deny
  if ! command -v cargo-deny >/dev/null; then
    deny=build/tools/bin/cargo-deny
    if [[ ! -x $deny ]]; then
      say "Building cargo-deny"
      if ! (logged deny cargo install cargo-deny --locked --version 0.20.2 --debug --no-default-features --root build/tools); then
        say "Licences and sources of the crates: skipped, because cargo-deny could not be built (see build/logs/deny.log)"
        return
      fi
    fi
  fi
  step lint-deny "Licences and sources of the crates" "$manifests" "$deny" --offline check licenses bans sources
}
