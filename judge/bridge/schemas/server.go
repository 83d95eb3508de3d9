package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/hostile"
)

// schema is one that is drawn, with arguments to be checked against it.
type schema struct {
	kind      string
	raw       []byte
	arguments []byte
}

// draw returns so many schemas of a kind.
func draw(r *rand.Rand, kind string, number int) (all []schema) {
	for range number {
		raw, arguments, _ := hostile.Draw(r, kind)
		all = append(all, schema{kind, raw, arguments})
	}
	return all
}

// honest starts a server with a tool, and one that has to be approved, so that some tool has to be in any case.
func honest() (*httptest.Server, error) {
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "honest", Version: "1"}, nil),
		&askback.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"create", "odd"} {
		askback.AddTool(srv, &mcp.Tool{Name: name}, func(context.Context, *askback.Call, struct{}) (string, error) {
			return "created", nil
		})
	}
	return httptest.NewServer(srv.HTTPHandler(nil)), nil
}

// evil starts a server whose tools "oddN" take the schemas, and whose tools "askN" ask by them.
func evil(schemas []schema) (*httptest.Server, error) {
	base, err := honest()
	if err != nil {
		return nil, err
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var msg struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name           string
				Cursor         string
				InputResponses json.RawMessage
			}
		}
		_ = json.Unmarshal(body, &msg) // what is malformed goes to the honest handler
		result := ""
		switch name := msg.Params.Name; {
		case msg.Method == "tools/list":
			result = page(schemas, msg.Params.Cursor)
		case msg.Method != "tools/call":
		case strings.HasPrefix(name, "ask") && msg.Params.InputResponses == nil:
			i, _ := strconv.Atoi(strings.TrimPrefix(name, "ask"))
			result = fmt.Sprintf(`"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":`+
				`"elicitation/create","params":{"mode":"form","message":"Well?","requestedSchema":%s}}}`, schemas[i].raw)
		default:
			result = `"resultType":"complete","content":[{"type":"text","text":"ran"}]`
		}
		if result == "" {
			r.Body = io.NopCloser(bytes.NewReader(body))
			base.Config.Handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, msg.ID, result)
	})), nil
}

// page lists the two tools of one schema.
func page(schemas []schema, cursor string) string {
	i, _ := strconv.Atoi(cursor)
	next := ""
	if i+1 < len(schemas) {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, i+1)
	}
	return fmt.Sprintf(`"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`+
		`{"name":"odd%d","inputSchema":%s},{"name":"ask%d","inputSchema":{"type":"object"}}]%s`, i, schemas[i].raw, i, next)
}
