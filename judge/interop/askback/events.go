package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
)

// events are posted to receivers on this machine, which have the certificate of httptest.
func events() *askback.EventOptions {
	web := httptest.NewTLSServer(nil)
	web.Close()
	return &askback.EventOptions{Webhooks: &askback.WebhookOptions{UncheckedTransport: web.Client().Transport}}
}

// alice is who subscribes: anonymous callers cannot.
type alice struct{}

func (alice) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", "alice")
	return http.DefaultTransport.RoundTrip(r)
}

// posted runs a scenario of events, and describes its outcome in a line.
func posted(ctx context.Context, s *client.Session, scenario string) (string, error) {
	if scenario == "e_listed" {
		return listed(ctx, s)
	}
	sub := &client.EventSubscription{Name: "call.ended", Arguments: map[string]any{"tool": "e_job"},
		Secret: client.NewEventSecret()}
	arrived := make(chan string, 1)
	receiver := httptest.NewTLSServer(&client.EventReceiver{
		Secrets: func(context.Context, string) ([]string, error) { return []string{sub.Secret}, nil },
		Receive: func(_ context.Context, _ string, page *client.EventPage, ended error) error {
			if ended != nil || len(page.Events) != 1 {
				arrived <- fmt.Sprintf("no event, but %+v, %v", page, ended)
				return nil
			}
			var data struct{ Tool, Status string }
			err := json.Unmarshal(page.Events[0].Data, &data)
			arrived <- fmt.Sprintf("%s: %s %s", page.Events[0].Name, data.Tool, data.Status)
			return err
		},
	})
	defer receiver.Close()
	sub.URL = receiver.URL
	granted, err := s.Subscribe(ctx, sub)
	if err != nil {
		return "", err
	}
	before := ""
	switch scenario {
	case "e_ends":
		err := s.Unsubscribe(ctx, sub)
		return code(cmp.Or(err, s.Unsubscribe(ctx, sub))), nil
	case "e_refreshed":
		again, err := s.Subscribe(ctx, sub)
		if err != nil {
			return "", err
		}
		before = fmt.Sprintf("the same: %t, later: %t, ", again.ID == granted.ID,
			!again.RefreshBefore.Before(granted.RefreshBefore))
	}
	for _, tool := range []string{"e_other", "e_job"} {
		if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool}); err != nil {
			return "", err
		}
	}
	return before + <-arrived, nil
}

// listed lists the types of events that are posted.
func listed(ctx context.Context, s *client.Session) (string, error) {
	var names []string
	for raw, err := range s.List(ctx, "events/list") {
		var kind struct {
			Name     string
			Delivery []string
		}
		if err != nil || json.Unmarshal(raw, &kind) != nil {
			return "", fmt.Errorf("listing events: %w", err)
		}
		if slices.Contains(kind.Delivery, "webhook") {
			names = append(names, kind.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", "), nil
}
