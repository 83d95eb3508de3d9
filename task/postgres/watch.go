package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/askback-mcp/askback/task"
)

// Times of a watch.
var (
	// answer is how long the server may take to answer.
	answer = 15 * time.Second
	// silence is how long nothing is heard before the connection is tried.
	silence = time.Minute
)

// Watch implements [task.Watcher], on a connection of its own. It returns an error if
// notifications do not arrive; it is an errors.ErrUnsupported with a pooler in transaction mode.
func (s *Store) Watch(ctx context.Context, ready func(), changed func(name string, due bool)) error {
	s.running.Add(1)
	defer s.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()

	err := s.watch(ctx, ready, changed)
	if s.closing.Err() != nil {
		return errors.New("task/postgres: watch tasks: the store is closed")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("task/postgres: watch tasks: %w", err)
}

func (s *Store) watch(ctx context.Context, ready func(), changed func(name string, due bool)) error {
	if s.pooled {
		return fmt.Errorf("%w: a pooler in transaction mode passes on no notifications: "+
			"connect to PostgreSQL directly, or through a pooler in session mode", errors.ErrUnsupported)
	}
	beginning, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	conn, err := pgx.ConnectConfig(beginning, s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answer)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.Exec(beginning, inSchema("LISTEN {schema}", s.schema)); err != nil {
		return err
	}

	// An empty name, sent by another connection, shows that it hears.
	if _, err := s.exec(beginning, workers, inSchema("SELECT pg_notify({name}, '')", s.schema)); err != nil {
		return err
	}
	for heard := false; ; {
		wait := silence
		if !heard {
			wait = answer
		}
		waiting, cancel := context.WithTimeout(ctx, wait)
		notification, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil && notification.Payload != "":
			if name, due, others := s.readNews(notification.Payload); others {
				changed(name, due)
			}
		case err == nil:
			if !heard && ready != nil {
				ready()
			}
			heard = true
		case !pgconn.Timeout(err) || ctx.Err() != nil:
			return err
		case !heard:
			return errors.New("notifications do not arrive: connect to PostgreSQL directly, or through a pooler in session mode")
		default:
			if err := ping(ctx, conn); err != nil {
				return err
			}
		}
	}
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	return conn.Ping(ctx)
}

// payload is the text of the notification. It names this Store, whose engine has no need of it.
func (s *Store) payload(n news) string {
	if n.due {
		return n.name + " " + s.name + " due"
	}
	return n.name + " " + s.name
}

// readNews reads a payload, and whether another Store has sent it.
func (s *Store) readNews(payload string) (name string, due, others bool) {
	name, sender, _ := strings.Cut(payload, " ")
	sender, due = strings.CutSuffix(sender, " due")
	return name, due, sender != s.name
}

// tell notifies the other instances of a write that was made. The notification does not belong to the write's
// transaction: PostgreSQL commits transactions that notify one after the other, and all instances together could
// write only a fraction of what they do. If this process dies in between, the others find the change when they look.
func (s *Store) tell(id string, due bool) {
	select {
	case s.news <- news{task.Name(id), due}:
	default: // It counts as lost.
	}
}

// notify sends the notifications until the store is closed, several at once where several are waiting.
func (s *Store) notify() {
	for {
		var payloads []string
		select {
		case n := <-s.news:
			payloads = append(payloads, s.payload(n))
		case <-s.closing.Done():
		}
		for range len(s.news) { // nobody else receives from it
			payloads = append(payloads, s.payload(<-s.news))
		}
		if len(payloads) > 0 {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_, _ = s.exec(ctx, clients, s.sql.notify, payloads) // They count as lost.
			cancel()
		}
		if s.closing.Err() != nil {
			return
		}
	}
}
