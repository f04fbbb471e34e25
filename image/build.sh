#!/usr/bin/env bash
# Builds the operator's image: `make image`.
#
#   [PYTHON_IMAGE=…] [PIP_INDEX_URL=…] [PIP_CERT=…] image/build.sh TAG [more arguments for docker build]
#
# PYTHON_IMAGE is the base. Not set: the public python:3.11-slim, or, where that can't be pulled, one made by base.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

tag=${1:?usage: image/build.sh TAG [argument for docker build …]}
public=python:3.11-slim
ours=fleetagent-base:bookworm
pull_within=60s

stop() { echo "error: $*" >&2; exit 1; }
command -v docker > /dev/null || stop "docker is not installed; everything but image, kind and e2e works without it"
docker info > /dev/null 2>&1 || stop "docker is installed, but its daemon does not answer; 'docker info' says why"

there() { docker image inspect "$1" > /dev/null 2>&1; }
base=${PYTHON_IMAGE:-}
if [ -z "$base" ]; then
  if there $public || timeout $pull_within docker pull --quiet $public; then
    base=$public
  else
    echo "$public can't be pulled: the base is made here"
    image/base.sh $ours
    base=$ours
  fi
fi

flags=(--build-arg "PYTHON_IMAGE=$base" --tag "$tag")
# What pip is told on this machine, it is told in the build. PIP_CERT must name a file of the base.
for name in PIP_INDEX_URL PIP_CERT; do
  [ -z "${!name:-}" ] || flags+=(--build-arg "$name")
done
# Where no image can be pulled, a container's own network seldom leads anywhere.
[ "$base" != $ours ] || flags+=(--network host)
docker buildx version > /dev/null 2>&1 || export DOCKER_BUILDKIT=0 # Debian's docker has no BuildKit client
docker build "${flags[@]}" "${@:2}" .
echo "$tag: $(($(docker image inspect --format '{{.Size}}' "$tag") / 1000000)) MB, from $base"
