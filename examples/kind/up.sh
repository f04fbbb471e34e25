#!/usr/bin/env bash
# A kind cluster on this machine with all of it inside: `make kind`. Needs docker, kind, kubectl, and helm.
#
#   [IMAGE=…] [KIND_CLUSTER=…] [HELM=…] up.sh
#
# A cluster of that name is used as it is. To be rid of it: kind delete cluster --name fleetagent
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

cluster=${KIND_CLUSTER:-fleetagent}
export IMAGE=${IMAGE:-fleetagent:0.2.0} KUBE_CONTEXT=kind-$cluster

stop() { echo "error: $*" >&2; exit 1; }
command -v docker > /dev/null || stop "docker is not installed: https://docs.docker.com/engine/install"
docker info > /dev/null 2>&1 || stop "docker is installed, but its daemon does not answer; 'docker info' says why"
command -v kind > /dev/null || stop "kind is not installed; get it with: go install sigs.k8s.io/kind@latest"
command -v kubectl > /dev/null || stop "kubectl is not installed: https://kubernetes.io/docs/tasks/tools"
docker image inspect "$IMAGE" > /dev/null 2>&1 || stop "there is no image $IMAGE; build it with: make image"

there=$(kind get clusters 2> /dev/null) || stop "kind does not answer; 'kind get clusters' says why"
grep -qx "$cluster" <<< "$there" \
  || kind create cluster --name "$cluster" --config "$here/../../kind-config.yaml" --wait 3m \
  || stop "kind made no cluster; where its node image can't be pulled, run the end-to-end tests on another cluster: make e2e"
kind load docker-image "$IMAGE" --name "$cluster"
"$here/install.sh" "$@"
cat << END

Watch it:    kubectl --context $KUBE_CONTEXT -n fleet get fleetagents --watch
Start a run: kubectl --context $KUBE_CONTEXT -n fleet annotate fleetagent porep --overwrite fleetagent.dev/requested-at="\$(date +%s)"
End it all:  kind delete cluster --name $cluster
END
