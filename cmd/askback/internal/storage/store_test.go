package storage

import (
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestNamesOfDatabasesHaveNoSecrets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, want string }{
		{"postgres://user:hunter2@db.example:5432/tasks?sslmode=disable", "postgres://db.example:5432/tasks"},
		{"postgresql://db.example/tasks?password=hunter2", "postgres://db.example/tasks"},
		{"postgres:///tasks?host=/run/postgresql", "postgres:///tasks"},
		{"postgres://user:hunt%er2@db.example/tasks", "postgres"},
	} {
		expect.Equal(t, tt.url, databaseName(tt.url), tt.want)
	}
}
