// Package eventscmd lists and follows the events of a server.
package eventscmd

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/arguments"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/conversation"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Command returns 'askback events'.
func Command() *cobra.Command {
	var cursor string
	var once bool
	cmd := conversation.Command(&cobra.Command{
		Use:   "events TARGET [TYPE] [KEY=VALUE]...",
		Short: "List the events of a server, and follow them",
		Long: `List the types of events of the server at TARGET. With a TYPE, print what has
happened since --cursor, or happens from now on, an event on each line, until
you interrupt it: at once if the server has streams, else as often as it wants
to be polled. KEY=VALUE narrows it, such as tool=deploy or taskId=ID, and
KEY:=JSON does. At the end the cursor is printed with which the next time
continues.

Exit codes: 0 the events are there; 1 it failed; 2 wrong usage; 130 interrupted.`,
		Example: `  askback events http://127.0.0.1:8080/mcp
  askback events http://127.0.0.1:8080/mcp call.ended tool=deploy`,
	}, conversation.ConnectOnly, func(c *conversation.Conversation, args []string) error {
		if len(args) == 1 {
			return c.Hold(args[0], "the server", func(ctx context.Context, s *client.Session) (func() error, error) {
				types, err := listTypes(ctx, s)
				return func() error { return c.Show(types, typesText(types)) }, err
			})
		}
		pairs, err := arguments.ParsePairs(args[2:])
		if err != nil {
			return err
		}
		return c.Hold(args[0], args[1], func(ctx context.Context, s *client.Session) (func() error, error) {
			t := typeOf(ctx, s, args[1])
			object, _, err := arguments.ParseSchema(t.InputSchema).Arguments(ctx, t.Name, pairs, nil)
			if err != nil {
				return nil, err
			}
			p := client.EventPoll{Name: t.Name, Cursor: cursor, Arguments: make(map[string]any)}
			for name, value := range strictjson.Members(object) {
				p.Arguments[string(name)] = json.RawMessage(value)
			}
			pages := s.EventPages
			if !once && slices.Contains(t.Delivery, "push") {
				pages = s.StreamEvents
			}
			return func() error { return nil }, follow(c, pages(ctx, p), cursor, once)
		})
	})
	cmd.Flags().StringVar(&cursor, "cursor", "", "what has happened since this `CURSOR`")
	cmd.Flags().BoolVar(&once, "once", false, "poll once")
	return cmd
}

// eventType is a type of events, as the server lists it.
type eventType struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Delivery    []string        `json:"delivery"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
}

func listTypes(ctx context.Context, s *client.Session) ([]*eventType, error) {
	types := []*eventType{}
	for item, err := range s.List(ctx, "events/list") {
		if err != nil {
			return nil, fmt.Errorf("listing the types of events: %w", err)
		}
		t := new(eventType)
		if err := json.Unmarshal(item, t); err != nil {
			return nil, fmt.Errorf("the server lists a type of events that cannot be read: %w", err)
		}
		types = append(types, t)
	}
	return types, nil
}

func typesText(types []*eventType) string {
	if len(types) == 0 {
		return "no events\n"
	}
	var b strings.Builder
	for _, t := range types {
		b.WriteString(cli.HarmlessLine(t.Name, 200) + "\n" + cli.Wrap(cli.Harmless(t.Description), "  "))
		var names []string
		for name := range strictjson.Members(strictjson.Get(t.InputSchema, "properties")) {
			names = append(names, string(name))
		}
		if slices.Sort(names); names != nil {
			b.WriteString("    narrowed by " + cli.HarmlessLine(strings.Join(names, ", "), 200) + "\n")
		}
	}
	return b.String()
}

// follow prints events until it is interrupted, or once.
func follow(c *conversation.Conversation, pages iter.Seq2[*client.EventPage, error], cursor string, once bool) error {
	defer func() {
		if cursor != "" {
			c.Note("the next time: --cursor %s", cli.HarmlessLine(cursor, 2000))
		}
	}()
	for page, err := range pages {
		if err != nil {
			return err
		}
		if cursor = page.Cursor; page.Truncated {
			c.Note("warning: there may have been events that the server no longer has")
		}
		for _, e := range page.Events {
			if err := cli.Output(c.Cmd.OutOrStdout(), line(c, e)); err != nil {
				return err
			}
		}
		if once && !page.More {
			return nil
		}
	}
	return nil
}

// typeOf returns the type with a name. Of one that the server does not list, or that has no schema, the server is the
// only judge.
func typeOf(ctx context.Context, s *client.Session, name string) *eventType {
	found := &eventType{Name: name}
	types, _ := listTypes(ctx, s)
	for _, t := range types {
		if t.Name == name {
			found = t
		}
	}
	if strictjson.TypeOf(found.InputSchema) != strictjson.TypeObject {
		found.InputSchema = json.RawMessage("{}")
	}
	return found
}

func line(c *conversation.Conversation, e *client.Event) string {
	if c.AsJSON() {
		return cli.EndLine(foreign.JSON([]byte(cli.Compact(map[string]any{
			"eventId": e.ID, "name": e.Name, "timestamp": e.Timestamp, "data": e.Data}))))
	}
	return strings.Join([]string{e.Timestamp.UTC().Format(time.DateTime), cli.HarmlessLine(e.Name, 100),
		cli.HarmlessLine(foreign.JSON(e.Data), 2000)}, "  ") + "\n"
}
