"""``magos rollout status -w``: it ends with the promotion, or with what stopped it."""

import anyio
import pytest
from msgspec.structs import replace

from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.rollout import ROLLOUTS, Rollout
from tests.unit.cli.shop import HOSTILE, Shop
from tests.unit.explain.objects import rollout


def _seen(each: Rollout) -> Rollout:
    meta = ObjectMeta(name="shop", namespace="team-a", generation=1)
    return replace(each, metadata=meta, status=replace(each.status, observed_generation=1))


RUNNING = _seen(rollout(0, "dev", "prod", reason="LevelProgressing", message="Step dev of 2: running dev."))


@pytest.mark.parametrize(
    ("last", "code", "words"),
    [
        (rollout(2, "dev", "prod", phase=Phase.APPLIED, reason="RolloutCompleted"), 0, ""),
        (
            rollout(0, "dev", "prod", phase=Phase.FAILED, reason="StepFailed", message=HOSTILE),
            1,
            "magos: Rollout team-a/shop (StepFailed): x\\x1b[2J",
        ),
    ],
)
def test_a_watch_ends_with_the_promotion(shop: Shop, last: Rollout, code: int, words: str) -> None:
    shop.put(ROLLOUTS, RUNNING)

    async def meanwhile() -> None:
        await anyio.sleep(60)
        shop.put(ROLLOUTS, _seen(last))

    shop.meanwhile = meanwhile
    ended = shop("rollout", "status", "shop", "-w")
    assert ended.code == code
    assert ended.err.splitlines()[0] == "Rollout team-a/shop (LevelProgressing): Step dev of 2: running dev."
    assert words in ended.err
    assert "Step dev (1 of 2)" in ended.out


def test_a_completion_of_an_earlier_spec_is_not_taken_for_one(shop: Shop) -> None:
    done = _seen(rollout(2, "dev", "prod", phase=Phase.APPLIED, reason="RolloutCompleted"))
    shop.put(ROLLOUTS, replace(done, metadata=replace(done.metadata, generation=2)))
    ended = shop("rollout", "status", "shop", "-w", "--timeout", "5m")
    assert (ended.code, "gave up after 5m0s: Rollout team-a/shop" in ended.err) == (5, True)


def test_a_rollout_that_is_not_there_or_goes_away_is_not_found(shop: Shop) -> None:
    assert shop("rollout", "status", "shop", "-w").code == 3
    shop.put(ROLLOUTS, RUNNING)

    async def meanwhile() -> None:
        await anyio.sleep(60)
        shop.server.store.remove(shop.server.resource(ROLLOUTS), ("team-a", "shop"))

    shop.meanwhile = meanwhile
    ended = shop("rollout", "status", "shop", "-w")
    assert (ended.code, "was deleted while it was waited for" in ended.err) == (3, True)
