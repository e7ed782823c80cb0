"""The VariableSet controller (spec §6.5): phases, references, content versions, rest."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magos.api.conditions import LONGEST_MESSAGE, find
from magos.api.meta import Condition
from magos.api.phases import Phase
from magos.api.reasons import Reason, ReferenceProblem
from magos.api.variablelimits import ENTRY_BYTES, TOTAL_BYTES, entry_size
from magos.api.variableset import SourceKind, Variable
from magos.reconcilers.rejections import RETRY_DELAY
from magos.runtime.decision import EventType, Outcome, QueryFailure
from tests.unit.reconcilers.variablesets import Bench, config_map, literal, secret

SECRET, CONFIG_MAP = SourceKind.SECRET, SourceKind.CONFIG_MAP


def standing(bench: Bench) -> tuple[Phase | None, str, str]:
    ready = find(bench.status.conditions, "Ready")
    assert ready is not None
    assert (ready.reason, ready.message) == (bench.status.reason, bench.status.message)
    return bench.status.phase, bench.status.reason, ready.status


READY = (Phase.READY, Reason.ALL_REFERENCES_RESOLVED, "True")
FAILED = (Phase.FAILED, Reason.UNRESOLVED_REFERENCES, "False")


def test_literals_are_resolved_an_empty_one_too() -> None:
    bench = Bench(literal("a", ""), literal("b", "x"))
    decision = bench.settle()
    assert standing(bench) == READY
    assert bench.status.resolved_variables == 2
    assert bench.status.observed_generation == 1
    assert (bench.status.sources, bench.events, decision.requeue_at) == ((), [], None)
    assert bench.writes == 1


def test_every_reference_is_looked_up_in_its_own_kind() -> None:
    bench = Bench(secret("a", "db", "password"), config_map("b", "db", "host"), secret("c", "db", "user"))
    one = bench.put(SECRET, "db", password="p", user="u")
    two = bench.put(CONFIG_MAP, "db", host="h")
    bench.settle()
    assert standing(bench) == READY
    assert bench.status.resolved_variables == 3
    assert [(s.kind, s.name, s.resource_version, s.content_version) for s in bench.status.sources] == [
        (SECRET, "db", one, one),
        (CONFIG_MAP, "db", two, two),
    ]


def test_what_is_missing_is_listed_once_and_heals_by_itself() -> None:
    bench = Bench(
        secret("a", "db", "password"), secret("b", "db", "password"), config_map("c", "net", "cidr"), literal("d", "1")
    )
    bench.put(CONFIG_MAP, "net", other="x")
    bench.settle()
    assert standing(bench) == FAILED
    assert find(bench.status.conditions, "Stalled") is None
    assert [(u.kind, u.name, u.key, u.reason) for u in bench.status.unresolved_references] == [
        (SECRET, "db", "password", ReferenceProblem.RESOURCE_NOT_FOUND),
        (CONFIG_MAP, "net", "cidr", ReferenceProblem.KEY_NOT_FOUND),
    ]
    assert bench.status.resolved_variables == 1
    assert "Secret/db password: ResourceNotFound; ConfigMap/net cidr: KeyNotFound" in bench.status.message
    assert [(e.type, e.reason) for e in bench.events] == [(EventType.WARNING, "UnresolvedReferences")]
    bench.put(SECRET, "db", password="p")
    bench.put(CONFIG_MAP, "net", cidr="10.0.0.0/8")
    bench.settle()
    assert standing(bench) == READY
    assert bench.status.unresolved_references == ()
    assert len(bench.events) == 1


def test_optional_and_missing_is_neither_counted_nor_listed() -> None:
    bench = Bench(
        secret("a", "gone", "k", optional=True), config_map("b", "net", "k", optional=True), literal("c", "1")
    )
    bench.put(CONFIG_MAP, "net", other="x")
    bench.settle()
    assert standing(bench) == READY
    assert bench.status.resolved_variables == 1
    assert bench.status.unresolved_references == ()
    assert bench.status.message == "1 of 3 variables have a value. Optional references without a value: 2."
    bench.put(SECRET, "gone", k="v")
    bench.settle()
    assert bench.status.resolved_variables == 2


@pytest.mark.parametrize("optional", [False, True])
def test_what_may_not_be_read_is_forbidden_and_asked_for_again(optional: bool) -> None:
    bench = Bench(secret("a", "db", "k", optional=optional), config_map("b", "net", "k"))
    bench.put(SECRET, "db", k="v")
    bench.put(CONFIG_MAP, "net", k="v")
    bench.forbidden = {"db"}
    decision = bench.settle()
    assert standing(bench) == FAILED
    assert [u.reason for u in bench.status.unresolved_references] == [ReferenceProblem.FORBIDDEN]
    assert "RBAC" in bench.status.message
    assert decision.requeue_at == bench.now + RETRY_DELAY
    bench.forbidden = set()
    bench.settle()
    assert standing(bench) == READY


def test_a_right_that_was_away_over_a_restart_changes_no_content() -> None:
    bench = Bench(secret("a", "db", "k"))
    first = bench.put(SECRET, "db", k="v")
    bench.settle()
    later = bench.relabel(SECRET, "db")
    bench.settle()
    bench.restart()
    bench.forbidden = {"db"}
    bench.settle()
    bench.forbidden = set()
    bench.settle()
    assert bench.version_of("db") == (later, first)


# --- content versions -------------------------------------------------------------------------------------------------


def test_rotation_moves_the_content_version_and_a_label_does_not() -> None:
    bench = Bench(secret("a", "db", "k"))
    first = bench.put(SECRET, "db", k="v", other="1")
    bench.settle()
    assert bench.version_of("db") == (first, first)
    label = bench.relabel(SECRET, "db")
    bench.settle()
    assert bench.version_of("db") == (label, first)
    unreferenced = bench.put(SECRET, "db", k="v", other="2")
    bench.settle()
    assert bench.version_of("db") == (unreferenced, first)
    rotated = bench.put(SECRET, "db", k="w", other="2")
    bench.settle()
    assert bench.version_of("db") == (rotated, rotated)
    gone = bench.put(SECRET, "db", other="2")
    bench.settle()
    assert bench.version_of("db") == (gone, gone)
    assert standing(bench) == FAILED


def test_an_object_that_comes_back_as_it_was_has_not_changed() -> None:
    bench = Bench(secret("a", "db", "k"))
    first = bench.put(SECRET, "db", k="v")
    bench.settle()
    del bench.sources[SECRET, "db"]
    bench.settle()
    assert standing(bench) == FAILED
    assert bench.status.sources == ()
    again = bench.put(SECRET, "db", k="v")
    bench.settle()
    assert bench.version_of("db") == (again, first)


def test_a_restart_keeps_what_did_not_change_and_counts_another_version_as_a_change() -> None:
    bench = Bench(secret("a", "db", "k"))
    first = bench.put(SECRET, "db", k="v")
    bench.settle()
    label = bench.relabel(SECRET, "db")
    bench.settle()
    writes = bench.writes
    bench.restart()
    bench.settle()
    assert bench.writes == writes
    assert bench.version_of("db") == (label, first)
    bench.restart()
    other = bench.relabel(SECRET, "db")
    bench.settle()
    assert bench.version_of("db") == (other, other)


def test_a_key_that_was_not_looked_at_meanwhile_counts_as_changed() -> None:
    both = (secret("a", "db", "x"), secret("b", "db", "y"))
    bench = Bench(*both)
    bench.put(SECRET, "db", x="1", y="1")
    bench.settle()
    bench.edit(both[0])
    bench.settle()
    changed = bench.put(SECRET, "db", x="1", y="2")
    bench.settle()
    bench.edit(*both)
    bench.settle()
    assert bench.version_of("db") == (changed, changed)


def test_a_status_write_that_was_lost_loses_no_rotation() -> None:
    bench = Bench(secret("a", "db", "k"))
    bench.put(SECRET, "db", k="v")
    bench.settle()
    before = bench.found
    rotated = bench.put(SECRET, "db", k="w")
    bench.settle()
    bench.found = before  # the write never reached the server
    label = bench.relabel(SECRET, "db")
    bench.settle()
    assert bench.version_of("db") == (label, rotated)


# --- what no environment can carry ------------------------------------------------------------------------------------


@given(name=st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,252}", fullmatch=True), spare=st.integers(-2, 2))
def test_a_value_may_be_as_long_as_linux_allows(name: str, spare: int) -> None:
    room = ENTRY_BYTES - entry_size(name, 0)
    bench = Bench(literal(name, "x" * (room - spare)))
    bench.settle()
    assert (standing(bench) == READY) == (spare >= 0)
    if spare < 0:
        assert bench.status.resolved_variables == 0
        assert f"variable {name}: its value is longer than the 131072 bytes" in bench.status.message
        assert bench.status.unresolved_references == ()


def test_values_that_are_together_too_large_are_told_before_any_job() -> None:
    bench = Bench(*(secret(f"v{n}", f"s{n}", "k") for n in range(11)))
    for n in range(11):
        bench.put(SECRET, f"s{n}", k="x" * 100_000)
    bench.settle()
    assert standing(bench) == FAILED
    assert f"more than {TOTAL_BYTES} bytes" in bench.status.message
    bench.edit(*(secret(f"v{n}", f"s{n}", "k") for n in range(10)))
    bench.settle()
    assert standing(bench) == READY


def test_a_binary_value_is_no_variable() -> None:
    bench = Bench(secret("a", "db", "k"), literal("b", "x\0y"))
    bench.put(SECRET, "db", k=b"\0\1")
    bench.settle()
    assert standing(bench) == FAILED
    assert bench.status.message.count("is not text") == 2


def test_a_variable_without_any_source_is_told_and_not_guessed() -> None:
    bench = Bench(Variable(name="a"))
    bench.settle()
    assert standing(bench) == FAILED
    assert "exactly one of" in bench.status.message


def test_five_hundred_missing_references_fit_a_message_that_ends_with_the_hint() -> None:
    bench = Bench(*(secret(f"v{n}", "s" * 253, f"{n}" + "k" * 240) for n in range(500)))
    bench.settle()
    assert len(bench.status.unresolved_references) == 500
    assert len(bench.status.message) <= LONGEST_MESSAGE
    assert "and 499 more" in bench.status.message
    assert bench.status.message.endswith("mark the reference optional.")


# --- rest and trouble -------------------------------------------------------------------------------------------------


def test_five_hundred_references_are_read_once_and_then_only_what_changed() -> None:
    bench = Bench(*(config_map(f"v{n}", f"c{n}", "k") for n in range(500)))
    for n in range(500):
        bench.put(CONFIG_MAP, f"c{n}", k=str(n))
    bench.settle()
    assert len(bench.reads) == 500
    assert [s.name for s in bench.status.sources] == [f"c{n}" for n in range(500)]
    bench.reads.clear()
    bench.settle()
    assert bench.reads == []
    bench.put(CONFIG_MAP, "c7", k="other")
    bench.settle()
    assert bench.reads == ["c7"]


def test_a_cache_that_lags_costs_reads_and_no_writes() -> None:
    bench = Bench(secret("a", "db", "k"))
    bench.put(SECRET, "db", k="v")
    bench.lagging = {"db"}
    bench.settle()
    assert standing(bench) == READY
    writes = bench.writes
    bench.settle()
    assert bench.writes == writes


def test_a_set_that_is_gone_is_forgotten() -> None:
    bench = Bench(secret("a", "db", "k"))
    bench.put(SECRET, "db", k="v")
    bench.settle()
    assert bench.memory
    bench.found = None
    assert bench.settle().outcome is Outcome.GONE
    assert not bench.memory


def test_an_unreadable_source_is_told_and_tried_again() -> None:
    bench = Bench(secret("a", "db", "k"))
    bench.failures = {"db": QueryFailure(reason="Undecodable", message="the answer does not fit")}
    decision = bench.settle()
    assert (bench.status.phase, bench.status.reason) == (Phase.FAILED, Reason.RECONCILE_ERROR)
    assert find(bench.status.conditions, "Stalled") is not None
    assert decision.requeue_at == bench.now + RETRY_DELAY
    bench.failures = {}
    bench.put(SECRET, "db", k="v")
    bench.settle()
    assert standing(bench) == READY


def test_what_others_put_into_status_stays() -> None:
    bench = Bench(literal("a", "1"))
    assert bench.found is not None
    foreign = Condition(
        type="Audited", status="True", reason="R", message="m", last_transition_time="2026-01-01T00:00:00Z"
    )
    bench.found = msgspec.structs.replace(
        bench.found, status=msgspec.structs.replace(bench.found.status, conditions=(foreign,))
    )
    bench.settle()
    assert foreign in bench.status.conditions


class Rotations(RuleBasedStateMachine):
    """Whatever happens to two Secrets: the content version moves if and only if the referenced content does.

    A restart may move it once for each version that was not seen before; it never loses a change.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(secret("a", "s", "x"), secret("b", "s", "y", optional=True))
        self.blind = False
        self.bench.put(SECRET, "s", x="0")
        self.bench.settle()
        self.contents = {self.bench.version_of("s")[1]: self._content()}

    def _content(self) -> tuple[bytes | None, bytes | None]:
        values = self.bench.sources[SECRET, "s"].values
        return values.get("x"), values.get("y")

    @rule(x=st.sampled_from("012"), y=st.sampled_from(["", "0", "1"]), other=st.sampled_from("01"))
    def write(self, x: str, y: str, other: str) -> None:
        values = {"x": x, "other": other, **({"y": y} if y else {})}
        self.bench.put(SECRET, "s", **values)

    @rule()
    def label(self) -> None:
        self.bench.relabel(SECRET, "s")

    @rule()
    def restart(self) -> None:
        self.bench.restart()
        self.blind = True

    @rule()
    def edit(self) -> None:
        assert self.bench.found is not None
        self.bench.edit(*self.bench.found.spec.variables, literal(f"l{self.bench.found.metadata.generation}", ""))

    @rule()
    def look(self) -> None:
        before = self.bench.version_of("s")
        self.bench.settle()
        version, content = self.bench.version_of("s")
        assert version == str(self.bench.sources[SECRET, "s"].version)
        if not self.blind:
            assert (content != before[1]) == (self._content() != self.contents[before[1]])
        known = self.contents.setdefault(content, self._content())
        assert known == self._content()  # one content version never stands for two contents
        self.blind = False

    @precondition(lambda self: self.bench.found is not None)
    @invariant()
    def nothing_secret_in_status(self) -> None:
        assert b"digest" not in msgspec.json.encode(self.bench.status)


TestRotations = Rotations.TestCase
