#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures a build of CMakePresets.json: tools/configure.sh PRESET [ARGUMENTS OF CMAKE]. What CMake
# says goes to build/PRESET.log. Where the variable CXX names another compiler than the folder was configured with,
# the folder is configured anew; without CXX it keeps its compiler. TROUPE_CUDA_ARCHITECTURES names the
# devices that a folder's CUDA half is for, when it is configured first; default: all that it may be for.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 log=build/$1.log cache=build/$1/CMakeCache.txt
mkdir -p build
arguments=(--preset "$preset" "${@:2}")
if [ -n "${TROUPE_CUDA_ARCHITECTURES:-}" ] && [ ! -e "$cache" ]; then
  arguments+=("-DCMAKE_CUDA_ARCHITECTURES=$TROUPE_CUDA_ARCHITECTURES")
fi
if [ -n "${CXX:-}" ] && [ -e "$cache" ]; then
  present=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$cache")
  [ "$present" = "$(command -v "$CXX")" ] || arguments+=(--fresh)
fi
cmake "${arguments[@]}" >"$log" 2>&1 || { tail -30 "$log" >&2; exit 1; }
