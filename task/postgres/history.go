package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// historyTables adds what finds questions of any status: who has voted, when a question was changed, and lists of the
// questions of each principal and of each who has voted. The lists also tell whose questions they have. No release has
// had the table of lists that this one replaces.
const historyTables = `
	ALTER TABLE {schema}.question ADD COLUMN voters text[] NOT NULL DEFAULT '{}', ADD COLUMN changed timestamptz;

	CREATE INDEX question_changes ON {schema}.question (changed, name, key) WHERE ` + changedQuestion + `;

	CREATE FUNCTION {schema}.question_stamp() RETURNS trigger LANGUAGE plpgsql AS $askback$
	BEGIN
		NEW.changed := date_trunc('milliseconds', clock_timestamp());
		RETURN NEW;
	END $askback$;
	CREATE TRIGGER question_added_at BEFORE INSERT ON {schema}.question FOR EACH ROW
		EXECUTE FUNCTION {schema}.question_stamp();
	CREATE TRIGGER question_changed_at BEFORE UPDATE OF version ON {schema}.question FOR EACH ROW
		EXECUTE FUNCTION {schema}.question_stamp();

	CREATE TABLE {schema}.question_list (
		list      text COLLATE "C" NOT NULL,
		task      text COLLATE "C" NOT NULL,
		key       text COLLATE "C" NOT NULL,
		target    text COLLATE "C" NOT NULL,
		principal text COLLATE "C" NOT NULL,
		asked     timestamptz NOT NULL,
		deadline  timestamptz, -- of an open question
		PRIMARY KEY (task, key, list)
	);

	CREATE INDEX question_list_asked ON {schema}.question_list (list, asked, task, key) WHERE ` + listedAsked + `;
	CREATE INDEX question_list_deadline ON {schema}.question_list (list, deadline, task, key) WHERE ` + listedDeadline + `;
	` + addToLists + `{schema}.question AS new, ` + listsOfNew + `;

	CREATE OR REPLACE FUNCTION {schema}.question_lists() RETURNS trigger LANGUAGE plpgsql
		SET enable_seqscan = off SET enable_bitmapscan = off AS $askback$
	BEGIN
		IF TG_OP <> 'INSERT' THEN
			DELETE FROM {schema}.question_list WHERE task = OLD.task AND key = OLD.key;
		END IF;
		IF TG_OP <> 'DELETE' THEN
			` + addToLists + listsOfNew + `;
			` + leaveNoticeOfNew + `
		END IF;
		RETURN NULL;
	END $askback$;
	DROP TRIGGER question_changed ON {schema}.question;
	CREATE TRIGGER question_changed AFTER UPDATE OF status, who, deadline, voters ON {schema}.question FOR EACH ROW
		WHEN ((OLD.status, OLD.who, OLD.deadline, OLD.voters) IS DISTINCT FROM
				(NEW.status, NEW.who, NEW.deadline, NEW.voters) AND (OLD.who <> '{}' OR NEW.who <> '{}'))
		EXECUTE FUNCTION {schema}.question_lists();
	DROP TABLE {schema}.waiting;
	`

// The lists of a question, which is NEW. The principal, which may be long, is hashed: see ofPrincipal.
const (
	addToLists = `INSERT INTO {schema}.question_list (list, task, key, target, principal, asked, deadline)
			SELECT l.list, NEW.task, NEW.key, NEW.target, NEW.principal, NEW.asked, l.deadline FROM `
	listsOfNew = `LATERAL (
				SELECT list, NEW.deadline FROM (
					SELECT '' UNION SELECT 'for ' || who FROM unnest(NEW.who) AS who
					UNION SELECT 'equal ' || NEW.equal WHERE NEW.equal <> ''
				) AS o (list) WHERE NEW.status = 'open'
				UNION SELECT 'of ' || encode(sha256(convert_to(NEW.principal, 'UTF8')), 'hex'), NULL
				UNION SELECT 'by ' || voter, NULL FROM unnest(NEW.voters) AS voter
			) AS l (list, deadline) WHERE NEW.who <> '{}'`
)

// ofPrincipal is the name of the list of a principal's questions.
func ofPrincipal(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return "of " + hex.EncodeToString(sum[:])
}

// Conditions of indexes, as in sql.go.
const (
	changedQuestion = `changed > '-infinity' AND who <> '{}'`
	listedAsked     = `asked > '-infinity'`
	listedDeadline  = `deadline > '-infinity'`
)

// History implements [task.Asker].
func (s *Store) History(
	ctx context.Context, of task.QuestionHistory, after *task.Question, limit int,
) (all []*task.Question, err error) {
	defer s.wrap(ctx, "read a history", &err)
	list := ofPrincipal(of.Principal)
	if of.Voter != "" {
		list = "by " + of.Voter
	}
	if check("", list) != nil {
		return nil, nil
	}
	return s.readLists(ctx, lists{names: []string{list}}, task.QuestionFilter{Newest: true}, after, limit)
}

// Changes implements [task.Asker].
func (s *Store) Changes(
	ctx context.Context, after *task.Question, limit int,
) (all []*task.Question, now time.Time, err error) {
	defer s.wrap(ctx, "look for changes", &err)
	var from *time.Time
	var name, key string
	if after != nil {
		from, key = &after.Changed, fit(after.Key)
		if after.Task != "" {
			name = task.Name(after.Task)
		}
	}
	var batch pgx.Batch
	batch.Queue(s.sql.clock)
	batch.Queue(s.sql.changes, from, name, key, max(limit, 0))
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error {
		results := conn.SendBatch(ctx, &batch)
		defer results.Close()
		if err := results.QueryRow().Scan(&now); err != nil {
			return err
		}
		rows, _ := results.Query()
		all, err = pgx.CollectRows(rows, scanQuestionRow)
		return err
	})
	return all, now.UTC(), err
}
