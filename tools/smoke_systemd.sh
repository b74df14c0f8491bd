#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The services of the package under a real systemd: tools/smoke_systemd.sh FOLDER
# FOLDER has the .deb files. Runs the commands of docs/deploy.md, "systemd", as they stand there; a
# job trains, an agent that was killed comes back, a folder that is not theirs is refused. For root
# on a machine with the host name node1 that may be changed, as a container that systemd has booted:
#   systemd-nspawn --directory=ROOT --hostname=node1 --boot
set -euo pipefail
folder=$(cd "${1:?usage: tools/smoke_systemd.sh FOLDER}" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/smoke_data.sh
. "$source/tools/smoke_data.sh"
failed() { echo "smoke_systemd: $*" >&2; exit 1; }
[ "$(hostname)" = node1 ] || failed "the host name is $(hostname), not node1"
[ -d /run/systemd/system ] || failed "this machine was not booted by systemd"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'echo "smoke_systemd: line $LINENO failed" >&2' ERR
cd "$work"

# The commands of the page's block "```sh WORDS", the first of that name.
page() {
  awk -v head="\`\`\`sh $1" '$0 == head && !done { on = 1; next } on && /^```$/ { on = 0; done = 1 } on' \
    "$source/docs/deploy.md"
}
person() { troupe --identity "$work/ann.pem" --token "$work/ann.token" --coordinator node1:7700 "$@"; }
submit() {
  person job submit "$source/examples/tiny-bn.toml" --set data.train=/srv/smoke/train.rec \
    --set data.test=/srv/smoke/test.rec --set data.batch=8 --set workers.machines=1 \
    --set workers.devices=1 --set checkpoint.dir="$1" --wait
}
joined() { journalctl --boot --unit=troupe-agent | grep -c "joined the coordinator" || true; }

DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$folder"/troupe_*.deb >/dev/null
systemctl is-active -q troupe-agent && failed "the package starts services"
scp() { :; }  # the other machine's file
eval "$(page node1)"
grep -q node1 /etc/hosts || echo "127.0.0.1 node1" >>/etc/hosts
eval "$(page 'systemd coordinator')"
# The page's own block has made one for the state of its coordinator; this is for the service's.
rm -f "$work/ann.token"
(umask 077; setpriv --reuid=troupe --regid=troupe --clear-groups \
  troupe token make /var/lib/troupe/coordinator ann --out - >"$work/ann.token")
eval "$(page 'systemd agent')"
for ((i = 0; i < 300 && $(joined) < 1; i++)); do sleep 0.1; done
mkdir -p /srv/smoke
small_data /srv/smoke
submit /var/lib/troupe/checkpoints/smoke
troupe checkpoint hash /var/lib/troupe/checkpoints/smoke
code=0
submit /srv/smoke/out || code=$?
[ $code -eq 1 ] || failed "a job wrote to /srv/smoke/out"
kill -KILL "$(systemctl show -p MainPID --value troupe-agent)"
for ((i = 0; i < 600 && $(joined) < 2; i++)); do sleep 0.1; done
[ "$(joined)" -ge 2 ] || failed "the agent did not come back"
systemctl stop troupe-agent troupe-coordinator
for service in troupe-agent troupe-coordinator; do
  [ "$(systemctl show -p Result --value $service)" = success ] || failed "$service did not end well"
done
DEBIAN_FRONTEND=noninteractive apt-get purge -y -q troupe >/dev/null
[ -z "$(find /etc/systemd -name '*troupe*')" ] || failed "purge leaves links to services"
[ -d /var/lib/troupe/checkpoints/smoke ] || failed "purge removes checkpoints"
rm -rf /var/lib/troupe /srv/smoke
echo "smoke_systemd: passed"
