"""What the views are made of: where they read, what is live, and the clock."""

from dataclasses import dataclass

from fleetagent.agent.clock import Now
from fleetagent.entrypoints.web.page.live import Live
from fleetagent.entrypoints.web.verbs import Steering
from fleetagent.ports.reading import Reading


@dataclass(frozen=True, slots=True)
class Parts:
    """Given to each view's `routes`."""

    reading: Reading
    live: Live
    now: Now
    steer: Steering
