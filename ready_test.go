package askback_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

var errAway = errors.New("the database is away")

// awayTasks and awayStates are stores that do not answer.
type (
	awayTasks  struct{ task.Store }
	awayStates struct{ state.Store }
)

func (awayTasks) Get(context.Context, string) (*task.Task, error) { return nil, errAway }
func (awayStates) GetState(context.Context, string) ([]byte, error) {
	return nil, errAway
}

func TestReady(t *testing.T) {
	for _, test := range []struct {
		name string
		opts askback.Options
		want string // part of the error
	}{
		{"no stores", askback.Options{}, ""},
		{"tasks", askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore)}}, ""},
		{"tasks away", askback.Options{Tasks: &askback.Tasks{Store: awayTasks{}}}, "the store of the tasks"},
		{"states", askback.Options{States: &state.Options{Store: new(state.MemoryStore)}}, ""},
		{"states away", askback.Options{States: &state.Options{Store: awayStates{}}}, "the store of the states"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := harness.NewServer(t, &test.opts).Ready(t.Context())
			if test.want == "" && err != nil {
				t.Error(err)
			}
			if test.want != "" && (!errors.Is(err, errAway) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want one about %s", err, test.want)
			}
		})
	}
}
