"""How long after an emergency stop of 300 members the last permission is written, in simulated seconds."""

from tests.sim.stops import PROJECT_STOPS, ROLLOUT_STOPS, last_grant

__all__ = ["measure"]

_GRANTED_BEFORE = (1, 30)


def measure() -> dict[str, float]:
    """Return the worst of all ways to stop a Rollout or a Project; the API server takes 70 ms a request."""
    seconds = [
        last_grant(controller, stop, after)
        for controller, stops in (("rollout", ROLLOUT_STOPS), ("project", PROJECT_STOPS))
        for stop in stops
        for after in _GRANTED_BEFORE
    ]
    return {"pause.seconds_to_last_grant": round(max(seconds), 3)}
