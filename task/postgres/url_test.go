package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestSchemaOfTheURL(t *testing.T) {
	for _, c := range []struct{ query, want string }{
		{"", "askback"},
		{"?search_path=tasks", "tasks"},
		{"?search_path=Tasks,public", "tasks"},
		{"?search_path=%22My%20Tasks%22", "My Tasks"},
		{"?search_path=it's", "it's"},
		{"?search_path=,public", ""},
		{"?search_path=%22$user%22,public", ""},
		{"?search_path=pg_temp", ""},
		{"?search_path=" + strings.Repeat("x", 64), ""},
		{"?search_path=a%22b", ""},
	} {
		config, schema, err := parse("postgres://h/db" + c.query)
		if schema != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: the schema is %q (%v), want %q", c.query, schema, err, c.want)
		}
		if err == nil && config.ConnConfig.RuntimeParams["search_path"] != "" {
			t.Errorf("%s: the sessions are given a search_path", c.query)
		}
	}
}

func TestAWrongURLSaysWhatIsWrong(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://h/db?pool_max_conns=many":      "pool_max_conns",
		"postgres://h/db?pool_max_conns=0":         "pool_max_conns too small",
		"postgres://h/db?connect_timeout=soon":     "invalid connect_timeout",
		"postgres://h/db?sslmode=maybe":            "failed to configure TLS",
		"postgres://h/db?target_session_attrs=odd": "target_session_attrs",
		"postgres://h:port/db":                     "invalid port",
		"postgres://u:p%zz@h/db":                   "failed to parse as URL",
		"mysql":                                    "failed to parse as keyword/value",
		"postgres://u:p/w@h/db":                    "has an @ where none should be",
	} {
		_, err := Open(t.Context(), url)
		expect.Fails(t, url+": the error", err, want)
	}
}

// Of a password that was not escaped any part may end up in any place of the URL.
func TestErrorsDoNotShowThePassword(t *testing.T) {
	t.Parallel()
	const head, tail = "hush", "secret"
	var urls []string
	for c := range 128 {
		password := head + string(rune(c)) + tail
		numeric := "123" + string(rune(c)) + tail
		for _, p := range []string{password, numeric, "%" + password, password + "%", password + "@x" + tail} {
			urls = append(urls,
				"postgres://user:"+p+"@127.0.0.1:1/db?connect_timeout=1&sslmode=disable",
				"postgres://user:"+p+"@127.0.0.1:1/db?pool_max_conns=x",
				"postgresql://127.0.0.1:1/db?sslmode=disable&user=u&password="+p,
				"host=127.0.0.1 port=1 sslmode=disable user=u password="+p,
				"host=127.0.0.1 port=x sslmode=disable user=u password='"+p+"'",
				"host=127.0.0.1 port=1 sslmode=disable user=u password='"+p,
			)
		}
	}
	for _, url := range urls {
		_, err := Open(t.Context(), url)
		if err == nil {
			t.Fatalf("%q was opened", url)
		}
		for wrapped := err; wrapped != nil; wrapped = errors.Unwrap(wrapped) {
			text := fmt.Sprintf("%v %+v", wrapped, wrapped)
			if strings.Contains(text, head) || strings.Contains(text, tail) {
				t.Errorf("%q: %s", url, text)
			}
		}
		if _, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
			t.Errorf("%q: the error holds the URL", url)
		}
	}
}
