#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, runs the tests. Safe to run again; reuses the build.
#   ./test.sh          release build and all quick tests; those that meet foreign bytes under ASan and UBSan, too
#   ./test.sh --all    everything under ASan+UBSan, everything below actors under TSan, the slow tests
set -euo pipefail
cd "$(dirname "$0")"
case "${1:-}" in
  "") all=false ;;
  --all) all=true ;;
  *) echo "usage: ./test.sh [--all]" >&2; exit 2 ;;
esac

tools/install.sh test
jobs=$(nproc)
# Machine code for one kind of device: that device code compiles is all that machines without one show.
export TROUPE_CUDA_ARCHITECTURES=${TROUPE_CUDA_ARCHITECTURES:-90-real}

# build PRESET TARGET...
build() {
  local preset=$1
  shift
  tools/configure.sh "$preset"
  grep -E "^-- With(out)? CUDA" "build/$preset.log" || true
  cmake --build --preset "$preset" -j "$jobs" --target "$@"
}

sanitized=(schemas_test storage_test ndarray_test trust_test data_test link_test http_test control_test)
below_actors=(base_test schemas_test monitoring_test http_test gpu_test storage_test engine_test ops_test ndarray_test symbol_test
  data_test link_test control_test store_test train_test)

build release all
if $all; then
  build asan-ubsan all
  ctest --test-dir build/asan-ubsan --output-on-failure -j "$jobs" -LE "slow|gpu"
  build tsan "${below_actors[@]}"
  # This build has no oneDNN kernels: their OpenMP teams are not instrumented.
  for binary in "${below_actors[@]}"; do "build/tsan/bin/$binary" "~[onednn]"; done
  ctest --test-dir build/release --output-on-failure -j "$jobs" -LE gpu
else
  build asan-quick "${sanitized[@]}"
  for binary in "${sanitized[@]}"; do "build/asan-quick/bin/$binary"; done
  ctest --test-dir build/release --output-on-failure -j "$jobs" -LE "slow|gpu"
fi
