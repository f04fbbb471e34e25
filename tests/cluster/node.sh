#!/usr/bin/env bash
# Runs a command on a cluster of this machine's own, a single node, and takes that down again: for machines where kind's
# node image can't be pulled. Needs root on Debian or Ubuntu; installs the packages that are missing.
#
#   tests/cluster/node.sh COMMAND [ARGUMENT …]
#   tests/cluster/node.sh --load IMAGE          give the running node another image of docker's
#
# NODE_SCRIPTS names the folder with build/build.sh, up.sh and down.sh; by default ../shared/node, beside this repository.
# The command finds KUBECONFIG, PYTHON_IMAGE, POSTGRES_IMAGE and LOAD_IMAGE set, and kubectl and helm on its PATH.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
node=${NODE_SCRIPTS:-$here/../../../shared/node}
base=fleetagent-base:bookworm
postgres=fleetagent-postgres:15
lock=/var/tmp/fleetagent-node.lock

stop() { echo "error: $*" >&2; exit 1; }
[ -f "$node/up.sh" ] || stop "there is no ${node}/up.sh: set NODE_SCRIPTS, or KUBECONFIG for a cluster that is there"
. "$node/env.sh"

if [ "${1:?usage: node.sh COMMAND [ARGUMENT …]}" = --load ]; then
  docker save "$2" | ctrk images import - > /dev/null
  exit
fi

[ "$(id -u)" = 0 ] || stop "a node needs root"
exec 9> "$lock"
flock --nonblock 9 || stop "another run has the node ($lock)"

packages=()
for wanted in dockerd:docker.io debootstrap:debootstrap nft:nftables iptables:iptables jq:jq bc:bc openssl:openssl \
  curl:curl ip:iproute2 /usr/lib/cni/bridge:containernetworking-plugins; do
  command -v "${wanted%%:*}" > /dev/null || packages+=("${wanted##*:}")
done
if [ ${#packages[@]} -gt 0 ]; then
  echo "installing ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update 9>&- || true # a foreign source that does not answer may not matter
  apt-get -qq install --yes --no-install-recommends "${packages[@]}" > /dev/null 9>&-
fi

docker_pid=
finish() {
  status=$?
  trap - EXIT
  [ -z "${command_pid:-}" ] || kill "$command_pid" 2> /dev/null || true
  bash "$node/down.sh" --keep 9>&- || true
  if [ -n "$docker_pid" ]; then
    kill "$docker_pid" 2> /dev/null && wait "$docker_pid" || true
  fi
  exit "$status"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

if ! docker info > /dev/null 2>&1; then
  setsid dockerd > /var/tmp/fleetagent-dockerd.log 2>&1 9>&- &
  docker_pid=$!
  for _ in $(seq 120); do
    docker info > /dev/null 2>&1 && break
    kill -0 "$docker_pid" 2> /dev/null || break
    sleep 0.5
  done
  docker info > /dev/null 2>&1 || { tail -n 20 /var/tmp/fleetagent-dockerd.log >&2; stop "dockerd does not start"; }
fi

bash "$node/down.sh" 9>&- # of a run that was killed
echo "building the node's programs: 6 minutes the first time"
bash "$node/build/build.sh" > /var/tmp/fleetagent-node-build.log 2>&1 9>&- \
  || { tail -n 20 /var/tmp/fleetagent-node-build.log >&2; stop "the node's programs can't be built"; }
"$here/../../image/base.sh" $base 9>&-
DOCKER_BUILDKIT=0 docker build --quiet --network host --build-arg BASE=$base --tag $postgres "$here/postgres" 9>&-
bash "$node/up.sh" $postgres 9>&-

export KUBECONFIG=$KC PYTHON_IMAGE=$base POSTGRES_IMAGE=$postgres LOAD_IMAGE="$here/node.sh --load" PATH=$BIN:$PATH
"$@" 9>&- &
command_pid=$!
wait "$command_pid" && code=0 || code=$?
command_pid=
exit "$code"
