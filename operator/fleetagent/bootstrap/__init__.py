"""The only place that knows every real thing: which adapter stands behind each port, and how the process serves.

build    plain constructors, read from the top down
worlds   market, demand and model of one resource
kubeapi  the API server, checked before anything relies on it
serve    kopf, the HTTP listeners and their common end
"""
