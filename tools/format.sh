#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the layout of every C++ file with .clang-format. Exit 1, one line per difference.
#   tools/format.sh         only looks; this is the test `format`
#   tools/format.sh --fix   writes the files anew
# Versions of clang-format lay out differently, so only version 14 counts: Debian 12's, or where there
# is none the same version from PyPI, which `tools/install.sh test` puts into build/. Where that failed
# the check is not run; it says so and exits with 77.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  "") mode=(--dry-run -Werror --ferror-limit=1) ;;
  --fix) mode=(-i) ;;
  *) echo "usage: tools/format.sh [--fix]" >&2; exit 2 ;;
esac

program=""
for candidate in clang-format-14 clang-format build/clang-format-14/bin/clang-format; do
  if "$candidate" --version 2>/dev/null | grep -q "version 14\."; then
    program=$candidate
    break
  fi
done
if [ -z "$program" ]; then
  if grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then
    echo "format: clang-format 14 is missing; tools/install.sh test installs it" >&2
    exit 1
  fi
  echo "format: not run: no clang-format 14; tools/install.sh test installs it from PyPI" >&2
  exit 77
fi

git ls-files -z -co --exclude-standard '*.h' '*.cc' '*.cu' |
  while IFS= read -r -d '' file; do
    # A file that was deleted but not yet committed is listed too.
    if [ -f "$file" ]; then printf '%s\0' "$file"; fi
  done |
  xargs -0 -r -n 32 -P "$(nproc)" "$program" "${mode[@]}" --style=file
echo "format: every file agrees with .clang-format"
