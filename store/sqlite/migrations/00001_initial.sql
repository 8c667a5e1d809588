-- Times are integer milliseconds since 1970, UTC. The n columns are for joins
-- and for the order of creation; the id columns are what the rest of the world sees.
--
-- A commit dirties as few pages as it can, since every dirty page is checked,
-- copied and written. So a thread's row is written once: how many runs it has,
-- where its journal ends and when it was used follows from runs and events.

-- +goose Up
CREATE TABLE threads (
    n       INTEGER PRIMARY KEY,
    tenant  TEXT    NOT NULL DEFAULT '',
    id      TEXT    NOT NULL UNIQUE,
    title   TEXT    NOT NULL,
    created INTEGER NOT NULL
) STRICT;

CREATE TABLE runs (
    n         INTEGER PRIMARY KEY,
    tenant    TEXT    NOT NULL DEFAULT '',
    id        TEXT    NOT NULL UNIQUE,
    thread    INTEGER NOT NULL REFERENCES threads (n),
    agent     TEXT    NOT NULL,
    title     TEXT    NOT NULL,
    status    TEXT    NOT NULL CHECK (status IN ('running', 'waiting', 'completed', 'failed', 'canceled')),
    revision  INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    owner     TEXT    NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq  INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    updated   INTEGER NOT NULL
) STRICT;

-- One open run per thread.
CREATE UNIQUE INDEX runs_open ON runs (thread) WHERE status IN ('running', 'waiting');
CREATE INDEX runs_thread ON runs (thread);
-- What is rare and looked for. Completed runs are neither.
CREATE INDEX runs_failed ON runs (status) WHERE status IN ('failed', 'canceled');

-- A rowid table with a unique index appends the events of all threads to one end
-- of one tree; with the key as the table, a commit of 32 runs writes 32 leaves.
CREATE TABLE events (
    n      INTEGER PRIMARY KEY,
    tenant TEXT    NOT NULL DEFAULT '',
    thread INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    run    INTEGER NOT NULL, -- of runs, in whose commit the event is written
    path   TEXT    NOT NULL,
    class  TEXT    NOT NULL,
    type   TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    sum    INTEGER NOT NULL, -- 64 bits, two's complement
    data   BLOB,
    UNIQUE (thread, seq)
) STRICT;

CREATE TABLE blobs (
    n       INTEGER PRIMARY KEY,
    tenant  TEXT    NOT NULL DEFAULT '',
    hash    BLOB    NOT NULL UNIQUE,
    data    BLOB    NOT NULL,
    created INTEGER NOT NULL
) STRICT;

-- The processes that have the store open. Whether one is alive is told by the
-- lock on its file in the directory nodes, never by this table.
CREATE TABLE nodes (
    id      TEXT    NOT NULL PRIMARY KEY,
    tenant  TEXT    NOT NULL DEFAULT '',
    host    TEXT    NOT NULL,
    pid     INTEGER NOT NULL,
    started INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
