package eventscmd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// serve returns a server with this list of types, and the parameters of the polls that it gets.
func serve(t *testing.T) (url string, list *string, polls chan json.RawMessage) {
	list, polls = new(string), make(chan json.RawMessage, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		result := *list
		switch m.Method {
		case "events/poll":
			polls <- m.Params
			result = `{"resultType":"complete","events":[],"cursor":"c"}`
		case "server/discover":
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,` +
				`"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}}`
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, list, polls
}

// Arguments have the types that the server lists.
func TestArguments(t *testing.T) {
	url, list, polls := serve(t)
	*list = `{"resultType":"complete","events":[{"name":"order.lost","delivery":["poll"],"inputSchema":{"type":"object",` +
		`"properties":{"above":{"type":"integer"},"of":{"type":"string"}}}}]}`
	for args, want := range map[string]string{ // empty: it is not sent
		"above=7 of=7": `{"above":7,"of":"7"}`, "of:=null": "", "above=x": "", "below=7": "",
	} {
		cmd := Command()
		cmd.SetArgs(append([]string{url, "order.lost", "--once"}, strings.Fields(args)...))
		cmd.SetErr(io.Discard)
		err, sent := cmd.Execute(), ""
		if len(polls) > 0 {
			sent = string(strictjson.Get(<-polls, "arguments"))
		}
		if sent != want || (err == nil) != (want != "") {
			t.Errorf("%s is sent as %s, %v; want %s", args, sent, err, want)
		}
	}
}

// A type is streamed only if its server lists it so.
func TestTypeOf(t *testing.T) {
	url, list, _ := serve(t)
	session, err := client.New(nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, nil)
	expect.Check(t, err)
	defer session.Close()
	for delivery, want := range map[string]bool{
		`["poll"]`: false, `["poll","push"]`: true, `["webhook"]`: false, `[]`: false, `"push"`: false, `7`: false,
	} {
		*list = `{"resultType":"complete","events":[{"name":"other","delivery":["push"]},{"name":"call.ended","delivery":` +
			delivery + `}]}`
		got := typeOf(t.Context(), session, "call.ended")
		if got.Name != "call.ended" || slices.Contains(got.Delivery, "push") != want {
			t.Errorf("with the delivery %s: %v", delivery, got)
		}
	}
}
