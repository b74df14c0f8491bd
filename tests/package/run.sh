#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build into a folder of its own, builds a project against it and runs its programs
# (without data, the example says how it is used): run.sh BUILD COMPILER
set -euo pipefail
build=$1 compiler=$2
source=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/installed" >"$work/log"
cmake -S "$source" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/installed" \
  -DCMAKE_CXX_COMPILER="$compiler" >"$work/log"
cmake --build "$work/build" -j "$(nproc)" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
"$work/build/consumer"
code=0
"$work/build/train_lenet" 2>"$work/log" || code=$?
[ "$code" -eq 2 ] && grep -q "usage: train_lenet FOLDER EPOCHS" "$work/log"
"$work/build/training" "$work"
"$work/installed/bin/troupe" version
