# Counts tests for ./check from the logs of the test runners. Sourced there.

extra=0

# A step that is one test by itself.
count_one() {
  extra=$((extra + 1))
}

# sum FILES PATTERN: the sum of the numbers that the pattern's first group matches.
sum() {
  local pattern=$1
  shift
  cat "$@" 2>/dev/null | sed -E 's/\x1b\[[0-9;]*m//g' | sed -nE "s/$pattern/\\1/p" | awk '{ n += $1 } END { print n + 0 }'
}

# Prints what passed and failed, also when a step failed half-way.
report() {
  local status=$? passed failed
  shopt -s nullglob
  local files=("$logs"/test-*.log)
  passed=$((extra + $(sum '^test result: .*\. ([0-9]+) passed;.*' "${files[@]}") + $(sum '.*Passed: Total [0-9]+, Failed [0-9]+, Errors [0-9]+, Passed ([0-9]+).*' "${files[@]}") + $(sum '^([0-9]+) passed, [0-9]+ failed.*' "${files[@]}")))
  failed=$(($(sum '^test result: .* ([0-9]+) failed;.*' "${files[@]}") + $(sum '.*Failed: Total [0-9]+, Failed ([0-9]+).*' "${files[@]}") + $(sum '^[0-9]+ passed, ([0-9]+) failed.*' "${files[@]}")))
  if ((status != 0 && failed == 0)); then failed=1; fi
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
  say "Licences and sources of the crates"
  logged lint-deny "$deny" --offline check licenses bans sources
}
