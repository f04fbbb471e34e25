"""FleetAgent: a Kubernetes operator whose resources are agents that keep a rented GPU fleet on target and in budget."""
