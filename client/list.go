package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// List lists what the server offers by a method such as tools/list or resources/templates/list. Each item is an object
// as the server sent it, with members that the SDK's types do not have. One that is not an object is left out, and so
// is a tool whose schema names too many properties to look at. An error ends the list, and the items before it count. A
// [*LimitError] says that the list has more bytes than [Limits] has for a message, or more pages than it has rounds.
// (server/utilities/pagination)
func (s *Session) List(ctx context.Context, method string) iter.Seq2[json.RawMessage, error] {
	name, _ := strings.CutSuffix(method, "/list")
	if name == "resources/templates" {
		name = "resourceTemplates"
	}
	return func(yield func(json.RawMessage, error) bool) {
		l := list{session: s, method: method, name: name}
		for n, next := 0, ""; n == 0 || next != ""; n++ {
			var items []json.RawMessage
			err := error(&LimitError{"pages of the list of " + name, int64(s.opts.Limits.Rounds)})
			if n < s.opts.Limits.Rounds {
				items, next, err = l.page(ctx, next)
			}
			for _, item := range items {
				if l.has(item) && !yield(item, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// list is a list that a session reads.
type list struct {
	session *Session
	method  string
	name    string // the member of a page that has its items
	size    int64  // bytes of the pages so far
}

// page reads a page and returns the cursor of the next one.
func (l *list) page(ctx context.Context, cursor string) (items []json.RawMessage, next string, err error) {
	s, most := l.session, l.session.opts.Limits.MessageBytes
	page, err := s.request(ctx, TasksExtension, l.method, "", &taskParams{Cursor: cursor})
	if status, ok := errors.AsType[*tap.StatusError](err); ok && status.Code == http.StatusNotFound && s.sdk.ID() != "" {
		err = fmt.Errorf("%w: %w", mcp.ErrSessionMissing, err)
	}
	if err != nil {
		return nil, "", err
	}
	if l.size += int64(len(page)); l.size > most {
		return nil, "", &LimitError{"bytes of the list of " + l.name, most}
	}
	if items, err = itemsOf(page, l.name); err == nil {
		next, err = nextCursor(page)
	}
	if err == nil && next == cursor && next != "" {
		err = &ProtocolError{fmt.Sprintf("a page of the list of %s leads to itself", l.name)}
	}
	return items, next, err
}

// itemsOf returns the objects on a page of a list. Its JSON has been checked.
func itemsOf(page []byte, name string) (items []json.RawMessage, err error) {
	all := strictjson.Get(page, name)
	if strictjson.TypeOf(all) != strictjson.TypeArray {
		return nil, &ProtocolError{fmt.Sprintf("the list of %s is not an array", name)}
	}
	for item := range strictjson.Elements(all) {
		if strictjson.TypeOf(item) == strictjson.TypeObject {
			items = append(items, item)
		}
	}
	return items, nil
}

// has reports whether an item belongs to the list. Of a tool it notes which arguments its calls mirror into headers.
func (l *list) has(item []byte) bool {
	if l.method != "tools/list" {
		return true
	}
	name, _ := strictjson.String(strictjson.Get(item, "name"))
	var schema any
	if raw := strictjson.Get(item, "inputSchema"); raw == nil || json.Unmarshal(raw, &schema) != nil {
		return true
	}
	return l.session.inline.learn(&mcp.Tool{Name: name, InputSchema: schema}, l.session.opts.SDK.Logger)
}

// learn notes which arguments the calls of a tool mirror into headers. It reports false for a tool that is left out.
func (s *inlineState) learn(tool *mcp.Tool, log *slog.Logger) bool {
	var headers []wire.ParamHeader
	err := foreign.CheckNames(tool.InputSchema)
	if err == nil && s.web.Load() {
		headers, err = wire.ParamHeaders(tool.InputSchema)
	}
	if err != nil {
		if log != nil {
			log.Warn("client: a tool is left out of the list", "tool", wire.Cut(tool.Name, 100), "error", err)
		}
		return false
	}
	if len(headers) > 0 {
		s.mirrored.Store(tool.Name, headers)
	} else {
		s.mirrored.Delete(tool.Name)
	}
	return true
}
