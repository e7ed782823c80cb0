"""What a start is refused for, judged without creating anything (spec §6.2.6, checks 3 and 4; §5.3; §6.2.5; §7.4).

No plan runs without the inputs and the policies it was meant to have: what cannot be resolved, listed or evaluated is
refused, never skipped.
"""

import re

from msgspec import Struct

from magos.api.reasons import Reason
from magos.api.repositorysecret import lacks_password
from magos.api.selectors import compile_selector
from magos.api.tool import Distribution
from magos.reconcilers.effects import RepositorySecretReport
from magos.reconcilers.workspace.inputs.layers import Unresolved
from magos.reconcilers.workspace.inputs.policies import SelectedPolicies, select_policies
from magos.reconcilers.workspace.inputs.specification import effective_selector
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.pod.toolversion import SETTINGS, precedes

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


def judge_specs(seen: Observation) -> Refused | None:
    """Judge what the caches tell as well: URL scheme, tool version, policy selector, variables."""
    return _scheme(seen) or _tool(seen) or _selector(seen) or _variables(seen)


def judge_start(seen: Observation) -> Refused | None:
    """Judge everything that stands in objects, in the order of the checks; for complete observations."""
    secret = judge_secret(seen.secrets) if seen.secrets is not None else None
    return _scheme(seen) or _tool(seen) or secret or _selector(seen) or _variables(seen)


def selected_policies(seen: Observation) -> SelectedPolicies | Refused | None:
    """Return the policies of a plan, None without a selector, or why there is no evaluating them."""
    effective = effective_selector(seen.subject, seen.project)
    if effective.selector is None:
        return None
    if seen.policies_failure is not None or seen.policies is None:
        failure = seen.policies_failure
        text = f"{failure.reason}: {failure.message.rstrip('.')}" if failure is not None else "they were not read"
        return Refused(
            reason=Reason.POLICY_EVALUATION_FAILED,
            message=f"ValidatingPolicies cannot be listed: {text}. Nothing is planned without them: check the component"
            " kyverno-crd and the rights of the workspace controller.",
        )
    try:
        return select_policies(compile_selector(effective.selector), seen.policies)
    except ValueError as error:
        return Refused(
            reason=Reason.POLICY_EVALUATION_FAILED, message=f"{effective.origin} cannot be evaluated: {error}."
        )


def judge_secret(report: RepositorySecretReport) -> Refused | None:
    """Judge the repository Secret in force by its keys."""
    if not report.names:
        return None
    if lacks_password(report.keys):
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


def _tool(seen: Observation) -> Refused | None:
    wanted, settings = seen.subject.spec.terraform, seen.settings
    terraform = wanted.distribution is Distribution.TERRAFORM
    minimum = settings.minimum_terraform if terraform else settings.minimum_opentofu
    if not precedes(wanted.version, minimum):
        return None
    return Refused(
        reason=Reason.INVALID_CONFIGURATION,
        message=f"spec.terraform.version {wanted.version} of {wanted.distribution} is older than {minimum}, the oldest"
        " that may download modules with Git credentials: use a newer version, or ask an administrator to set"
        f" {SETTINGS[wanted.distribution]} of the workspace controller.",
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
    if not isinstance(seen.inputs, Unresolved):
        return None
    return Refused(reason=Reason.UNRESOLVED_VARIABLES, message=seen.inputs.message)
