"""What masking costs: milliseconds for a line of output where a secret of 100 KB in many lines is to be masked.

The secret is a bundle of certificates, which has more than 20,000 forms. The lines are those a large run prints, one by
one as they arrive. The time in which the automaton is made is spread over them; that in which a stage works out the
forms when it starts goes to standard error.
"""

import base64
import random
import sys
import time

from magos.masking.redact import Redactor
from magos.masking.secretforms import secret_forms

__all__ = ["measure"]

_LINES = 3_000
_CERTIFICATES = 75


def _bundle(rng: random.Random) -> str:
    lines: list[str] = []
    for _ in range(_CERTIFICATES):
        lines.append("-----BEGIN CERTIFICATE-----")
        lines += (base64.b64encode(rng.randbytes(48)).decode() for _ in range(20))
        lines.append("-----END CERTIFICATE-----")
    return "\n".join(lines) + "\n"


def measure() -> dict[str, float]:
    """One stream of ordinary lines."""
    rng = random.Random(20260101)
    bundle = _bundle(rng)
    lines = [
        f"terraform_data.shown[{number}]: Creation complete after 0s [id={rng.randbytes(16).hex()}]\n".encode()
        for number in range(_LINES)
    ]
    began = time.perf_counter()
    forms = secret_forms([bundle])
    made = time.perf_counter()
    redactor = Redactor(forms)
    shown = b"".join([*(redactor.feed(line) for line in lines), redactor.finish()])
    ended = time.perf_counter()
    assert shown == b"".join(lines)
    assert Redactor(forms).feed(bundle.encode()[2000:3000].partition(b"\n")[2]).count(b"***") > 5
    print(f"redaction: {len(forms)} forms of {len(bundle)} bytes in {made - began:.2f} s", file=sys.stderr)
    return {"redaction.ms_per_line": round((ended - made) * 1000 / _LINES, 3)}
