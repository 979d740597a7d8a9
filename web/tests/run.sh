#!/usr/bin/env bash
# Checks that the committed page is what its sources give, and tests it in a browser. usage: run.sh PROGRAM
# Exits with 77, which ctest calls skipped, where node, npm, Chromium or the packages of npm cannot be had.
set -euo pipefail
export HEADWISE_PROGRAM
HEADWISE_PROGRAM=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip() { echo "SKIPPED, the page was not tested: $*"; exit 77; }
for program in node npm; do
  command -v "$program" >/dev/null || skip "$program is missing"
done
node --eval 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || skip "node is $(node --version), and 18 is needed"
if [[ ! node_modules/.package-lock.json -nt package-lock.json ]]; then
  npm ci --no-audit --no-fund --loglevel=error || skip "the packages of npm cannot be had"
fi
npm run --silent check
[[ -n ${HEADWISE_CHROMIUM:-} ]] || command -v chromium >/dev/null || command -v chromium-browser >/dev/null ||
  skip "the page is what its sources give, but there is no Chromium to test it in"
node tests/page.test.mjs
