"""Which requests are sent again: only those that the server surely did not carry out, and reads."""

from magos.runtime.client.transport import HttpResponse, TransportError

RETRIES = 10
RESETS = 3


class Attempts:
    """What has been tried for one request, and whether to try again."""

    def __init__(self, read: bool) -> None:
        self.sent = False
        self.answer: HttpResponse | None = None
        """The last refusal, which is the answer if time runs out before there is a better one."""
        self._read = read
        self._tries = 0
        self._rejected = False

    def first_rejection(self) -> bool:
        """Tell whether this 401 is the first."""
        first, self._rejected = not self._rejected, True
        return first

    def after_failure(self, error: TransportError) -> float | None:
        """Return the pause before the next try after a broken connection, None to give up."""
        self._tries += 1
        if not self._read or not error.sent or self._tries > RESETS:
            return None
        return 0.05 * self._tries

    def after_answer(self, response: HttpResponse) -> float | None:
        """Return the pause that the server asked for, None to take the answer as it is."""
        self._tries += 1
        text = response.headers.get("retry-after", "")
        # 504 is the server's own timeout ("too large resource version" among others): the caller has to ask otherwise.
        busy = response.status == 429 or (self._read and response.status >= 500 and response.status != 504)
        if not busy or not text.isdecimal() or self._tries > RETRIES:
            return None
        self.answer = response
        return max(0.1, float(text))
