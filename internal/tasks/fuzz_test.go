package tasks

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// A cursor that is accepted names a place in the list, which the same place's cursor names, too.
func FuzzCursor(f *testing.F) {
	encode := func(created int64, id string) string {
		return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%s", created, id))
	}
	for _, cursor := range []string{"", "x", "!", encode(1, ""), encode(time.Now().UnixMilli(), "a.b"),
		encode(-1<<63, "x"), encode(1<<63-1, "x")} {
		f.Add(cursor)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		raw := expect.Must(json.Marshal(cursor))(t)
		after, fault := parseCursor(raw)
		if (after == nil) == (fault == nil) {
			t.Fatalf("task %v, fault %v", after, fault)
		}
		if after == nil {
			return
		}
		again, _ := json.Marshal(encode(after.Created.UnixMilli(), after.ID))
		same, fault := parseCursor(again)
		if len(again) > 258 { // with its quotes; another spelling of the number was shorter
			return
		}
		if fault != nil || same.ID != after.ID || !same.Created.Equal(after.Created) {
			t.Fatalf("%s and %s name %v and %v (%v)", raw, again, after, same, fault)
		}
	})
}

// A request about tasks is checked or refused, and nothing but strings reach the store as IDs.
func FuzzRequest(f *testing.F) {
	for _, method := range append(wire.TaskMethods, MethodListen) {
		f.Add(method, []byte(`{"taskId":"x",`+
			`"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`))
		f.Add(method, []byte(`{"taskId":7,"notifications":{"taskIds":["x"]}}`))
		f.Add(method, []byte(`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}},"task":{"ttl":1e999}}`))
	}
	f.Fuzz(func(t *testing.T, method string, params []byte) {
		if strictjson.Check(params, 64) != nil || strictjson.TypeOf(params) != strictjson.TypeObject {
			return
		}
		meta, _ := wire.ParseMeta(strictjson.Get(params, "_meta"))
		q := Request{Method: method, TaskID: wire.Name(method, params), Params: params, Can: meta.Capabilities}
		if q.Check() == nil && (!wire.IsTask(method) || q.TaskID == "" && method != wire.ListTasks) {
			t.Fatalf("%q for the task %q passes", method, q.TaskID)
		}
		if OnlyHere(params) && ListensHere(params) && strictjson.Get(params, "notifications") == nil {
			t.Fatal("a subscription without notifications asks for some")
		}
		if ttl, fault := wire.ParseTTL(strictjson.Get(params, "task")); fault == nil && ttl < 0 {
			t.Fatalf("a time to live of %v", ttl)
		}
	})
}

// What names a subscription is refused, or leads to an https address of its own host. It is the same for the same key.
func FuzzSubscription(f *testing.F) {
	for _, url := range []string{"https://hooks.example/a", "https://user@[::1]:443/", "https://A.example.:8443/?#",
		"http://x/"} {
		f.Add([]byte(fmt.Sprintf(`{"name":"call.ended","arguments":{"tool":"x"},"delivery":{"url":%q}}`, url)))
	}
	f.Add([]byte(`{"name":"call.ended","arguments":null,"delivery":{"mode":"webhook","url":7}}`))
	s := &Service{Events: new(Events)}
	f.Fuzz(func(t *testing.T, params []byte) {
		if strictjson.Check(params, 64) != nil || strictjson.TypeOf(params) != strictjson.TypeObject {
			return
		}
		_, sub, terms, err := s.parseHook("alice", params)
		if err != nil {
			return
		}
		if !strings.HasPrefix(strings.ToLower(terms.URL), "https:") || sub.Host == "" || strings.Contains(sub.Host, "@") {
			t.Fatalf("%+v leads to %+v", terms, sub)
		}
		delivery := fmt.Sprintf(`"delivery":{"url":%s}}`, strictjson.AppendString(nil, terms.URL))
		again := append(slices.Clone(terms.Params[:len(terms.Params)-1]), ',')
		_, same, _, err := s.parseHook("alice", append(again, delivery...))
		if err != nil || same.ID != sub.ID {
			t.Fatalf("%s is %+v, and again %+v (%v)", params, sub, same, err)
		}
	})
}
