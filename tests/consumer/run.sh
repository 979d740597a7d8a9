#!/usr/bin/env bash
# Installs headwise into a folder of the build tree, then builds and runs the consumer against it
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

echo "== find_package"
cmake -G Ninja -S "$source" -B "$work/cmake" -D CMAKE_PREFIX_PATH="$prefix"
cmake --build "$work/cmake"
"$work/cmake/consumer"

echo "== pkg-config"
# The flags are several words each.
# shellcheck disable=SC2046,SC2086
$CXX -std=c++20 $CXXFLAGS "$source/main.cc" -o "$work/consumer" \
  $(pkg-config --cflags --libs $static headwise)
"$work/consumer"
