#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Troupe's numbers against PyTorch's: run.sh SOURCE BUILD. Makes a Python environment in the build folder
# on first use (PyPI), writes PyTorch's trajectories and steps, and lets torch_numbers and torch_networks
# compare; then accuracies.
set -euo pipefail
source=$1 build=$2
python=${TROUPE_TORCH_PYTHON:-$build/torch-env/bin/python}
if [ ! -x "$python" ]; then
  python3 -m venv "$build/torch-env"
  "$build/torch-env/bin/pip" install -q torch numpy
fi
export PYTHONPATH=$source/tests/support
work=$(mktemp -d "$build/torch.XXXXXX")
trap 'rm -rf "$work"' EXIT

# compare NETWORK DTYPE LR STEPS MODE
compare() {
  "$python" "$source/tests/torch/trajectory.py" "$1" "$2" "$3" "$4" "$work/$1-$2"
  "$build/bin/torch_numbers" "$1" "$2" "$4" "$5" "$work/$1-$2"
  rm -rf "${work:?}/$1-$2"
}
compare lenet f64 0.05 100 given
compare tiny-bn f64 0.05 100 given
compare lenet f32 0.05 100 given
compare lenet f32 0.01 20 free

# network NETWORK SIDE DRAWS HOW...: steps through a built-in network (side 0: of its own images)
network() {
  local name=$1 side=$2 draws=$3 how draw files
  shift 3
  for draw in $(seq "$draws"); do
    "$python" "$source/tests/torch/networks.py" inputs "$name" "$side" $((draw - 1)) "$work/inputs.$draw"
  done
  for how in "$@"; do
    echo "$name $how" >>"$work/compared"
    files=()
    for draw in $(seq "$draws"); do
      "$build/bin/torch_networks" "$name" "$how" "$work/inputs.$draw" "$work/results.$draw"
      files+=("$work/inputs.$draw" "$work/results.$draw")
    done
    "$python" "$source/tests/torch/networks.py" compare "$name" "$how" "${files[@]}"
  done
  rm "$work"/inputs.* "$work"/results.*
}
export PYTHONPATH=$PYTHONPATH:$source/bench/peers
# f64 of batch 2 at the smallest image that a network takes
for name in mlp lenet resnet{20,56,110} wide-resnet10-{2,4} wide-resnet16-4; do network "$name" 0 1 f64; done
network wide-resnet28-10 16 1 f64
network alexnet 63 1 f64
network overfeat 71 1 f64
for name in vgg-a vgg16 vgg19 googlenet; do network "$name" 32 1 f64; done
deep=(resnet{18,34,101,152,200} resnet{50,101,152}-v1.5 resnet{18,34,50,101,152,200}-v2)
for name in "${deep[@]}" inception-bn resnet50 mobilenet-v2; do network "$name" 64 1 f64; done
# f32 at full size, of as many draws as it takes for the mean of few units to say something
for name in mlp lenet alexnet overfeat vgg-a vgg16 vgg19; do network "$name" 0 1 f32 winograd; done
for name in resnet{20,56,110} wide-resnet{10-2,10-4,16-4,28-10}; do network "$name" 0 2 f32 winograd; done
for name in "${deep[@]}"; do network "$name" 0 2 f32 winograd; done
for name in googlenet inception-bn resnet50 mobilenet-v2; do network "$name" 0 8 f32 winograd; done
# tiny-bn is compared above.
"$build/bin/troupe" model list --json | "$python" -c '
import json, sys
compared = {tuple(line.split()) for line in open(sys.argv[1])}
names = {model["name"] for model in json.load(sys.stdin)["models"]} - {"tiny-bn"}
left = {(name, how) for name in names for how in ("f64", "f32", "winograd")} - compared
sys.exit(f"not compared with PyTorch: {sorted(left)}" if left else 0)' "$work/compared"

theirs=$("$python" "$source/tests/torch/accuracy.py")
"$build/bin/troupe" data pack fashion-mnist --out "$work/fashion"
ours=$("$build/bin/troupe" run "$source/examples/fashion-lenet.toml" \
  --set data.train="$work/fashion/train.rec" --set data.test="$work/fashion/test.rec" \
  --set checkpoint.dir="$work/out" | sed -nE 's/^test accuracy ([0-9.]+).*/\1/p' | tail -1)
echo "accuracy after 5 epochs: Troupe $ours, PyTorch's mean of 3 seeds $theirs"
awk -v a="$ours" -v b="$theirs" 'BEGIN { d = a - b; exit !(a > 0 && d < 0.005 && d > -0.005) }'
