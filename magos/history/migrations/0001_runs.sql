-- Rows belong to the UID of a Workspace: one that is created anew does not inherit history. No row refers to another,
-- because they arrive in any order.

CREATE TABLE workspaces (
    ws_uid     text COLLATE "C" PRIMARY KEY,
    namespace  text NOT NULL,
    name       text NOT NULL,
    deleted_at timestamptz
);
CREATE INDEX workspaces_by_name ON workspaces (namespace, name);

-- NULL stands for what is not known. "minted_at" is the time that the run ID holds, which orders runs whose start is
-- not known; "ordered_at" is what lists are sorted by.
CREATE TABLE runs (
    ws_uid          text COLLATE "C" NOT NULL,
    run_id          text COLLATE "C" NOT NULL,
    namespace       text NOT NULL,
    workspace       text NOT NULL,
    project         text,
    trigger         text,
    target_revision text,
    revision        text,
    principal       text,
    approved_by     text,
    approval_kind   text,
    variables       jsonb,
    spec_hash       text,
    started_at      timestamptz,
    finished_at     timestamptz,
    result          text,
    reason          text,
    message         text,
    minted_at       timestamptz NOT NULL,
    ordered_at      timestamptz NOT NULL GENERATED ALWAYS AS (COALESCE(started_at, minted_at)) STORED,
    PRIMARY KEY (ws_uid, run_id)
);
CREATE INDEX runs_newest_first ON runs (ws_uid, ordered_at DESC, run_id DESC);

CREATE TABLE run_phases (
    ws_uid             text COLLATE "C" NOT NULL,
    run_id             text COLLATE "C" NOT NULL,
    phase              text COLLATE "C" NOT NULL,
    job                text,
    pod                text,
    started_at         timestamptz,
    finished_at        timestamptz,
    result             text,
    exit_code          bigint,
    reason             text,
    plan_digest        text,
    terraform_version  text,
    log_key            text,
    log_bytes          bigint,
    log_error          text,
    changes            jsonb,
    violations         jsonb,
    policies_evaluated bigint,
    minted_at          timestamptz NOT NULL,
    PRIMARY KEY (ws_uid, run_id, phase)
);
