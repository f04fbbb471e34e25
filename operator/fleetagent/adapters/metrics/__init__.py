"""Metrics in Prometheus' format.

catalogue  what there is of each agent     series   how it is kept, and written out
figures    a report as numbers             process  what there is of the process
meter      `ports.Meter`                   metered  what stands before a model or Kubernetes, and counts
"""

from fleetagent.adapters.metrics.meter import Metrics
from fleetagent.adapters.metrics.metered import MeteredCluster, MeteredModel

__all__ = ["MeteredCluster", "MeteredModel", "Metrics"]
