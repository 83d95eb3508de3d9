package conversation

import (
	"context"
	"encoding/json"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// List reads a list of the server. What cannot be read is named, and left out. With an error the list holds what came
// before it.
func List[T any](ctx context.Context, c *Conversation, s *client.Session, method string) ([]*T, error) {
	list := []*T{}
	for item, err := range s.List(ctx, method) {
		if err != nil {
			return list, err
		}
		read := new(T)
		if err := json.Unmarshal(item, read); err != nil {
			c.Note("warning: %s: left out, because it cannot be read: %s: %v", method,
				cli.HarmlessLine(string(item), 100), err)
			continue
		}
		list = append(list, read)
	}
	return list, nil
}
