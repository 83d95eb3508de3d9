package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A request is sent again only after all its questions are answered.
func TestNoRetryBeforeAllIsAnswered(t *testing.T) {
	t.Parallel()
	var s script
	opts := answers()
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		if q.Key == "b" {
			return nil, client.ErrPark
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
	}
	both := `{"a":` + formQuestion + `,"b":` + formQuestion + `}`
	session := connect(t, opts,
		s.serve(t, `{"resultType":"input_required","inputRequests":`+both+`,"requestState":"s"}`, done), "")
	_, err := called(t, session, "t")
	if pending, ok := parked(err); !ok || len(pending.Answers) != 1 || pending.State != "s" {
		t.Errorf("got %v", err)
	}
	expect.Equal(t, "requests", len(s.all()), 1)

	// The retry waits for the slowest handler, and each answer has its question's key.
	s = script{}
	first := make(chan struct{})
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		if q.Key == "a" {
			close(first)
			return &mcp.ElicitResult{Action: "decline"}, nil
		}
		<-first
		time.Sleep(50 * time.Millisecond)
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}
	session = connect(t, opts,
		s.serve(t, `{"resultType":"input_required","inputRequests":{"a":`+formQuestion+`,"b":`+formQuestion+`}}`, done), "")
	expect.Must(called(t, session, "t"))(t)
	if all := s.all(); len(all) != 2 || string(all[1].Params["inputResponses"]) != `{"a":{"action":"decline"},`+
		`"b":{"action":"cancel"}}` {
		t.Errorf("sent %v", all)
	}
}

func TestHandlersMayFailOrCancel(t *testing.T) {
	session := func(form func(context.Context, *client.Question) (*mcp.ElicitResult, error)) *client.Session {
		opts := answers()
		opts.Form = form
		return connect(t, opts, web(t, newServer(t, askback.Options{})), "")
	}
	broken := errors.New("no display")
	_, err := called(t,
		session(func(context.Context, *client.Question) (*mcp.ElicitResult, error) { return nil, broken }), "everything")
	expect.Is(t, "the result", err, broken)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = session(func(ctx context.Context, _ *client.Question) (*mcp.ElicitResult, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}).CallTool(ctx, &mcp.CallToolParams{Name: "everything"})
	expect.Is(t, "the result", err, context.Canceled)
	opts := answers()
	refusal := errors.New("this host refuses")
	opts.OnRound = func(context.Context, *client.Round) error { return refusal }
	_, err = called(t, connect(t, opts, web(t, newServer(t, askback.Options{})), ""), "everything")
	expect.Is(t, "the result", err, refusal)
}
