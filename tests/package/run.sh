#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests of what `cmake --install` leaves: run.sh CHECK BUILD COMPILER
#   install   installs the build into BUILD/package/installed, where the other checks find it
#   headers   all headers, first to last and last to first, with the warnings that careful people
#             switch on (the test "headers" compiles each alone)
#   arrays    a project that takes two components (arrays/)
#   debs      the Debian packages: what they hold and need (tools/smoke_deb.sh installs them)
#   programs  a project that takes everything (this folder); its programs run
set -euo pipefail
check=$1 build=$2 compiler=$3
source=$(cd "$(dirname "$0")" && pwd)
installed=$build/package/installed
work=$build/package/$check
rm -rf "$work"
mkdir -p "$work"

# Configures and builds the project $1.
build_project() {
  cmake -S "$1" -B "$work" -DCMAKE_PREFIX_PATH="$installed" -DCMAKE_CXX_COMPILER="$compiler" \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  cmake --build "$work" -j "$(nproc)" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}

check_install() {
  rm -rf "$installed"
  cmake --install "$build" --prefix "$installed" >"$work/log"
  "$installed/bin/troupe" version
  # Nothing beside troupe/ is in the search path of a program's headers, or asks for more.
  [ "$(ls "$installed/include")" = troupe ]
  ! grep -rE '#include "' "$installed/include" | grep -v '#include "troupe/'
  for page in README.md CHANGELOG.md LICENSE docs/ops.md docs/job-file.md examples/train_lenet.cc examples/own_network.cc; do
    [ -s "$installed/share/doc/troupe/$page" ]
  done
}

check_headers() {
  local flags=(-std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
    -I "$installed/include" -x c++ -)
  local compilers=("$compiler") other
  for other in g++ clang++; do
    other=$(command -v "$other" || echo "$compiler")
    if [ "$(readlink -f "$other")" != "$(readlink -f "$compiler")" ]; then
      compilers+=("$other")
    fi
  done
  (cd "$installed/include" && find . -name '*.h' -printf '#include <%P>\n') | sort >"$work/forward"
  [ -s "$work/forward" ]
  tac "$work/forward" >"$work/backward"
  for other in "${compilers[@]}"; do
    "$other" "${flags[@]}" <"$work/forward"
    "$other" "${flags[@]}" <"$work/backward"
  done
}

check_arrays() {
  build_project "$source/arrays"
  "$work/arrays"
  # What these say of threads, too few for a team of two, is no matter of an engine's lanes.
  # (LLVM's runtime, which clang++ links, keeps to the limit: base/parallel.h.)
  local limit=1
  if ldd "$work/arrays" | grep -q libomp; then limit=; fi
  env ${limit:+OMP_THREAD_LIMIT=$limit} OMP_MAX_ACTIVE_LEVELS=0 OMP_DYNAMIC=true timeout 60 \
    "$work/arrays"
}

check_programs() {
  build_project "$source"
  mkdir "$work/data"
  local code=0
  "$work/train_lenet" 2>"$work/log" || code=$?
  [ "$code" -eq 2 ] && grep -q "usage: train_lenet FOLDER EPOCHS" "$work/log"
  "$work/own_network"
  "$work/linked" "$work/data"
  "$work/loaded" "$work/libtraining.so" "$work/data"
  "$work/sanitized" "$work/data"
}

check_debs() {
  command -v dpkg-shlibdeps >/dev/null || { echo "dpkg-dev is not installed"; exit 77; }
  cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  local file
  dpkg-deb -c "$work"/troupe_*.deb >"$work/troupe"
  for file in usr/bin/troupe etc/troupe/agent.env usr/lib/sysusers.d/troupe.conf \
    usr/lib/systemd/system/troupe-{agent,coordinator}.service usr/share/man/man1/troupe-run.1.gz \
    usr/share/bash-completion/completions/troupe usr/share/zsh/vendor-completions/_troupe \
    usr/share/fish/vendor_completions.d/troupe.fish usr/share/doc/troupe/docs/deploy.md; do
    grep -q " \./$file\$" "$work/troupe" || { echo "troupe lacks $file" >&2; exit 1; }
  done
  ! grep -E "\.(a|h|cmake)\$" "$work/troupe"
  dpkg-deb -f "$work"/troupe_*.deb Depends | grep -q "libdnnl.*libssl3"
  dpkg-deb -c "$work"/libtroupe-dev_*.deb >"$work/dev"
  for file in usr/include/troupe/base/status.h usr/lib/cmake/troupe/troupeConfig.cmake usr/lib/libtroupe_base.a; do
    grep -q " \./$file\$" "$work/dev" || { echo "libtroupe-dev lacks $file" >&2; exit 1; }
  done
  dpkg-deb -f "$work"/libtroupe-dev_*.deb Depends | grep -q "libdnnl-dev.*pkg-config"
  if command -v lintian >/dev/null; then lintian --allow-root --fail-on error "$work"/*.deb; fi
}

"check_$check"
