#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Troupe's symbol files against MXNet 1.9.1's, both ways: run.sh SOURCE BUILD. MXNET_PYTHON names a Python
# that has mxnet 1.9.1; without it the first run makes an environment in the build folder (PyPI), and where
# that fails the test is left out (77) and says why.
set -euo pipefail
source=$1 build=$2
python=${MXNET_PYTHON:-$build/mxnet-env/bin/python}
side=$source/tests/mxnet/mxnet_side.py
if [ -z "${MXNET_PYTHON:-}" ] && ! "$python" "$side" version >/dev/null 2>&1; then
  rm -rf "$build/mxnet-env"
  python3 -m venv "$build/mxnet-env"
  if ! "$build/mxnet-env/bin/pip" install -q mxnet==1.9.1 numpy==1.23.5; then
    echo "left out: MXNET_PYTHON is not set, and mxnet 1.9.1 cannot be installed from PyPI"
    exit 77
  fi
fi
version=$("$python" "$side" version)
[ "$version" = 1.9.1 ] || { echo "MXNet is $version, 1.9.1 is wanted: $python" >&2; exit 1; }
work=$(mktemp -d "$build/mxnet.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Both compute in f64. Numbers such as eps have 32 bits in MXNet.
bound=1e-6
mkdir "$work/calls"
"$build/bin/mxnet_files" operators "$work/calls"
"$python" "$side" calls "$work/calls"

for network in $("$build/bin/mxnet_files" networks "$work/networks"); do
  echo "$network, saved by Troupe"
  "$python" "$side" network "$work/networks/$network"
  "$build/bin/mxnet_files" network "$work/networks/$network" $bound
done

for model in squeezenet1.0 mobilenet1.0 densenet121 resnet18_v1 resnet18_v2 resnet50_v1 alexnet vgg11_bn; do
  "$python" "$side" export $model "$work/$model"
  for form in predict train; do
    echo "$model of Gluon, $form"
    "$build/bin/mxnet_files" network "$work/$model/$form" $bound
    "$python" "$side" again "$work/$model/$form"
  done
  rm -rf "${work:?}/$model"
done
