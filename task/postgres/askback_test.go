package postgres_test

import (
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task/postgres"
)

var _ state.Store = (*postgres.Store)(nil)
