package storage

import "testing"

func TestNamesOfDatabasesHaveNoSecrets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, want string }{
		{"postgres://user:hunter2@db.example:5432/tasks?sslmode=disable", "postgres://db.example:5432/tasks"},
		{"postgresql://db.example/tasks?password=hunter2", "postgres://db.example/tasks"},
		{"postgres:///tasks?host=/run/postgresql", "postgres:///tasks"},
		{"postgres://user:hunt%er2@db.example/tasks", "postgres"},
	} {
		if got := databaseName(tt.url); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.url, got, tt.want)
		}
	}
}
