-- The names are prefixed so that the file may be another store's as well.
CREATE TABLE work_items (
	id   INTEGER PRIMARY KEY,
	type TEXT NOT NULL
) STRICT;
CREATE TABLE work_item_fields (
	item  INTEGER NOT NULL REFERENCES work_items (id),
	name  TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (item, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE work_item_links (
	source INTEGER NOT NULL REFERENCES work_items (id),
	kind   TEXT NOT NULL,
	target INTEGER NOT NULL REFERENCES work_items (id),
	PRIMARY KEY (source, kind, target),
	CHECK (source <> target)
) STRICT, WITHOUT ROWID;
CREATE TABLE work_item_history (
	seq       INTEGER PRIMARY KEY,
	item      INTEGER NOT NULL REFERENCES work_items (id),
	field     TEXT NOT NULL,
	old_value TEXT NOT NULL,
	new_value TEXT NOT NULL,
	by        TEXT NOT NULL,
	at        TEXT NOT NULL
) STRICT;
CREATE INDEX work_item_history_by_item ON work_item_history (item, seq);
CREATE TABLE work_item_steps (
	step TEXT PRIMARY KEY,
	done TEXT NOT NULL,
	at   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
