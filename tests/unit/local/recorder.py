"""Progress for tests."""

__all__ = ["Recorder"]


class Recorder:
    """Keeps the reports of long work in ``said`` and forgets the present state."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def tick(self, text: str) -> None:
        del text
