#!/usr/bin/env bash
# The program's own words: --version, --help, and a message with exit code 2 for usage errors.
# usage: run.sh PROGRAM VERSION
set -euo pipefail
program=$1 version=$2

fail() { echo "$*"; exit 1; }

[[ $("$program" --version) == "headwise $version" ]] || fail "--version says something else"
[[ $("$program" inspect --version) == "headwise $version" ]] || fail "inspect --version says something else"
[[ $("$program" --help) == *--version* ]] || fail "--help does not list the options"

if command -v readelf >/dev/null; then
  [[ $(readelf -hW "$program") == *"Type:"*DYN* ]] || fail "the program is not position-independent"
  [[ $(readelf -lW "$program") == *GNU_RELRO* && $(readelf -dW "$program") == *NOW* ]] || fail "its tables stay writable"
fi

for wrong in --no-such-option no-such-command; do
  code=0
  errors=$("$program" "$wrong" 2>&1 >/dev/null) || code=$?
  ((code == 2)) || fail "$wrong: exit code $code, not 2"
  [[ $errors == *"$wrong"* ]] || fail "$wrong: not named on standard error: $errors"
  output=$("$program" "$wrong" 2>/dev/null) || true
  [[ -z $output ]] || fail "$wrong: standard output is not empty: $output"
done

exits_with() {  # CODE WHAT COMMAND...: what cannot be told is told by the exit code
  local expected=$1 what=$2 code=0
  shift 2
  "$@" || code=$?
  ((code == expected)) || fail "$what: exit code $code, not $expected"
}
exits_with 2 "no standard error" "$program" no-such-command 2>&-
exits_with 2 "full standard error" "$program" no-such-command 2>/dev/full
exits_with 2 "full standard output" "$program" no-such-command --json >/dev/full 2>&1
