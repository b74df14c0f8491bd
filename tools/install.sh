#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing: tools/install.sh build|package|test
# "build" is what demo.sh and cmake need (OpenCL: oneDNN's CMake files look for it); "package" adds
# what cpack needs, "test" also what the tests talk to. Needs root or sudo only when something is
# missing. Safe to run again.
#   tools/install.sh cuda   a CUDA toolkit with cuDNN and NCCL from PyPI, into build/cuda-toolkit, for
#                           machines without NVIDIA's packages; cmake --preset cuda finds it there
set -euo pipefail

build=(
  ccache cmake g++ make ninja-build pkg-config python3
  capnproto libcapnp-dev libcaf-dev libasio-dev libssl-dev
  libdnnl-dev ocl-icd-opencl-dev libhwy-dev librandom123-dev libisal-dev libxxhash-dev
  libfmt-dev libspdlog-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev
  libcpp-httplib-dev prometheus-cpp-dev
  libspng-dev libturbojpeg0-dev zlib1g-dev
  catch2 librapidcheck-dev libbenchmark-dev
  dataset-fashion-mnist
)
cuda=(g++ python3-venv)
packing=(dpkg-dev file)
test=(clang git iproute2 libomp-dev prometheus python3-venv systemd)
# CXX=clang++ builds with clang and its OpenMP.
case "${CXX:-}" in *clang*)
  build+=(clang libomp-dev)
  test+=(libclang-rt-dev) # sanitizers
  ;;
esac
# tools/format.sh takes this version only. Debian 12 has it; elsewhere PyPI's goes into build/.
formatter=$(dirname "$0")/../build/clang-format-14
if grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then
  test+=(clang-format-14)
  formatter=
fi

# Versions fit drivers from 580 on. The wheels lack what a linker looks for: names without versions.
install_cuda() {
  local folder build packages link name
  build=$(cd "$(dirname "$0")/.." && pwd)/build
  mkdir -p "$build"
  [ -x "$build/cuda-env/bin/pip" ] || python3 -m venv "$build/cuda-env"
  packages=(nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl
    nvidia-cuda-nvrtc nvidia-cublas)
  "$build/cuda-env/bin/pip" install -q "${packages[@]/%/==13.0.*}" \
    "nvidia-cudnn-cu13==9.*" nvidia-nccl-cu13
  folder=$(echo "$build"/cuda-env/lib/python3*/site-packages/nvidia)
  ln -sfn lib "$folder/cu13/lib64"
  for link in cudnn nccl; do ln -sfn "../$link" "$folder/cu13/$link"; done
  for name in "$folder"/cu13/lib/*.so.*; do
    [ -e "${name%%.so.*}.so" ] || ln -s "$(basename "$name")" "${name%%.so.*}.so"
  done
  ln -sfn "$folder/cu13" "$build/cuda-toolkit"
}

case "${1:-}" in
  cuda) wanted=("${cuda[@]}") ;;
  build) wanted=("${build[@]}") ;;
  package) wanted=("${build[@]}" "${packing[@]}") ;;
  test) wanted=("${build[@]}" "${packing[@]}" "${test[@]}") ;;
  *) echo "usage: tools/install.sh build|package|test|cuda" >&2; exit 2 ;;
esac

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done

install_missing() {
  local run=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "error: missing packages and neither root nor sudo; as root: apt-get install ${missing[*]}" >&2
      exit 1
    }
    run=(sudo)
  fi
  echo "Installing ${#missing[@]} missing packages: ${missing[*]}" >&2
  "${run[@]}" apt-get update -q >&2
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
}
[ ${#missing[@]} -eq 0 ] || install_missing
[ "$1" != cuda ] || install_cuda

if [ "$1" = test ] && [ -n "$formatter" ] && [ ! -x "$formatter/bin/clang-format" ]; then
  { python3 -m venv "$formatter" && "$formatter/bin/pip" install -q clang-format==14.0.6; } >&2 ||
    echo "Without clang-format 14 from PyPI the test \`format\` is not run." >&2
fi
