"""`kubectl fleetagent`: what people ask and say in the terminal, with their own kubeconfig and rights."""
