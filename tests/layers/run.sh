#!/usr/bin/env bash
# run.sh [FOLDER]: whether the layers of the project in FOLDER (this one) include only layers below them. Prints every
# include that does not. Programs include only installed headers and their own; tests may include anything. headwise.h
# includes every public header but those of kernels and those that need another library.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

# Lowest first. Layers of one line do not include each other.
order='
core
kernels io
text
model
construct train
observe
judge
prune
plan
export
report
study
experiment
apps
'

find src include apps -name '*.h' -o -name '*.cc' -o -name '*.in' | grep -vE '_test(ing)?\.(cc|h)$' | sort |
  xargs grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' |
  awk -v order="$order" '
    BEGIN {
      lines = split(order, line, "\n")
      for (i = 1; i <= lines; ++i) {
        names = split(line[i], name, " ")
        for (n = 1; n <= names; ++n) rank[name[n]] = i
      }
    }
    {
      file = substr($0, 1, index($0, ":") - 1)
      split(file, part, "/")
      from = part[1] == "apps" ? "apps" : part[1] == "include" ? part[3] : part[2]
      if (from ~ /\./) next  # headwise.h, and what is beside the layers
      if (!(from in rank)) { print file ": the layer " from " is not in the list"; bad = 1; next }
      header = $0
      sub(/^[^"<]*["<]/, "", header)
      sub(/[">].*/, "", header)
      to = header
      sub(/^headwise\//, "", to)
      if (to == header && $0 ~ /#[[:space:]]*include[[:space:]]*</) next  # the system
      if (to !~ /\//) next                                                # of the same folder
      if (from == "apps" && to == header) { print file ": apps include the private \"" header "\""; bad = 1 }
      sub(/\/.*/, "", to)
      ++edges
      if (!(to in rank) || to == from) next
      if (rank[to] >= rank[from]) { print file ": " from " includes \"" header "\" of " to; bad = 1 }
    }
    END {
      if (edges == 0) { print "no includes found"; bad = 1 }
      exit bad
    }'

all=include/headwise/headwise.h
if [[ -f $all ]]; then
  diff <(sed -n 's/^#include "\(.*\)"$/\1/p' $all) \
    <(cd include && grep -rL '#include <nlohmann/' headwise | grep -v -e ^headwise/kernels/ -e ^headwise/headwise.h | LC_ALL=C sort) ||
    { echo "$all: not the public headers, sorted"; exit 1; }
fi
