#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, runs the tests. Safe to run again; reuses the build.
#   ./test.sh          all quick tests once: those of folders that meet foreign bytes under ASan and UBSan,
#                      the others in a release build
#   ./test.sh --all    everything in a release build, the slow tests too, and under ASan and UBSan;
#                      everything below actors under TSan
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

# build PRESET TARGET...: of the folders in $except only the tests that sanitizers change
except=
build() {
  local preset=$1
  shift
  tools/configure.sh "$preset" "-DTROUPE_TESTS_EXCEPT=$except"
  grep -E "^-- With(out)? CUDA" "build/$preset.log" || true
  cmake --build --preset "$preset" -j "$jobs" --target "$@"
}

foreign_bytes=(schemas storage ndarray trust data link http control)
below_actors=(base_test schemas_test monitoring_test http_test gpu_test storage_test engine_test ops_test ndarray_test symbol_test
  data_test link_test control_test store_test train_test)

if $all; then
  build release all
  build asan-ubsan all
  ctest --test-dir build/asan-ubsan --output-on-failure -j "$jobs" -LE "slow|gpu"
  build tsan "${below_actors[@]}"
  # This build has no oneDNN kernels: their OpenMP teams are not instrumented.
  for binary in "${below_actors[@]}"; do "build/tsan/bin/$binary" "~[onednn]"; done
  ctest --test-dir build/release --output-on-failure -j "$jobs" -LE gpu
else
  except=$(IFS=";"; echo "${foreign_bytes[*]}") build release all
  build asan-quick "${foreign_bytes[@]/%/_test}"
  for folder in "${foreign_bytes[@]}"; do "build/asan-quick/bin/${folder}_test"; done
  ctest --test-dir build/release --output-on-failure -j "$jobs" -LE "slow|gpu"
fi
