#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Troupe's training steps against MXNet 1.9.1's: run.sh SOURCE BUILD. The variable MXNET_PYTHON names
# a Python that has it; without one the test is not run (77) and says so.
set -euo pipefail
source=$1 build=$2
python=${MXNET_PYTHON:-}
if [ -z "$python" ]; then
  echo "not run: MXNET_PYTHON names no Python with MXNet 1.9.1 (and NumPy below 1.24)"
  exit 77
fi
"$python" -c 'import mxnet; assert mxnet.__version__ == "1.9.1", mxnet.__version__'
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
