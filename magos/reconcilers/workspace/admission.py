"""What a start is refused for, judged without creating anything (spec §6.2.6, checks 3 and 4; §5.3; §6.2.5).

Policies and VariableSets are not evaluated by this version. Whatever names one is refused, so that no plan runs without
the policies or the inputs it was meant to have.
"""

import re

from msgspec import Struct

from magos.api.reasons import Reason
from magos.api.selectors import compile_selector
from magos.reconcilers.effects import RepositorySecretReport
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.specification import effective_selector

__all__ = ["Refused", "judge_inputs", "judge_secret", "scheme_of"]

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SCP = re.compile(r"(?:[^@/:\s]+@)?[^@/:\s]+:")
_SAME_AS = {"git+ssh": "ssh"}
_USERINFO = re.compile(r"//[^/@\s]*@")


class Refused(Struct, frozen=True, kw_only=True):
    """Why a start must not go on, for status and Event."""

    reason: Reason
    message: str


def scheme_of(repo_url: str) -> str:
    """Return the scheme that the allow-list is asked for: scp-like addresses are ``ssh``, local paths ``file``."""
    named = _URL.match(repo_url)
    if named:
        scheme = named[1].lower()
        return _SAME_AS.get(scheme, scheme)
    return "ssh" if _SCP.match(repo_url) and not repo_url.startswith("/") else "file"


def judge_inputs(seen: Observation) -> Refused | None:
    """Judge what stands in specs: URL scheme, policy selector, variables, policies."""
    return _scheme(seen) or _selector(seen) or _variables(seen) or _policies(seen)


def judge_secret(report: RepositorySecretReport) -> Refused | None:
    """Judge the repository Secret in force by its keys."""
    if not report.names:
        return None
    keys = frozenset(report.keys)
    if "username" in keys and not keys & {"password", "sshPrivateKey"}:
        return Refused(
            reason=Reason.INVALID_REPOSITORY_SECRET,
            message=f"Secret {report.names[0]} has the key username but no password: add the key password, or remove"
            " username for anonymous access.",
        )
    return None


def _scheme(seen: Observation) -> Refused | None:
    url = seen.subject.spec.source.repo_url
    scheme, allowed = scheme_of(url), seen.settings.allowed_schemes
    if scheme in allowed:
        return None
    return Refused(
        reason=Reason.SCHEME_NOT_ALLOWED,
        message=f"spec.source.repoURL {_USERINFO.sub('//', url)!r} has the scheme {scheme}, allowed are"
        f" {', '.join(allowed) or 'none'}: use another URL, or extend MAGOS_ALLOWED_GIT_SCHEMES.",
    )


def _selector(seen: Observation) -> Refused | None:
    effective = effective_selector(seen.subject, seen.project)
    if effective.selector is None:
        return None
    try:
        compile_selector(effective.selector)
    except ValueError as error:
        return Refused(
            reason=Reason.INVALID_POLICY_SELECTOR, message=f"{effective.origin} cannot be used: {error}. Correct it."
        )
    return None


def _variables(seen: Observation) -> Refused | None:
    inherited = seen.project.spec.variable_set_ref if seen.project is not None else ()
    named = [reference.name for reference in (*inherited, *seen.subject.spec.variable_set_ref)]
    if not named:
        return None
    return Refused(
        reason=Reason.UNRESOLVED_VARIABLES,
        message=f"VariableSet {', '.join(dict.fromkeys(named))}: this version of Magos does not resolve VariableSets"
        " yet, and does not plan without them. Remove variableSetRef from the Workspace and its Project.",
    )


def _policies(seen: Observation) -> Refused | None:
    effective = effective_selector(seen.subject, seen.project)
    if effective.selector is None:
        return None
    return Refused(
        reason=Reason.POLICY_EVALUATION_FAILED,
        message=f"{effective.origin} selects policies: this version of Magos does not evaluate policies yet, and does"
        " not plan without them. Remove the selector, or set validation: {} on the Workspace.",
    )
