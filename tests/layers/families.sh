#!/usr/bin/env bash
# families.sh [FOLDER]: whether only the families (src/model/families) of the project in FOLDER (this one) know the names of
# architectures. Prints every comparison of one elsewhere.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

found=$(find src include apps -path src/model/families -prune -o \( -name '*.h' -o -name '*.cc' \) -print | grep -v '_test\.cc$' |
  xargs grep -nE '(model_type|config\.architecture) *[=!]=|[=!]= *[a-z_.()]*(model_type|config\.architecture)\b|contains\([a-z_.()]*model_type' || true)
[[ -z $found ]] || { echo "$found"; echo "ask for a trait of model/families/family.h instead"; exit 1; }
