#!/usr/bin/env bash
# Brings all of it into the cluster that kubectl points to: Postgres, the simulated market and model, the chart, an agent.
#
#   [IMAGE=…] [POSTGRES_IMAGE=…] [KUBE_CONTEXT=…] [HELM=…] install.sh [more arguments for helm]
#
# The images must be where the nodes find them. Run it again to bring changes.
set -euo pipefail
cd "$(dirname "$0")"

image=${IMAGE:-fleetagent:0.2.0}
postgres_image=${POSTGRES_IMAGE:-postgres:17}
helm=${HELM:-helm}
namespace=fleetagent-system
wait_for=3m

stop() { echo "error: $*" >&2; exit 1; }
command -v kubectl > /dev/null || stop "kubectl is not installed: https://kubernetes.io/docs/tasks/tools"
command -v "$helm" > /dev/null || stop "helm is not installed: https://helm.sh/docs/intro/install"
kubectl() { command kubectl ${KUBE_CONTEXT:+--context "$KUBE_CONTEXT"} "$@"; }

name=${image##*/} # a colon before the last slash is that of a registry's port
case $name in *:*) tag=${name##*:} repository=${image%:*} ;; *) tag=latest repository=$image ;; esac

kubectl apply -f namespaces.yaml
sed "s#image: postgres:17#image: $postgres_image#" postgres.yaml | kubectl apply -f -
sed "s#image: fleetagent:.*#image: $image#" simulators.yaml | kubectl apply -f -
for deployment in postgres marketplace model; do
  kubectl -n $namespace rollout status "deployment/$deployment" --timeout=$wait_for
done
"$helm" upgrade --install fleetagent ../../charts/fleetagent ${KUBE_CONTEXT:+--kube-context "$KUBE_CONTEXT"} \
  --namespace $namespace --values values.yaml --set-string "image.repository=$repository,image.tag=$tag" \
  --wait --timeout $wait_for "$@"
kubectl apply -f fleetagent.yaml
kubectl -n fleet wait --for=condition=OnTarget fleetagent/porep --timeout=$wait_for
kubectl -n fleet get fleetagents
