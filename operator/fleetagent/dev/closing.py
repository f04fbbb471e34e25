"""The `with` statement for whatever runs until it is closed."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Closed at the end of its block, however that ends."""

    @abstractmethod
    def close(self) -> None:
        """End it; harmless when done twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
