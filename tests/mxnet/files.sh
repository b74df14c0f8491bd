#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Troupe's symbol files against MXNet 1.9.1's, both ways: files.sh SOURCE BUILD.
set -euo pipefail
source=$1 build=$2
. "$source/tests/mxnet/find_python.sh"
side=$source/tests/mxnet/mxnet_side.py
work=$(mktemp -d "$build/mxnet.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Both compute in f64. Numbers such as eps have 32 bits in MXNet.
bound=1e-6
mkdir "$work/calls"
"$build/bin/mxnet_files" operators "$work/calls"
"$python" "$side" calls "$work/calls"

"$build/bin/mxnet_files" networks "$work/networks" | while read -r network shape; do
  echo "$network, saved by Troupe, on data of $shape"
  "$python" "$side" network "$work/networks/$network" "$shape"
  "$build/bin/mxnet_files" network "$work/networks/$network" $bound
  rm -rf "${work:?}/networks/$network"
done

for model in decoder squeezenet1.0 mobilenet1.0 densenet121 resnet18_v1 resnet18_v2 resnet50_v1 alexnet vgg11_bn; do
  "$python" "$side" export $model "$work/$model"
  for form in predict train; do
    echo "$model of Gluon, $form"
    "$build/bin/mxnet_files" network "$work/$model/$form" $bound
    "$python" "$side" again "$work/$model/$form"
  done
  rm -rf "${work:?}/$model"
done
