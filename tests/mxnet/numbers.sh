#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Troupe's training steps against MXNet 1.9.1's: numbers.sh SOURCE BUILD.
set -euo pipefail
source=$1 build=$2
. "$source/tests/mxnet/find_python.sh"
export PYTHONPATH=$source/tests/support
work=$(mktemp -d "$build/mxnet.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0
for case in norm multipliers frozen handed heads; do
  "$python" "$source/tests/mxnet/trajectory.py" "$case" "$work/$case" 2>"$work/messages" ||
    { cat "$work/messages"; exit 1; }
  "$build/bin/mxnet_numbers" "$case" "$work/$case" || failed=1
done
exit $failed
