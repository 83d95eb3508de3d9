// Package postgres keeps tasks in PostgreSQL, for any number of instances that share them. The example of [Open] is an
// instance.
//
// # The database
//
// PostgreSQL 13 or newer, in the isolation level read committed, which is the default. [Open] makes the tables in a
// schema of their own, named askback, if it has no tables; several instances may do so at once. It refuses tables of
// another version, and leaves them as they are. The search_path of the URL names another schema, so that services, or
// tests, can share a database without seeing each other's tasks. A role that may not create a schema needs one that it
// may create tables in.
//
// Tasks change often, so PostgreSQL must be able to clear old rows away: leave autovacuum on, and keep transactions
// in the same database short. While one stays open, each Claim is slower than the one before.
//
// # The URL
//
// It has either form that PostgreSQL knows, postgres://… or "key=value key=value", and takes
// the parameters of pgxpool.
//
// A Store opens at most pool_max_conns connections (by default the number of CPUs, at least 4; one will do), and
// [Store.Watch] one more. Half of the connections, at least one, also serve reads and everything that can be late. The
// others serve only workers, whose writes always come first: renewals of leases, then claims, records and other writes.
// A call that waits for a connection for half of the time that its context has left gets an error.
//
// Through PgBouncer in transaction mode, set default_query_exec_mode=exec, because prepared statements and session
// settings need a session of their own: without it Open returns an error. Watch needs such a session as well, and
// always returns an error behind such a pooler.
//
// # States
//
// The Store also keeps states, as a state.Store, in a table of their own: see
// [Store.PutState]. Writes delete those that have expired. [Store.Guard] makes states single use.
//
// # Text
//
// PostgreSQL stores only valid UTF-8 without zero bytes. Create and Update refuse any other ID,
// Principal, Method, Target, Dialect or Status; in a Message each invalid part becomes U+FFFD.
// An ID may have up to 2 KB, and so may Principal and Dialect together. Of a task that asks, an ID may have up to 1 KB,
// and so may the Equal of a question, each of those that it is for, and each of its Voters.
package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// Store is a [task.Store] and a [task.Watcher]. It is safe for concurrent use.
//
// When the connection or the server is lost, methods return an error until the server is back. The error is a
// *pgconn.ConnectError if no connection could be made, and a *pgconn.PgError if the server sent it, with the code
// 57P01 if it shut down. A write whose connection broke may or may not have been made.
//
// The server's synchronous_commit decides when a write is durable; by default it survives a crash of the server.
type Store struct {
	pool        *pgxpool.Pool
	connections *connections
	group       group
	schema      string
	sql         statements

	name   string    // The name of this Store among those that are open.
	news   chan news // changed tasks, for the other instances
	pooled bool      // a pooler lends sessions for a transaction, so that there are no notifications

	puts, uses atomic.Int64 // how many states were put and used

	closing context.Context
	stop    context.CancelFunc
	running sync.WaitGroup // goroutines and calls of Watch
}

var _ interface {
	task.Store
	task.Watcher
} = (*Store)(nil)

// Open connects to the database with this URL, and creates its tables if they do not exist; see the package comment.
// Errors never show the URL, which may hold a password.
func Open(ctx context.Context, url string) (*Store, error) {
	config, schema, err := parse(url)
	if err != nil {
		return nil, err
	}
	pooled, err := behindPooler(ctx, config.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("task/postgres: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("task/postgres: %w", err)
	}
	if err := prepare(ctx, pool, schema); err != nil {
		pool.Close()
		return nil, fmt.Errorf("task/postgres: prepare the schema %q: %w", schema, err)
	}
	s := &Store{
		pool: pool, connections: newConnections(int(config.MaxConns)), schema: schema, sql: newStatements(schema),
		name: rand.Text(), news: make(chan news, 1024), pooled: pooled,
	}
	s.closing, s.stop = context.WithCancel(context.Background())
	s.running.Go(s.notify)
	return s, nil
}

// Close ends each Watch, waits for the calls that are under way, and closes the connections. The error is nil.
func (s *Store) Close() error {
	s.stop()
	s.running.Wait()
	s.pool.Close()
	return nil
}

// Create implements [task.Store].
func (s *Store) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) (err error) {
	defer s.wrap(ctx, "create a task", &err)
	if err := errors.Join(check("ID", t.ID), check("Principal", t.Principal), check("Method", t.Method),
		check("Target", t.Target), check("Dialect", t.Dialect), check("Status", string(t.Status))); err != nil {
		return err
	}
	var claim task.Claim
	claims := 0
	if lease > 0 {
		claims, claim = 1, task.Claim{Fence: 1, Nonce: rand.Text()}
	}
	args := []any{
		t.ID, t.Principal, t.Method, t.Target, t.Dialect,
		string(t.Status), fit(t.Message), optional(t.Pending), optional(t.Outcome), t.Round,
		int64(t.PollInterval), t.Stopped, t.Attempts + claims, ttl.Truncate(time.Millisecond),
		call, list(entries), quota.Kept, quota.Unfinished, quota.Bytes, size(entries) + int64(len(call)),
		max(lease, 0), claims, claim.Nonce,
	}
	var created, expires *time.Time
	var used task.Quota
	scan := func(row pgx.Row) error {
		return row.Scan(&created, &expires, &used.Unfinished, &used.Kept, &used.Bytes)
	}
	w := &write{id: t.ID, sql: s.sql.create, args: args, result: scan}
	if quota != (task.Quota{}) {
		w.lock.principal = &t.Principal
	}
	if err := s.write(ctx, w); err != nil {
		return err
	}
	if created == nil {
		add := task.Quota{Unfinished: 1, Kept: 1, Bytes: size(entries) + int64(len(call)+len(t.Pending)+len(t.Outcome))}
		return cmp.Or(quota.Check(used, add), task.ErrExists)
	}
	t.Created, t.Updated, t.Expires = created.UTC(), created.UTC(), expires.UTC()
	t.Version, t.Claim = 0, claim
	if t.Attempts += claims; claims == 0 {
		s.tell(t.ID, true)
	}
	return nil
}

// Get implements [task.Store].
func (s *Store) Get(ctx context.Context, id string) (t *task.Task, err error) {
	defer s.wrap(ctx, "get a task", &err)
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) (err error) {
		t, err = scan(conn.QueryRow(ctx, s.sql.get, lookup(id)))
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, task.ErrNotFound
	}
	return t, err
}

// Versions implements [task.Store].
func (s *Store) Versions(ctx context.Context, ids []string) (versions map[string]int64, err error) {
	defer s.wrap(ctx, "look for changed tasks", &err)
	storable := make([]string, len(ids))
	for i, id := range ids {
		storable[i] = fit(id)
	}
	versions = make(map[string]int64, len(ids))
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, s.sql.versions, storable)
		var id string
		var version int64
		_, err := pgx.ForEachRow(rows, []any{&id, &version}, func() error {
			versions[id] = version
			return nil
		})
		return err
	})
	return versions, err
}

// List implements [task.Store]. It leaves out Outcome, and all but the first byte of Pending.
func (s *Store) List(
	ctx context.Context, principal, dialect string, created time.Time, id string, limit int,
) (tasks []*task.Task, err error) {
	defer s.wrap(ctx, "list tasks", &err)
	var from *time.Time
	if !created.IsZero() || id != "" {
		from = &created
	}
	return collect(ctx, s, clients, scanRow, s.sql.list, lookup(principal), lookup(dialect), from, fit(id), max(limit, 0))
}

// Select implements [task.Store]. It leaves out Outcome.
func (s *Store) Select(ctx context.Context, f task.Filter, after string, limit int) (tasks []*task.Task, err error) {
	defer s.wrap(ctx, "select tasks", &err)
	return collect(ctx, s, clients, scanRow, s.sql.selectTasks,
		fit(after), storable(f.Statuses), storable(f.Principals), storable(f.Targets), max(limit, 0))
}

func scanRow(row pgx.CollectableRow) (*task.Task, error) { return scan(row) }

// collect returns the result of scan for each row of a query.
func collect[T any](
	ctx context.Context, s *Store, l lane, scan pgx.RowToFunc[T], sql string, args ...any,
) (all []T, err error) {
	err = s.on(ctx, l, func(conn *pgxpool.Conn) (err error) {
		rows, _ := conn.Query(ctx, sql, args...)
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}

// exec runs a statement, and returns how many rows it wrote.
func (s *Store) exec(ctx context.Context, l lane, sql string, args ...any) (rows int64, err error) {
	err = s.on(ctx, l, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, sql, args...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, err
}

// queryRow scans the one row of a query.
func (s *Store) queryRow(ctx context.Context, l lane, to []any, sql string, args ...any) error {
	return s.on(ctx, l, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, sql, args...).Scan(to...) })
}

// Count implements [task.Store].
func (s *Store) Count(ctx context.Context) (counts map[task.Status]int, err error) {
	defer s.wrap(ctx, "count tasks", &err)
	var working, asking int
	err = s.queryRow(ctx, clients, []any{&working, &asking}, s.sql.count)
	return map[task.Status]int{task.Working: working, task.InputRequired: asking}, err
}

// storable returns the texts that can be stored: nothing equals any other. Nil stays nil.
func storable[T ~string](texts []T) (all []string) {
	if texts != nil {
		all = []string{}
	}
	for _, text := range texts {
		if check("", string(text)) == nil {
			all = append(all, string(text))
		}
	}
	return all
}

// Claim implements [task.Store]. Principals are in the order of their bytes. A task that is being written to at this
// moment is not claimed.
func (s *Store) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) (claimed []*task.Claimed, err error) {
	defer s.wrap(ctx, "claim tasks", &err)
	type turn struct {
		n, entries int // entries says how many there are
		*task.Claimed
	}
	principals, targets, counts := []string{}, []string{}, []int{}
	for _, l := range load {
		if check("", l.Principal) == nil { // otherwise nobody has it
			principals, targets, counts = append(principals, l.Principal), append(targets, fit(l.Target)),
				append(counts, l.Tasks)
		}
	}
	read := func(row pgx.CollectableRow) (t turn, err error) {
		t.Claimed = new(task.Claimed)
		t.Task, err = scan(row, &t.n, &t.entries, &t.Entries)
		return t, err
	}
	turns, err := collect(ctx, s, workers, read, s.sql.claim,
		fit(after), principals, targets, counts, lease, max(limit, 0), rand.Text())
	if err != nil {
		return nil, err
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.n, b.n) })
	for _, t := range turns {
		// Entries that came in between are read by the engine, if there are any.
		if len(t.Entries) == 1+t.entries {
			t.Call, t.Entries = t.Entries[0], t.Entries[1:]
		} else {
			t.Entries = nil
		}
		claimed = append(claimed, t.Claimed)
	}
	return claimed, nil
}

// Journal implements [task.Store].
func (s *Store) Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error) {
	defer s.wrap(ctx, "read a journal", &err)
	if most < 0 {
		most = math.MaxInt
	}
	bodies, err := collect(ctx, s, workers, pgx.RowTo[[]byte], s.sql.journal, lookup(id), most)
	switch {
	case err != nil:
		return nil, nil, err
	case len(bodies) == 0:
		return nil, nil, task.ErrNotFound
	}
	return bodies[0], bodies[1:], nil
}

// Append implements [task.Store].
func (s *Store) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) (err error) {
	defer s.wrap(ctx, "append to a journal", &err)
	var seq int64
	err = s.write(ctx, &write{
		id: id, sql: s.sql.append, args: []any{lookup(id), claim.Fence, entry, there, claim.Nonce},
		result: func(row pgx.Row) error { return row.Scan(&seq) },
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return s.refused(ctx, &task.Task{ID: id, Claim: claim}, true, nil, "")
	}
	return err
}

// Renew implements [task.Store]. A row that somebody else has locked at this moment is skipped, with an error for its
// lease.
func (s *Store) Renew(
	ctx context.Context, leases []task.Leased, lease time.Duration,
) (renewed []task.Renewed, err error) {
	defer s.wrap(ctx, "renew leases", &err)
	ids, fences, nonces := make([]*string, len(leases)), make([]int64, len(leases)), make([]string, len(leases))
	for i, l := range leases {
		ids[i], fences[i], nonces[i] = lookup(l.ID), l.Fence, fit(l.Nonce)
	}
	read := func(row pgx.CollectableRow) (r task.Renewed, err error) {
		var version *int64
		var exists, held bool
		err = row.Scan(&version, &exists, &held)
		switch {
		case version != nil:
			r.Version = *version
		case !exists:
			r.Err = task.ErrNotFound
		case !held:
			r.Err = task.ErrLeaseLost
		default:
			r.Err = errors.New("task/postgres: renew a lease: somebody else is writing to the task")
		}
		return r, err
	}
	return collect(ctx, s, renewals, read, s.sql.renew, ids, fences, nonces, lease)
}

// Update implements [task.Store]. A worker that has lost its lease gets [task.ErrLeaseLost]
// rather than [task.ErrConflict].
func (s *Store) Update(ctx context.Context, t *task.Task, u task.Update) (err error) {
	defer s.wrap(ctx, "update a task", &err)
	if err := check("Status", string(t.Status)); err != nil {
		return err
	}
	var leased *int64
	if u.Leased {
		leased = &t.Fence
	}
	var due *time.Duration
	if u.Due >= 0 {
		due = &u.Due
	}
	var ttl *time.Duration
	if u.TTL > 0 {
		ms := u.TTL.Truncate(time.Millisecond)
		ttl = &ms
	}
	args := []any{
		lookup(t.ID), t.Version, leased,
		string(t.Status), fit(t.Message), optional(t.Pending), optional(t.Outcome), t.Round,
		ttl, t.Stopped, t.Attempts,
		u.Keep, due, list(u.Entries), size(u.Entries), nil, 0, "", t.Nonce, u.Expired,
	}
	var nonce string
	if u.Lease > 0 {
		nonce = rand.Text()
		args[15], args[16], args[17] = u.Lease, 1, nonce
	}
	var why string
	var updated, expires *time.Time
	var version, fence *int64
	w := &write{id: t.ID, result: func(row pgx.Row) error { return row.Scan(&updated, &version, &fence, &expires) }}
	kind := updateKind{stopAsking: u.Leased && t.Status == task.InputRequired}
	if asks := kind.stopAsking && len(u.Ask) > 0; asks || len(u.Answered) > 0 {
		var ask []*task.Question
		if asks {
			ask, kind.stopAsking = u.Ask, false
		}
		asked, err := askingArguments(t, ask, u.Answered)
		if err != nil {
			return err
		}
		kind.asking, w.first, args = true, true, append(args, asked...)
		w.result = func(row pgx.Row) error { return row.Scan(&why, &updated, &version, &fence, &expires) }
	}
	if u.Quota.Bytes > 0 && size(u.Entries) > 0 {
		// The principal is the stored one: the given task's may be any.
		kind.within, w.lock.owner, args = true, lookup(t.ID), append(args, u.Quota.Bytes)
	}
	w.sql, w.args = s.sql.update[kind], args
	err = s.write(ctx, w)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && version == nil {
		err = s.refused(ctx, t, u.Leased, &u, why)
	}
	if err != nil {
		return err
	}
	t.Updated, t.Version, t.Expires = updated.UTC(), *version, expires.UTC()
	if u.Lease > 0 {
		t.Claim = task.Claim{Fence: *fence, Nonce: nonce}
		t.Attempts++
	}
	s.tell(t.ID, u.Lease <= 0 && !u.Keep && u.Due == 0)
	return nil
}

// Expired implements [task.Store]. The tasks that expired first come first.
func (s *Store) Expired(ctx context.Context, limit int) (ids []string, err error) {
	defer s.wrap(ctx, "look for expired tasks", &err)
	return collect(ctx, s, clients, pgx.RowTo[string], s.sql.expired, max(limit, 0))
}

// Purge implements [task.Store]. It leaves tasks that will be due later, such as those under a lease.
func (s *Store) Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error) {
	defer s.wrap(ctx, "purge tasks", &err)
	return s.delete(ctx, limit, s.sql.purgeable, grace)
}

// Evict implements [task.Store].
func (s *Store) Evict(ctx context.Context, principal string, age time.Duration, limit int) (n int, err error) {
	defer s.wrap(ctx, "delete ended tasks", &err)
	return s.delete(ctx, limit, s.sql.evictable, lookup(principal), age)
}

// mostFailed bounds the tasks that one call tries to delete in vain.
const mostFailed = 100

// delete deletes up to limit tasks that a query finds and locks. It goes on past those that cannot be deleted, which
// the query skips then, and its error says why not.
func (s *Store) delete(ctx context.Context, limit int, query string, args ...any) (n int, err error) {
	var failed []error
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			n, failed = 0, nil
			for more := true; more && n < limit && len(failed) < mostFailed; {
				rows, _ := tx.Query(ctx, query, append(args, limit-n, len(failed))...)
				ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil || len(ids) == 0 {
					return err
				}
				deleted, errs := s.deleteLocked(ctx, tx, ids)
				n, failed, more = n+deleted, append(failed, errs...), len(errs) > 0
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	return n, errors.Join(failed...)
}

// deleteLocked deletes tasks that are locked: together or, if that fails, one by one. A statement does not see what
// came after it began; so it is another one than the one that locked the tasks, and deletes all that was added to their
// journals until then.
func (s *Store) deleteLocked(ctx context.Context, tx pgx.Tx, ids []string) (n int, failed []error) {
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.sql.purge, ids)
		return err
	})
	switch {
	case err == nil:
		return len(ids), nil
	case len(ids) == 1 || ctx.Err() != nil:
		return 0, []error{fmt.Errorf("task %s: %w", task.Name(ids[0]), err)}
	}
	for i := range ids {
		one, errs := s.deleteLocked(ctx, tx, ids[i:i+1])
		n, failed = n+one, append(failed, errs...)
	}
	return n, failed
}

// refused returns the reason why a write under conditions found no task. The claim matters if the write is leased, and
// the version and the status only for an update. Past claims and versions never come back, so the reason still holds
// although it is read after the write. Why is what the write has said of questions.
func (s *Store) refused(ctx context.Context, t *task.Task, leased bool, u *task.Update, why string) error {
	var stored task.Claim
	var version int64
	var status task.Status
	to := []any{&stored.Fence, &stored.Nonce, &version, (*string)(&status)}
	err := s.queryRow(ctx, workers, to, s.sql.state, lookup(t.ID))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return task.ErrNotFound
	case err != nil:
		return err
	case leased && t.Claim != stored:
		return task.ErrLeaseLost
	case u == nil || version != t.Version:
		return task.ErrConflict
	case status.Terminal() && status != t.Status:
		return task.ErrEnded
	case u.Expired:
		return task.ErrEarly
	case why != "":
		return questionErrors[why]
	}
	return &task.QuotaError{Max: task.Quota{Bytes: u.Quota.Bytes}} // nothing else forbids the write
}

// wrap adds to an error what was being done. If the server is gone, so are the other
// connections, which would each fail one more call.
func (s *Store) wrap(ctx context.Context, doing string, err *error) {
	if *err == nil {
		return
	}
	if ctx.Err() == nil && lost(*err) {
		s.pool.Reset()
	}
	*err = fmt.Errorf("task/postgres: %s: %w", doing, *err)
}

// lost reports whether an error says that the connection broke off.
func lost(err error) bool {
	switch code(err) {
	case "57P01", "57P02", "57P03": // admin_shutdown, crash_shutdown, cannot_connect_now
		return true
	}
	var broken *net.OpError
	return errors.As(err, &broken) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// code returns the code of an error of the server, or "".
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// check returns an error for text that PostgreSQL does not store.
func check(name, text string) error {
	var flaw string
	switch {
	case !utf8.ValidString(text):
		flaw = "is not valid UTF-8"
	case strings.Contains(text, "\x00"):
		flaw = "has a zero byte"
	default:
		return nil
	}
	return fmt.Errorf("the %s %.100q %s, which PostgreSQL does not store: choose another", name, text, flaw)
}

// lookup returns text to compare with what is stored. Text that cannot be stored is NULL, which equals nothing.
func lookup(text string) *string {
	if check("", text) != nil {
		return nil
	}
	return &text
}

// fit replaces the parts of text that PostgreSQL does not store.
func fit(text string) string {
	if check("", text) == nil {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}

// optional returns nil for empty bytes, so that they are stored as NULL.
func optional(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func size(entries [][]byte) (n int64) {
	for _, entry := range entries {
		n += int64(len(entry))
	}
	return n
}

// list returns an empty list for nil, because nil would be NULL.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}
