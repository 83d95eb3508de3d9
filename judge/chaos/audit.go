package main

// auditPostgres notes every change in a schema of its own, with its time in microseconds.
const auditPostgres = `
CREATE SCHEMA chaos;
CREATE TABLE chaos.change (
	n bigserial PRIMARY KEY, at bigint, who text, task text, fence bigint, old_fence bigint,
	version bigint, old_version bigint, status text, old_status text, stopped boolean, old_stopped boolean,
	outcome boolean, until bigint);
CREATE TABLE chaos.entry (n bigserial PRIMARY KEY, at bigint, who text, task text, seq bigint);
CREATE FUNCTION chaos.change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO chaos.change (at, who, task, fence, old_fence, version, old_version, status, old_status,
		stopped, old_stopped, outcome, until)
	VALUES (extract(epoch FROM statement_timestamp()) * 1000000, current_setting('application_name'),
		NEW.id, NEW.fence, OLD.fence, NEW.version, OLD.version, NEW.status, OLD.status, NEW.stopped, OLD.stopped,
		OLD.outcome IS DISTINCT FROM NEW.outcome, extract(epoch FROM NEW.due) * 1000000);
	RETURN NULL;
END $$;
CREATE FUNCTION chaos.created() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO chaos.change (at, who, task, fence, old_fence, version, old_version, status, old_status,
		stopped, old_stopped, outcome, until)
	VALUES (extract(epoch FROM statement_timestamp()) * 1000000, current_setting('application_name'),
		NEW.id, NEW.fence, 0, 0, 0, NEW.status, NEW.status, false, false, false, extract(epoch FROM NEW.due) * 1000000);
	RETURN NULL;
END $$;
CREATE FUNCTION chaos.entry() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO chaos.entry (at, who, task, seq)
	VALUES (extract(epoch FROM clock_timestamp()) * 1000000, current_setting('application_name'), NEW.id, NEW.seq);
	RETURN NULL;
END $$;
CREATE TRIGGER chaos_change AFTER UPDATE ON askback.task FOR EACH ROW
	WHEN ((OLD.fence, OLD.version, OLD.due) IS DISTINCT FROM (NEW.fence, NEW.version, NEW.due))
	EXECUTE FUNCTION chaos.change();
CREATE TRIGGER chaos_created AFTER INSERT ON askback.task FOR EACH ROW WHEN (NEW.fence > 0)
	EXECUTE FUNCTION chaos.created();
CREATE TRIGGER chaos_entry AFTER INSERT ON askback.journal FOR EACH ROW EXECUTE FUNCTION chaos.entry();
`

// auditSQLite does the same in the store's file, which does not know one process from another. Its clock counts
// milliseconds: an entry is noted at the end of its own.
const auditSQLite = `
CREATE TABLE chaos_change (
	n INTEGER PRIMARY KEY, at INTEGER, who TEXT, task TEXT, fence INTEGER, old_fence INTEGER,
	version INTEGER, old_version INTEGER, status TEXT, old_status TEXT, stopped INTEGER, old_stopped INTEGER,
	outcome INTEGER, until INTEGER);
CREATE TABLE chaos_entry (n INTEGER PRIMARY KEY, at INTEGER, who TEXT, task INTEGER, seq INTEGER);
CREATE TRIGGER chaos_change AFTER UPDATE ON task
	WHEN OLD.fence <> NEW.fence OR OLD.version <> NEW.version
		OR coalesce(OLD.due, OLD.wake) IS NOT coalesce(NEW.due, NEW.wake)
BEGIN
	INSERT INTO chaos_change (at, who, task, fence, old_fence, version, old_version, status, old_status,
		stopped, old_stopped, outcome, until)
	VALUES (CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, '', NEW.id, NEW.fence, OLD.fence,
		NEW.version, OLD.version, NEW.status, OLD.status, NEW.stopped, OLD.stopped,
		OLD.outcome IS NOT NEW.outcome, coalesce(NEW.due, NEW.wake) * 1000);
END;
CREATE TRIGGER chaos_created AFTER INSERT ON task WHEN NEW.fence > 0 BEGIN
	INSERT INTO chaos_change (at, who, task, fence, old_fence, version, old_version, status, old_status,
		stopped, old_stopped, outcome, until)
	VALUES (CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, '', NEW.id, NEW.fence, 0, 0, 0, NEW.status,
		NEW.status, 0, 0, 0, coalesce(NEW.due, NEW.wake) * 1000);
END;
CREATE TRIGGER chaos_entry AFTER INSERT ON journal BEGIN
	INSERT INTO chaos_entry (at, who, task, seq)
	VALUES (CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + 999, '', NEW.task, NEW.n);
END;
`
