"""Time is handed in; this names the shape."""

from collections.abc import Callable
from datetime import datetime

Now = Callable[[], datetime]
"""Returns the current moment, aware and in UTC."""
