"""The admission rules, field by field: the table that makes the CRDs refuse what could never work."""

from collections.abc import Mapping

from magos.api.meta import Condition
from magos.api.project import ProjectSpec, ProjectStatus
from magos.api.rollout import Rollout, RolloutSpec, RolloutStatus, RolloutStep, RolloutStrategy
from magos.api.schema import patterns
from magos.api.schema.rules import FieldRules, Rule, at_most, matches, must_not_match, reference, required, text
from magos.api.selectors import LabelSelector, LabelSelectorRequirement
from magos.api.status import CommonStatus, NameReference
from magos.api.variableset import KeyReference, ValueFrom, Variable, VariableSetSpec
from magos.api.workspace import (
    Approval,
    AwaitingApproval,
    PhaseOptions,
    RunRecord,
    Source,
    Terraform,
    Workspace,
    WorkspaceSpec,
    WorkspaceStatus,
)

_DATE_TIME = FieldRules(keywords={"format": "date-time"})
_SETS = FieldRules(
    keywords={"maxItems": 256},
    rules=(at_most(64, "variableSetRef"),),
    items=FieldRules(rules=reference("variableSetRef[]")),
)
_LABEL_RULE = (
    "invalid label key or value: use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
)


def _is_key(expression: str) -> str:
    return f"{expression}.matches(r'{patterns.LABEL_KEY}') && {expression}.indexOf('/') <= 253"


def _is_value(expression: str) -> str:
    return f"{expression}.size() <= 63 && !{expression}.matches(r'{patterns.NOT_A_LABEL_VALUE}')"


STRUCTS: Mapping[type, tuple[Rule, ...]] = {
    Workspace: (Rule("self.metadata.name.size() <= 248", "metadata.name must be at most 248 characters"),),
    Source: (
        required("repoURL", "source.repoURL"),
        required("targetRevision", "source.targetRevision"),
        # Not at the field itself: a refusal repeats a text field's value, and the audit log keeps refusals.
        Rule(
            f"!has(self.repoURL) || !self.repoURL.matches(r'{patterns.CREDENTIALS_IN_URL}')",
            "put credentials in a Secret labelled magosproject.io/secret-type=repository, not in source.repoURL"
            " (an http(s) URL has no user name either: it may be a token)",
            field_path=".repoURL",
        ),
    ),
    Terraform: (required("version", "terraform.version"),),
    Rollout: (
        Rule(
            "!has(self.spec.projectRef) || self.spec.projectRef == '' || self.metadata.name == self.spec.projectRef",
            "metadata.name must equal spec.projectRef (one Rollout per Project)",
        ),
    ),
    RolloutSpec: (required("projectRef", "projectRef"),),
    RolloutStep: (required("name", "strategy.steps[].name"),),
    Variable: (Rule("has(self.value) != has(self.valueFrom)", "exactly one of value and valueFrom must be set"),),
    ValueFrom: (
        Rule(
            "has(self.secretKeyRef) != has(self.configMapKeyRef)",
            "exactly one of valueFrom.secretKeyRef and valueFrom.configMapKeyRef must be set",
        ),
    ),
    LabelSelectorRequirement: (
        Rule(
            "!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() > 0)",
            "In and NotIn require at least one value",
            "self.operator + ' requires at least one value'",
        ),
        Rule(
            "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || self.values.size() == 0",
            "Exists and DoesNotExist must not have values",
            "self.operator + ' must not have values'",
        ),
    ),
}
"""CEL rules about whole objects."""

FIELDS: Mapping[tuple[type, str], FieldRules] = {
    # --- references and selectors ------------------------------------------------------------------------------------
    (NameReference, "name"): text(253),
    (KeyReference, "name"): text(253),
    (KeyReference, "key"): text(253),
    # A default inside a list makes every `kubectl apply` of an object without it look like a change.
    (KeyReference, "optional"): FieldRules(default=False),
    (LabelSelector, "match_labels"): FieldRules(
        keywords={"maxProperties": 16},
        rules=(Rule(f"self.all(k, {_is_key('k')} && {_is_value('self[k]')})", _LABEL_RULE),),
        items=FieldRules(keywords={"maxLength": 64}),
    ),
    (LabelSelector, "match_expressions"): FieldRules(keywords={"maxItems": 16}),
    (LabelSelectorRequirement, "key"): FieldRules(
        keywords={"maxLength": 317}, rules=(Rule(_is_key("self"), _LABEL_RULE),)
    ),
    (LabelSelectorRequirement, "operator"): FieldRules(
        keywords={"maxLength": 64},
        rules=(
            Rule(
                "self in ['In', 'NotIn', 'Exists', 'DoesNotExist']",
                "operator must be In, NotIn, Exists or DoesNotExist",
            ),
        ),
    ),
    (LabelSelectorRequirement, "values"): FieldRules(
        keywords={"maxItems": 32},
        items=FieldRules(keywords={"maxLength": 64}, rules=(Rule(_is_value("self"), _LABEL_RULE),)),
    ),
    # --- Workspace ---------------------------------------------------------------------------------------------------
    (WorkspaceSpec, "project_ref"): FieldRules(rules=reference("projectRef")),
    (WorkspaceSpec, "variable_set_ref"): _SETS,
    (WorkspaceSpec, "service_account_name"): FieldRules(
        keywords={"maxLength": 253},
        rules=(
            Rule("self != ''", "serviceAccountName must not be empty (leave it out for magos-job)"),
            matches(
                patterns.OBJECT_NAME,
                "serviceAccountName must be the name of a ServiceAccount: lower-case letters, digits, - and .",
            ),
        ),
    ),
    (PhaseOptions, "timeout_seconds"): FieldRules(
        keywords={"format": "int64"}, rules=(Rule("self >= 1", "timeoutSeconds must be at least 1"),)
    ),
    (Source, "repo_url"): text(
        2048,
        must_not_match(
            patterns.UNFIT_FOR_URL,
            "source.repoURL must not contain blanks or control characters or start with '-'",
        ),
        must_not_match(
            patterns.GIT_REMOTE_HELPER, "Git remote helpers (helper::address) are not supported in source.repoURL"
        ),
        matches(patterns.REPO_URL, "source.repoURL must be an http(s), ssh, git+ssh or scp-like URL"),
    ),
    (Source, "target_revision"): text(
        1024,
        must_not_match(
            patterns.NOT_A_REF,
            "source.targetRevision must be a branch, a tag, HEAD or a full 40-digit commit SHA",
        ),
    ),
    (Source, "path"): FieldRules(
        keywords={"maxLength": 1024},
        rules=(
            Rule("self != ''", "source.path must be a relative path inside the repository (. is its root)"),
            must_not_match(patterns.NOT_RELATIVE, "source.path must be a relative path inside the repository"),
        ),
    ),
    (Terraform, "version"): text(
        128, matches(patterns.VERSION, "terraform.version must be an exact version such as 1.9.8")
    ),
    (Terraform, "distribution"): FieldRules(
        keywords={"maxLength": 64, "enum": None},
        rules=(Rule("self in ['terraform', 'opentofu']", "terraform.distribution must be terraform or opentofu"),),
    ),
    (Terraform, "tfvars_path"): FieldRules(
        keywords={"maxLength": 1024},
        rules=(
            must_not_match(patterns.NOT_RELATIVE, "terraform.tfvarsPath must be a relative path inside the repository"),
        ),
    ),
    # --- Project -----------------------------------------------------------------------------------------------------
    (ProjectSpec, "description"): FieldRules(keywords={"maxLength": 4096}),
    (ProjectSpec, "variable_set_ref"): _SETS,
    # --- Rollout -----------------------------------------------------------------------------------------------------
    (RolloutSpec, "project_ref"): text(253),
    (RolloutStrategy, "steps"): FieldRules(keywords={"maxItems": 96}, rules=(at_most(64, "strategy.steps"),)),
    (RolloutStep, "name"): text(253),
    (RolloutStatus, "current_step"): FieldRules(keywords={"format": "int32"}),
    # --- VariableSet -------------------------------------------------------------------------------------------------
    (VariableSetSpec, "description"): FieldRules(keywords={"maxLength": 4096}),
    (VariableSetSpec, "variables"): FieldRules(
        keywords={"maxItems": 1000, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        rules=(Rule("self.size() >= 1", "variables must have at least one entry"), at_most(500, "variables")),
    ),
    (Variable, "name"): FieldRules(
        keywords={"maxLength": 512},
        rules=(
            Rule(
                f"self.size() <= 253 && self.matches(r'{patterns.VARIABLE_NAME}')",
                "variables[].name must be 1 to 253 letters, digits and underscores, and not begin with a digit",
            ),
        ),
    ),
    (ValueFrom, "secret_key_ref"): FieldRules(rules=reference("valueFrom.secretKeyRef", key=True)),
    (ValueFrom, "config_map_key_ref"): FieldRules(rules=reference("valueFrom.configMapKeyRef", key=True)),
    # --- status ------------------------------------------------------------------------------------------------------
    (CommonStatus, "message"): FieldRules(keywords={"maxLength": 1024}),
    (CommonStatus, "observed_generation"): FieldRules(keywords={"format": "int64"}),
    (CommonStatus, "last_reconcile_time"): _DATE_TIME,
    (ProjectStatus, "parallel_from"): _DATE_TIME,
    (CommonStatus, "conditions"): FieldRules(
        keywords={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    ),
    (Condition, "type"): FieldRules(keywords={"maxLength": 316}),
    (Condition, "status"): FieldRules(keywords={"enum": ["True", "False", "Unknown"]}),
    (Condition, "reason"): FieldRules(
        keywords={"maxLength": 1024, "minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"}
    ),
    (Condition, "message"): FieldRules(keywords={"maxLength": 32768}),
    (Condition, "last_transition_time"): _DATE_TIME,
    (Condition, "observed_generation"): FieldRules(keywords={"format": "int64", "minimum": 0}, default=False),
    (WorkspaceStatus, "next_reconcile_time"): _DATE_TIME,
    (WorkspaceStatus, "last_run_started_at"): _DATE_TIME,
    (WorkspaceStatus, "policy_violations"): FieldRules(keywords={"maxItems": 50}),
    (AwaitingApproval, "since"): _DATE_TIME,
    (Approval, "at"): _DATE_TIME,
    (RunRecord, "trigger"): FieldRules(default=False),
    (RunRecord, "started_at"): _DATE_TIME,
    (RunRecord, "finished_at"): _DATE_TIME,
}
"""Schema keywords and CEL rules, by Struct and Python field name."""
