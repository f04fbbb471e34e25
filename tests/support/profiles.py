"""Values profiles of the chart: each is rendered, checked by the schema and applied to a real API server."""

from typing import Any

WATCHED = ("chart-a", "chart-b")

EVERYTHING: dict[str, Any] = {
    "image": {"repository": "registry.example/team/fleetagent", "digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "nameOverride": "agents",
    "database": {"existingSecret": "postgres-app", "key": "uri"},
    "cluster": "prod-1",
    "peering": "ours",
    "allowedHosts": ["console.vast.ai", "vllm.llm.svc:8000"],
    "listenHost": "[::]",
    "web": {
        "port": 9080,
        "url": "https://fleetagent.example",
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "annotations": {"nginx.ingress.kubernetes.io/affinity": "cookie"},
            "hosts": ["fleetagent.example"],
            "tls": [{"secretName": "fleetagent-tls", "hosts": ["fleetagent.example"]}],
        },
    },
    "health": {"port": 9081},
    "worker": {
        "port": 9082,
        "url": "https://workers.example",
        "service": {"type": "LoadBalancer", "port": 443, "annotations": {"example.com/a": "b"}},
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "annotations": {"cert-manager.io/cluster-issuer": "letsencrypt"},
            "hosts": ["workers.example", "*.more.example"],
            "tls": [{"secretName": "workers-tls", "hosts": ["workers.example"]}],
        },
    },
    "logFormat": "text",
    "leaseSeconds": 30,
    "silentSeconds": 300,
    "beatSeconds": 2.5,
    "lookSeconds": 60,
    "settlingSeconds": 600,
    "confirmGoneSeconds": 90,
    "databasePool": 25,
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "serviceAccount": {"name": "fleet", "annotations": {"example.com/role": "fleet"}},
    "networkPolicy": {
        "enabled": True,
        "webFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "workerFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}, {"ports": [{"port": 443}]}],
    },
    "replicas": 3,
    "strategy": "Recreate",
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "resources": {"limits": {"cpu": "1", "memory": "2Gi"}},
    "podSecurityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "supplementalGroups": [2000]},
    "extraVolumes": [{"name": "ca", "secret": {"secretName": "postgres-ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/postgres-ca", "readOnly": True}],
    "podAnnotations": {"example.com/scrape": "true"},
    "podLabels": {"team": "proofs"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "system-cluster-critical",
    "terminationGracePeriodSeconds": 120,
}

PROFILES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "its own namespace only": {"rbac": {"clusterWide": False}},
    "two other namespaces": {"namespaces": list(WATCHED)},
    "one replica without peering": {"replicas": 1, "peering": ""},
    "a second release": {"namespaces": [WATCHED[1]], "crds": {"install": False}},
    "ids by the platform": {"podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}},
    "closed to all but its own": {"networkPolicy": {"enabled": True}},
    "everything is there already": {
        "crds": {"install": False},
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "theirs"},
        "fullnameOverride": "theirs",
    },
    "everything set": EVERYTHING,
}
"""ServiceMonitor is of a kind that the API server does not have; a test of its own renders it."""
