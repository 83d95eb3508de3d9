package workitem

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Store keeps work items, their links and their history in SQLite. Its methods may be called concurrently, and
// several processes may share one file.
type Store struct {
	db *sql.DB
}

// Item is a work item. Fields holds the values by the fields' names; a field without a value is absent.
type Item struct {
	ID     int               `json:"id"`
	Type   string            `json:"type"`
	Fields map[string]string `json:"fields"`
}

// String returns the item's type and id, as in "Bug #4522".
func (i Item) String() string { return fmt.Sprintf("%s #%d", i.Type, i.ID) }

// Write says what a change is made for, by whom and when.
type Write struct {
	// Step identifies the change, and is never empty. The same change with the same Step again has no effect; a
	// different change with the same Step is an error.
	Step string
	By   string
	At   time.Time
}

// Entry is one line of a work item's history. Field is a field's name or a link's kind; From and To are the values,
// empty for none, or the ids of link targets.
type Entry struct {
	Field    string
	From, To string
	By       string
	At       time.Time
}

//go:embed items.json
var itemsJSON []byte

//go:embed schema.sql
var schema string

// File is the name of the file in which the example server keeps its items.
const File = "workitems.db"

// Open opens the store in the file at path and, if it is new, fills it with the bundled items. An empty path, or
// ":memory:", means a fresh store in memory that is gone after Close.
func Open(ctx context.Context, path string) (*Store, error) {
	// Transactions begin as writers: one that became a writer halfway would fail, not wait, if another got there first.
	const options = "_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_txlock=immediate"
	dsn := ":memory:?" + options
	if path != "" && path != ":memory:" {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("opening the work items: %w", err)
		}
		// A URI, so that any character may be in the path. C:/ is /C:/ in a URI.
		uri := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(absolute), "/"), RawQuery: options}
		dsn = uri.String()
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("opening the work items: %w", err)
	}
	db.SetMaxOpenConns(1) // every connection would open a memory of its own
	s := &Store{db: db}
	if err := s.prepare(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("opening the work items in %q: %w", path, err)
	}
	return s, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.db.Close() }

func (s *Store) prepare(ctx context.Context) error {
	if err := s.useWAL(ctx); err != nil {
		return err
	}
	// Looking and seeding are one transaction: of several processes that open a new file, one seeds.
	return s.transact(ctx, func(tx *sql.Tx) error {
		var tables int
		err := tx.QueryRowContext(ctx,
			`SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'work_items'`).Scan(&tables)
		if err != nil || tables > 0 {
			return err
		}
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		for _, insert := range seed {
			if _, err := tx.ExecContext(ctx, insert, itemsJSON); err != nil {
				return fmt.Errorf("items.json: %w", err)
			}
		}
		return nil
	})
}

// seed inserts the items of items.json.
var seed = []string{
	`INSERT INTO work_items (id, type) SELECT value ->> 'id', value ->> 'type' FROM json_each(?)`,
	`INSERT INTO work_item_fields (item, name, value) SELECT item.value ->> 'id', field.key, field.value
		FROM json_each(?) AS item, json_each(item.value, '$.fields') AS field`,
}

// useWAL lets readers and a writer of a file work at the same time. SQLite does not wait on its own for others that are
// switching the same file.
func (s *Store) useWAL(ctx context.Context) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := s.db.ExecContext(ctx, `PRAGMA journal_mode = WAL`)
		busy, ok := errors.AsType[*sqlite.Error](err)
		if !ok || busy.Code()&0xff != sqlite3.SQLITE_BUSY || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Item returns the work item with the given id. If it does not exist, the error names the nearest.
func (s *Store) Item(ctx context.Context, id int) (Item, error) {
	item := Item{ID: id}
	var fields []byte
	err := s.db.QueryRowContext(ctx, `SELECT type,
		(SELECT json_group_object(name, value) FROM work_item_fields WHERE item = id)
		FROM work_items WHERE id = ?`, id).Scan(&item.Type, &fields)
	if errors.Is(err, sql.ErrNoRows) {
		return Item{}, s.notFound(ctx, id)
	}
	if err == nil {
		err = json.Unmarshal(fields, &item.Fields)
	}
	if err != nil {
		return Item{}, fmt.Errorf("reading work item #%d: %w", id, err)
	}
	return item, nil
}

func (s *Store) notFound(ctx context.Context, id int) error {
	var near string
	err := s.db.QueryRowContext(ctx,
		`SELECT group_concat(name, ', ') FROM
		 (SELECT format('%s #%d', type, id) AS name FROM work_items ORDER BY abs(id - ?), id LIMIT 3)`, id).Scan(&near)
	if err != nil {
		return fmt.Errorf("looking for work items near #%d: %w", id, err)
	}
	return fmt.Errorf("work item #%d does not exist; the nearest are %s", id, near)
}

// original returns the work item that item duplicates, given the number that a form was answered with.
func (s *Store) original(ctx context.Context, item Item, number float64) (*Item, error) {
	// Forms know numbers, not integers.
	id := int(number)
	if number < 1 || number > 1<<53 || float64(id) != number {
		return nil, fmt.Errorf("%v is not the id of a work item: an id is a positive whole number", number)
	}
	if id == item.ID {
		return nil, fmt.Errorf("%s cannot be a duplicate of itself", item)
	}
	found, err := s.Item(ctx, id)
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// Update gives the fields of the work item their values; an empty value clears the field.
func (s *Store) Update(ctx context.Context, w Write, id int, fields map[string]string) error {
	err := s.once(ctx, w, []any{id, fields}, func(tx *sql.Tx) error {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			var old string
			err := tx.QueryRowContext(ctx, `SELECT value FROM work_item_fields WHERE item = ? AND name = ?`, id, name).Scan(&old)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			value := fields[name]
			switch value {
			case old:
				continue
			case "":
				_, err = tx.ExecContext(ctx, `DELETE FROM work_item_fields WHERE item = ? AND name = ?`, id, name)
			default:
				_, err = tx.ExecContext(ctx, `INSERT INTO work_item_fields (item, name, value) VALUES (?, ?, ?)
					ON CONFLICT DO UPDATE SET value = excluded.value`, id, name, value)
			}
			if err != nil {
				return err
			}
			if err := w.record(ctx, tx, id, name, old, value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("updating work item #%d: %w", id, err)
	}
	return nil
}

// CreateLink links the work item with id source to that with id target, unless there is such a link.
func (s *Store) CreateLink(ctx context.Context, w Write, source int, kind string, target int) error {
	err := s.once(ctx, w, []any{source, kind, target}, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `INSERT INTO work_item_links (source, kind, target) VALUES (?, ?, ?)
			ON CONFLICT DO NOTHING`, source, kind, target)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err != nil || n == 0 {
			return err
		}
		return w.record(ctx, tx, source, kind, "", fmt.Sprint(target))
	})
	if err != nil {
		return fmt.Errorf("linking work item #%d to #%d: %w", source, target, err)
	}
	return nil
}

// History returns what was changed in the work item with the given id, oldest first.
func (s *Store) History(ctx context.Context, id int) (entries []Entry, err error) {
	var all []byte
	err = s.db.QueryRowContext(ctx, `SELECT json_group_array(
			json_object('field', field, 'from', old_value, 'to', new_value, 'by', by, 'at', at) ORDER BY seq)
		FROM work_item_history WHERE item = ?`, id).Scan(&all)
	if err == nil {
		err = json.Unmarshal(all, &entries)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the history of work item #%d: %w", id, err)
	}
	return entries, nil
}

// once runs change in a transaction that also records w's step. It does nothing if the step was recorded before with
// the same description.
func (s *Store) once(ctx context.Context, w Write, description []any, change func(*sql.Tx) error) error {
	if w.Step == "" {
		return errors.New("a write needs a step")
	}
	described, err := json.Marshal(description)
	if err != nil {
		return err
	}
	return s.transact(ctx, func(tx *sql.Tx) error {
		var done string
		err := tx.QueryRowContext(ctx, `SELECT done FROM work_item_steps WHERE step = ?`, w.Step).Scan(&done)
		if err == nil && done != string(described) {
			return errors.New("this step was already done with other values; start a new call")
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO work_item_steps (step, done, at) VALUES (?, ?, ?)`, w.Step,
			string(described), w.at())
		if err != nil {
			return err
		}
		return change(tx)
	})
}

func (w Write) record(ctx context.Context, tx *sql.Tx, id int, field, from, to string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO work_item_history (item, field, old_value, new_value, by, `+
		`at) VALUES (?, ?, ?, ?, ?, ?)`,
		id, field, from, to, w.By, w.at())
	return err
}

func (w Write) at() string { return w.At.UTC().Format(time.RFC3339Nano) }

func (s *Store) transact(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // without effect after Commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
