#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages on a bare Debian: tools/smoke_deb.sh FOLDER [--dev]
# FOLDER has the .deb files (build/release after `cmake --build --preset release --target debs`).
# Installs troupe, trains a small job with it, removes it and looks for what is left; --dev: also
# libtroupe-dev, with a project that is built on it. Needs root, and changes the machine's packages:
# meant for a container or a chroot.
set -euo pipefail
folder=$(cd "${1:?usage: tools/smoke_deb.sh FOLDER [--dev]}" && pwd) dev=${2:-}
source=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/smoke_data.sh
. "$source/tools/smoke_data.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'echo "smoke_deb: line $LINENO failed" >&2' ERR
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install -y -q --no-install-recommends)
failed() { echo "smoke_deb: $*" >&2; exit 1; }

# What has our name, outside of the two folders that this script was given.
ours() {
  find / -xdev \( -path /proc -o -path /sys -o -path "$source" -o -path "$folder" -o -path "$work" \) \
    -prune -o -iname '*troupe*' -print
}

train() {
  troupe run "$source/examples/tiny-bn.toml" --set data.train="$work/train.rec" \
    --set data.test="$work/test.rec" --set data.batch=8 --set train.epochs=1 --set checkpoint.dir="$1" >&2
  troupe checkpoint hash "$1"
}

[ -z "$(ours)" ] || failed "something is here before: $(ours | head -3)"
apt-get update -q >/dev/null
"${install[@]}" "$folder"/troupe_*.deb >/dev/null
troupe version
[ "$(stat -c %a /etc/troupe/agent.env)" = 644 ] || failed "/etc/troupe/agent.env"
for file in /usr/share/bash-completion/completions/troupe /usr/lib/systemd/system/troupe-agent.service; do
  [ -s "$file" ] || failed "$file is missing"
done
bash -n /usr/share/bash-completion/completions/troupe
small_data "$work"
once=$(train "$work/once")
again=$(train "$work/again")
if [ ${#once} -ne 64 ] || [ "$once" != "$again" ]; then failed "hashes: '$once', '$again'"; fi
if [ "$dev" = --dev ]; then
  "${install[@]}" "$folder"/libtroupe-dev_*.deb cmake make >/dev/null
  cmake -S "$source/tests/package/arrays" -B "$work/arrays" >/dev/null
  cmake --build "$work/arrays" >/dev/null
  "$work/arrays/arrays"
  apt-get purge -y -q libtroupe-dev >/dev/null
fi
# Checkpoints are people's own; all else goes.
mkdir -p /var/lib/troupe/coordinator /var/lib/troupe/checkpoints
touch /etc/troupe/agent.pem
apt-get purge -y -q troupe >/dev/null
[ -z "$(ours)" ] || failed "purge leaves: $(ours)"
getent passwd troupe && failed "purge leaves the user"
echo "smoke_deb: passed"
