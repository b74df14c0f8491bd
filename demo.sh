#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, packs Fashion-MNIST, trains LeNet with live progress.
# Safe to run again; reuses the build and the packed data.
set -euo pipefail
cd "$(dirname "$0")"

tools/install.sh build
tools/configure.sh release
cmake --build --preset release -j "$(nproc)" --target troupe

troupe=build/release/bin/troupe
if [ ! -e data/fashion/test.rec ]; then
  "$troupe" data pack fashion-mnist --out data/fashion --force
fi

rm -rf out/demo  # it trains from the start each time
"$troupe" run examples/fashion-lenet.toml --set checkpoint.dir=out/demo
hash=$("$troupe" checkpoint hash out/demo)
cat <<TEXT
checkpoint hash $hash
run it again: the same 64 digits
what to try next:
  $troupe run examples/fashion-lenet.toml --set checkpoint.dir=out-eventual --set consistency.cluster=eventual
  $troupe model inspect lenet
  README.md, "Use": the same job over a coordinator and agents
TEXT
