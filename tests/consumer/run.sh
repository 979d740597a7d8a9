#!/usr/bin/env bash
# Installs headwise into a folder of the build tree, then builds and runs the consumers against it
# through find_package and through pkg-config.
# usage: run.sh BUILD_FOLDER LIBDIR [--static], with CXX and CXXFLAGS as headwise was built with
set -euo pipefail
build=$1 libdir=$2 static=${3:-}
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$build/consumer
prefix=$work/prefix
rm -rf "$work"
unset DESTDIR CMAKE_PREFIX_PATH
export CXXFLAGS="$CXXFLAGS -Wall -Wextra -Werror"
export LD_LIBRARY_PATH=$prefix/$libdir
export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig

cmake --install "$build" --prefix "$prefix"
"$prefix/bin/headwise" --version

run() { # FOLDER_OF_PROGRAMS
  "$1/consumer"
  for program in pipeline study; do
    "$1/$program" "$1/$program-files"
  done
}

echo "== find_package"
cmake -G Ninja -S "$source" -B "$work/cmake" -D CMAKE_PREFIX_PATH="$prefix"
cmake --build "$work/cmake"
run "$work/cmake"

echo "== pkg-config"
mkdir "$work/pkg-config"
for program in consumer pipeline study; do
  # The flags are several words each.
  # shellcheck disable=SC2046,SC2086
  $CXX -std=c++20 $CXXFLAGS "$source/$program.cc" -o "$work/pkg-config/$program" \
    $(pkg-config --cflags --libs $static headwise)
done
run "$work/pkg-config"
