"""What callers may do is what the cluster allows the accounts they act as (spec §9.4, invariant I19)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.kube.mappedaccounts import MappedAccount
from magos.server.access import Right, Verb
from magos.server.auth.access import ReviewedAccess
from magos.server.auth.mappings import MOST, Malformed, Mappings, mapping_of, matches
from magos.server.auth.reviews import Reviews
from magos.server.identity import Caller, CallerKind, KubernetesUser
from magos.server.problems import Problem
from tests.unit.server.auth.world import Cluster, Hands, account, accounts_of, client_of, tell

READ = Right(verb=Verb.GET, resource="workspaces", namespace="team-a", name="net")
ADMIN = Caller(kind=CallerKind.ADMIN, username="admin", subject="admin")
ANN = Caller(kind=CallerKind.OIDC, username="ann", subject="s", claims={"groups": ("a", "b"), "org": ("x",)})


class Court:
    def __init__(self, *accounts: MappedAccount, synced: bool = True) -> None:
        self.clock = Hands()
        self.cluster = Cluster()
        self.informer = accounts_of(self.clock, *accounts, synced=synced)
        self.mappings = Mappings(self.informer, "magos", ("shared",))
        self.access = ReviewedAccess(self.mappings, Reviews(client_of(self.cluster), self.clock))

    def allows(self, caller: Caller = ANN, right: Right = READ) -> bool:
        return asyncio.run(self.access.allows(caller, right))

    def asked(self) -> list[str]:
        return [spec["user"] for spec in self.cluster.reviews]


def yes(_spec: Mapping[str, Any]) -> bool:
    return True


def test_the_admin_alone_is_not_reviewed() -> None:
    court = Court()
    grant = asyncio.run(court.access.require(ADMIN, READ))
    assert (grant.caller, grant.right, court.asked()) == (ADMIN, READ, [])
    with pytest.raises(Problem, match="ann may not get workspaces in team-a") as raised:
        asyncio.run(court.access.require(ANN, READ))
    assert raised.value.status == 403


def test_accounts_count_in_their_namespace_and_those_of_two_kinds_everywhere() -> None:
    places = ("magos", "shared", "team-a", "team-b")
    court = Court(*(account(place, "viewer", {"groups": ["a"]}) for place in places))
    assert not court.allows()
    assert court.asked() == [f"system:serviceaccount:{place}:viewer" for place in ("magos", "shared", "team-a")]
    assert court.cluster.reviews[2]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:team-a",
        "system:authenticated",
    ]
    assert court.cluster.reviews[2]["resourceAttributes"] == {
        "verb": "get",
        "group": "magosproject.io",
        "resource": "workspaces",
        "namespace": "team-a",
        "name": "net",
    }
    assert court.access.accounts(ANN) == ("magos/viewer", "shared/viewer")


def test_a_tenant_cannot_map_people_into_other_namespaces() -> None:
    court = Court(account("team-a", "all", {"groups": ["a"]}))
    court.cluster.allowed = yes
    assert court.allows()
    assert not court.allows(right=Right(verb=Verb.GET, resource="workspaces", namespace="team-b"))
    assert not court.allows(right=Right(verb=Verb.LIST, resource="workspaces"))


def test_any_allow_wins() -> None:
    court = Court(account("magos", "one", {"groups": ["a"]}), account("magos", "two", {"org": ["x"]}))
    court.cluster.allowed = lambda spec: spec["user"].endswith(":two")
    assert court.allows()


def test_a_service_account_is_asked_about_as_itself() -> None:
    court = Court()
    court.cluster.allowed = yes
    user = KubernetesUser(username="system:serviceaccount:a:b", uid="u", groups=("g",), extra={"k": ("v",)})
    caller = Caller(kind=CallerKind.SERVICE_ACCOUNT, username=user.username, subject=user.username, user=user)
    assert court.allows(caller)
    spec = court.cluster.reviews[0]
    assert (spec["user"], spec["uid"], spec["groups"], spec["extra"]) == (user.username, "u", ["g"], {"k": ["v"]})
    assert court.access.accounts(caller) == ("a/b",)


def test_a_decision_is_kept_for_15_s_and_no_longer() -> None:
    court = Court(account("magos", "v", {"groups": ["a"]}))
    court.cluster.allowed = yes
    assert court.allows()
    court.cluster.allowed = lambda _spec: False
    court.clock.seconds += 14.9
    assert court.allows()
    court.clock.seconds += 0.1
    assert not court.allows()
    assert len(court.asked()) == 2


def test_a_mapping_that_is_taken_away_counts_at_once() -> None:
    present = account("magos", "v", {"groups": ["a"]})
    court = Court(present)
    court.cluster.allowed = yes
    assert court.allows()
    tell(court.informer, present, None)
    assert not court.allows()


def test_a_cluster_that_is_down_is_503_and_not_remembered() -> None:
    court = Court(account("magos", "v", {"groups": ["a"]}))
    court.cluster.allowed = yes
    court.cluster.down = True
    with pytest.raises(Problem) as raised:
        court.allows()
    assert raised.value.status == 503
    court.cluster.down = False
    assert court.allows()


def test_before_all_accounts_are_known_nobody_is_refused() -> None:
    with pytest.raises(Problem) as raised:
        Court(synced=False).allows()
    assert raised.value.status == 503


def test_equal_questions_ask_once_and_few_are_under_way() -> None:
    court = Court(account("magos", "v", {"groups": ["a"]}))
    court.cluster.allowed = yes

    async def many() -> list[bool]:
        return await asyncio.gather(*(court.access.allows(ANN, READ) for _ in range(50)))

    assert all(asyncio.run(many()))
    assert len(court.asked()) == 1


def test_what_is_visible_is_asked_for_the_cluster_then_for_each_namespace() -> None:
    court = Court(account("magos", "v", {"groups": ["a"]}))
    places = [f"n{number}" for number in range(1000)]
    court.cluster.allowed = lambda spec: spec["resourceAttributes"].get("namespace") in ("n1", "n7")
    seen = asyncio.run(court.access.visible(ANN, Verb.LIST, "workspaces", places))
    assert seen == frozenset({"n1", "n7"})
    assert len(court.asked()) == 1001
    assert court.cluster.most_at_once <= 16
    asyncio.run(court.access.visible(ANN, Verb.LIST, "workspaces", places))
    assert len(court.asked()) == 1001
    court.cluster.allowed = yes
    court.clock.seconds += 30
    assert asyncio.run(court.access.visible(ANN, Verb.LIST, "workspaces", places)) is None
    assert len(court.asked()) == 1002


def test_many_accounts_that_match_do_not_make_a_question_cost_without_end() -> None:
    court = Court(*(account("team-a", f"v{number:04}", {"groups": ["a"]}) for number in range(1000)))
    assert not court.allows()
    assert len(court.asked()) == MOST


CLAIMS = st.dictionaries(st.sampled_from("abc"), st.lists(st.sampled_from("xyz"), max_size=3).map(tuple), max_size=3)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), st.frozensets(st.sampled_from("xyz")), max_size=3)


@given(MAPPINGS, CLAIMS)
def test_a_mapping_matches_if_every_claim_shares_a_value(
    mapping: dict[str, frozenset[str]], claims: dict[str, tuple[str, ...]]
) -> None:
    expected = bool(mapping) and all(any(v in claims.get(name, ()) for v in mapping[name]) for name in mapping)
    assert matches(mapping, claims) is expected


@given(MAPPINGS, CLAIMS, st.sampled_from("abc"), st.sampled_from("xyz"))
def test_a_further_claim_in_a_mapping_never_lets_more_people_in(
    mapping: dict[str, frozenset[str]], claims: dict[str, tuple[str, ...]], name: str, value: str
) -> None:
    if mapping and name not in mapping and matches({**mapping, name: frozenset({value})}, claims):
        assert matches(mapping, claims)


KEY = "rbac.magosproject.io/claims"
ONE = "rbac.magosproject.io/claim."


def test_annotations_are_read_together() -> None:
    assert mapping_of({}) is None
    assert mapping_of({KEY: '{"groups":["a"]}', f"{ONE}groups": "b, c,", f"{ONE}org": "x"}) == {
        "groups": frozenset("abc"),
        "org": frozenset("x"),
    }


@pytest.mark.parametrize(
    "annotations",
    [
        {KEY: "{"},
        {KEY: '{"groups":"a"}'},
        {KEY: '["a"]'},
        {KEY: '{"groups":[1]}'},
        {KEY: '{"groups":[]}'},
        {KEY: '{"groups":["a"],"org":[]}'},
        {KEY: '{"":["a"]}'},
        {f"{ONE}groups": ""},
        {f"{ONE}groups": " , "},
        {KEY: '{"groups":["a"]}', f"{ONE}org": ","},
    ],
)
def test_annotations_that_cannot_be_read_match_nobody(annotations: dict[str, str]) -> None:
    with pytest.raises(Malformed):
        mapping_of(annotations)
    court = Court(account("magos", "v", None, **annotations))
    court.cluster.allowed = yes
    assert not court.allows()


def test_an_empty_mapping_matches_nobody() -> None:
    court = Court(account("magos", "v", {}), account("magos", "none"))
    court.cluster.allowed = yes
    assert not court.allows()


def test_what_mappings_use_is_names_and_values() -> None:
    court = Court(account("magos", "v", {"groups": ["a"]}), account("x", "w", {"groups": ["b"], "org": ["o"]}))
    assert court.mappings.used() == {"groups": frozenset("ab"), "org": frozenset("o")}
