# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For smoke_*.sh: small_data FOLDER packs 320 + 80 images into FOLDER, with what a bare Debian has.

# idx PREFIX COUNT: images that differ, and labels.
idx() {
  local high low
  high=$(printf %02x $(($2 / 256))) low=$(printf %02x $(($2 % 256)))
  { printf '\0\0\10\3\0\0%b\0\0\0\34\0\0\0\34' "\\x$high\\x$low"
    head -c $(($2 * 784)) <(seq 1000000 2>/dev/null); } >"$1-images"
  { printf '\0\0\10\1\0\0%b' "\\x$high\\x$low"
    for ((i = 0; i < $2; i++)); do printf '%b' "\\x0$((i * 7 % 10))"; done; } >"$1-labels"
}

small_data() {
  idx "$1/train" 320
  idx "$1/test" 80
  troupe data pack idx --images "$1/train-images" --labels "$1/train-labels" \
    --test-images "$1/test-images" --test-labels "$1/test-labels" --out "$1"
}
