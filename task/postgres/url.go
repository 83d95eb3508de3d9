package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// defaultSchema is where the tables are unless the URL's search_path names another.
const defaultSchema = "askback"

// parse reads the URL. Its errors show nothing of it: where a URL is broken, any part may be one of the password.
func parse(url string) (config *pgxpool.Config, schema string, err error) {
	if misplacedAt(url) {
		return nil, "", errors.New("task/postgres: the URL has an @ where none should be: write %40 for @, %2F for /, %3F " +
			"for ? and %3A for : in the user, the password and the name of the database")
	}
	config, err = pgxpool.ParseConfig(url)
	if err != nil {
		return nil, "",
			fmt.Errorf("task/postgres: the URL is wrong: %s: it should be like "+
				"postgres://user:password@host:5432/database?sslmode=verify-full, with %%40 for @, %%2F for /, %%3F for ? and "+
				"%%3A for : in the password", reason(err))
	}
	params := config.ConnConfig.RuntimeParams
	schema, err = schemaOf(params["search_path"])
	if err != nil {
		return nil, "", fmt.Errorf("task/postgres: the URL is wrong: %w", err)
	}
	// Statements name the schema: a pooler that lends out sessions may not set it for each.
	delete(params, "search_path")

	if config.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		// A plan made while the tables are small is kept with its statement, even when they have grown a thousandfold.
		// Every query has an index for all parameters, and to plan Claim anew takes longer than to run it. Generic
		// plans look dear enough to be compiled: see statements.uncompiled.
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.PgConn().Exec(ctx, "SET enable_seqscan = off; SET enable_bitmapscan = off; "+
				"SET plan_cache_mode = force_generic_plan; SET jit = off").ReadAll()
			return err
		}
	}
	return config, schema, nil
}

// misplacedAt reports whether an @ of a password may have become part of a host or a
// database, whose names errors show.
func misplacedAt(url string) bool {
	rest, ok := strings.CutPrefix(url, "postgres://")
	if !ok {
		rest, ok = strings.CutPrefix(url, "postgresql://")
	}
	before, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(before, "/")
	return ok && (strings.Contains(path, "@") || strings.Count(authority, "@") > 1 ||
		strings.Contains(query, "@") && !strings.Contains(authority, "@"))
}

// reason returns what is wrong with a URL, without any value.
func reason(err error) string {
	wrong, ok := errors.AsType[*pgconn.ParseConfigError](err)
	if !ok {
		return "it cannot be parsed"
	}
	// The text is: cannot parse `URL`: reason: value (cause)
	text := wrong.Error()
	if cause := wrong.Unwrap(); cause != nil {
		text = strings.TrimSuffix(text, " ("+cause.Error()+")")
	}
	text = text[strings.LastIndex(text, "`: ")+len("`: "):]
	text, _, _ = strings.Cut(text, ":")
	return text
}

// schemaOf returns the first schema of a search_path.
func schemaOf(path string) (string, error) {
	name, _, _ := strings.Cut(path, ",")
	name = strings.TrimSpace(name)
	if quoted, ok := strings.CutPrefix(name, `"`); ok {
		name = strings.TrimSuffix(quoted, `"`)
	} else {
		name = strings.ToLower(name)
	}
	switch {
	case path == "":
		return defaultSchema, nil
	case name == "", strings.ContainsAny(name, "\"$\x00"), strings.HasPrefix(name, "pg_"), len(name) > 63:
		return "", fmt.Errorf("the search_path %.100q does not begin with the name of a schema: leave it out for %s", path,
			defaultSchema)
	}
	return name, nil
}
