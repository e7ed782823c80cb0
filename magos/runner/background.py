"""A call that goes on beside others, in a thread that need not be waited for.

A stage that fails or is asked to stop just leaves: the thread ends with the process. So the call must not hold anything
that has to be put in order.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Starts ``call`` at once."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._outcome: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)
        self._thread.start()

    def result(self) -> T:
        """Wait for the call and return what it returned, or raise what it raised; a signal's handler may break in."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def _run(self) -> None:
        try:
            self._outcome.append(self._call())
        except BaseException as error:  # noqa: BLE001 - ``result`` raises it
            self._error = error
