#!/usr/bin/env bash
# Makes the base image where none can be pulled: Debian with Python, from Debian's packages.
#
#   image/base.sh TAG
#
# Needs root, debootstrap and docker. About a minute. The machine's own list of certificate authorities goes in, so that
# a build behind a company's proxy trusts the same as the machine does. An image with this tag is left as it is.
set -euo pipefail

tag=${1:?usage: image/base.sh TAG}
suite=bookworm
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
authorities=/etc/ssl/certs/ca-certificates.crt

stop() { echo "error: $*" >&2; exit 1; }
command -v docker > /dev/null || stop "docker is not installed"
docker image inspect "$tag" > /dev/null 2>&1 && { echo "$tag is there"; exit 0; }
command -v debootstrap > /dev/null || stop "debootstrap is not installed; on Debian and Ubuntu: apt-get install debootstrap"
[ "$(id -u)" = 0 ] || stop "debootstrap needs root: sudo image/base.sh $tag"

folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
root=$folder/root
echo "making $tag from Debian $suite: about a minute"
debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$root" "$mirror" \
  > "$folder/log" 2>&1 || { tail -n 20 "$folder/log" "$root/debootstrap/debootstrap.log" >&2 || true
                            stop "debootstrap failed; its last lines stand above"; }
[ -f "$authorities" ] && cp "$authorities" "$root$authorities"
# What only a person at a terminal, or the package manager, would read.
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
  "$root"/usr/share/{doc,man,info,locale}/*
tar -C "$root" --numeric-owner -c . | docker import --change 'ENV LANG=C.UTF-8' - "$tag" > /dev/null
echo "$tag is made"
