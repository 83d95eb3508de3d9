package planted_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A client sends what it is told to.
type client struct {
	t       *testing.T
	handler http.Handler
	token   string
	caps    string
	headers map[string]string
}

func newClient(t *testing.T, o planted.Options) *client {
	return &client{t, planted.New(o), planted.Alice,
		`{"elicitation":{"form":{},"url":{}},"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, nil}
}

func (c *client) send(method, members string) (int, map[string]any) {
	c.t.Helper()
	var named struct{ Name, URI, TaskID string }
	if err := json.Unmarshal([]byte("{"+members+"}"), &named); err != nil {
		c.t.Fatal(err)
	}
	if members != "" {
		members = "," + members
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":` + c.caps + `}` + members + `}}`
	r := httptest.NewRequestWithContext(c.t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
	header := map[string]string{"Authorization": "Bearer " + c.token, "MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method": method, "Mcp-Name": named.Name + named.URI + named.TaskID, "Content-Type": "application/json"}
	maps.Copy(header, c.headers)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Body)
	if _, data, ok := bytes.Cut(text, []byte("\ndata: ")); ok {
		text = data
	}
	var message map[string]any
	if json.Unmarshal(text, &message) != nil {
		return w.Code, nil
	}
	return w.Code, message
}

// result sends a request that has a result.
func (c *client) result(method, members string) map[string]any {
	c.t.Helper()
	status, message := c.send(method, members)
	result, ok := message["result"].(map[string]any)
	if status != http.StatusOK || !ok {
		c.t.Fatalf("%s %s: %d %v", method, members, status, message)
	}
	return result
}

// refused sends a request that has an error with a code.
func (c *client) refused(code int, method, members string) {
	c.t.Helper()
	_, message := c.send(method, members)
	if wrong, _ := message["error"].(map[string]any); wrong == nil || wrong["code"] != float64(code) {
		c.t.Errorf("%s %s is answered %v, want the error %d", method, members, message, code)
	}
}

const (
	guest   = `"guest":{"action":"accept","content":{"guest":"Ada","class":"first"}}`
	confirm = `"confirm":{"action":"accept","content":{"confirm":true,"seats":2}}`
)

func retry(first, answers string, result map[string]any) string {
	state, _ := json.Marshal(result["requestState"])
	return fmt.Sprintf(`%s,"requestState":%s,"inputResponses":{%s}`, first, state, answers)
}

// A correct server takes what was asked for from whom it was asked, however it protects its states.
func TestCorrect(t *testing.T) {
	for _, seal := range planted.Seals {
		t.Run(seal, func(t *testing.T) {
			for method, first := range map[string]string{
				"tools/call":     `"name":"book","arguments":{"city":"Rome"}`,
				"prompts/get":    `"name":"book","arguments":{"city":"Rome"}`,
				"resources/read": `"uri":"planted://guests"`,
			} {
				c := newClient(t, planted.Options{Seal: seal, Stream: seal == "jwt"})
				asked := c.result(method, first)
				second := c.result(method, retry(first, guest, asked))
				expect.Contains(t, "the second question", fmt.Sprint(second["inputRequests"]), "guest first Ada")
				if text := fmt.Sprint(c.result(method, retry(first, confirm, second))); !strings.Contains(text,
					"confirm true 2, guest first Ada") {
					t.Errorf("the result is %s", text)
				}
				missing := c.result(method, retry(first, confirm, asked))
				if !strings.Contains(fmt.Sprint(missing["inputRequests"]), "Who is the guest?") {
					t.Errorf("without its answer the call goes on: %v", missing)
				}
				state, _ := asked["requestState"].(string)
				for _, changed := range []string{"", "x", state[1:], state + "A" + state, strings.Repeat("A", len(state))} {
					c.refused(-32602, method, retry(first, guest, map[string]any{"requestState": changed}))
				}
				if method != "resources/read" {
					c.refused(-32602, method, retry(strings.ReplaceAll(first, "Rome", "Oslo"), guest, asked))
				}
				c.token = planted.Bob
				c.refused(-32602, method, retry(first, guest, asked))
			}
		})
	}
}

func TestOnce(t *testing.T) {
	c := newClient(t, planted.Options{})
	first := `"name":"redeem","arguments":{"city":"Rome"}`
	asked := c.result("tools/call", first)
	second := c.result("tools/call", retry(first, guest, asked))
	c.result("tools/call", retry(first, confirm, second))
	c.refused(-32602, "tools/call", retry(first, confirm, second))
	c.refused(-32602, "tools/call", retry(first, guest, asked))
}

func TestTask(t *testing.T) {
	c := newClient(t, planted.Options{})
	task := c.result("tools/call", `"name":"export","arguments":{"city":"Rome"}`)
	id := fmt.Sprintf(`"taskId":%q`, task["taskId"])
	if task["resultType"] != "task" || c.result("tasks/get", id)["status"] != "input_required" {
		t.Fatalf("the task is %v", task)
	}
	c.token = planted.Bob
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		c.refused(-32602, method, id)
	}
	c.token = planted.Alice
	c.result("tasks/update", id+`,"inputResponses":{`+guest+`}`)
	c.result("tasks/update", id+`,"inputResponses":{`+strings.Replace(guest, "Ada", "Bob", 1)+`}`)
	c.result("tasks/update", id+`,"inputResponses":{`+confirm+`}`)
	c.result("tasks/update", id+`,"inputResponses":{`+strings.Replace(guest, "Ada", "Bob", 1)+`}`)
	c.result("tasks/cancel", id)
	end := c.result("tasks/get", id)
	if text := fmt.Sprint(end["result"]); end["status"] != "completed" || !strings.Contains(text, "Ada") {
		t.Errorf("the task ends as %v", end)
	}
	c.caps = `{"elicitation":{}}`
	c.refused(-32021, "tools/call", `"name":"export","arguments":{"city":"Rome"}`)
	c.refused(-32021, "tasks/get", id)
	c.refused(-32601, "tasks/list", "")
}

func TestCapabilities(t *testing.T) {
	for tool, without := range map[string]string{
		"greet":     `{"elicitation":{"url":{}},"sampling":{}}`,
		"connect":   `{"elicitation":{},"sampling":{}}`,
		"summarize": `{"elicitation":{"form":{},"url":{}}}`,
	} {
		c := newClient(t, planted.Options{})
		members := `"name":"` + tool + `","arguments":{"city":"Rome"}`
		if c.result("tools/call", members)["resultType"] != "input_required" {
			t.Errorf("%s does not ask", tool)
		}
		for _, caps := range []string{without, "{}"} {
			c.caps = caps
			c.refused(-32021, "tools/call", members)
		}
	}
	c := newClient(t, planted.Options{})
	c.caps = `{"elicitation":{}}`
	c.result("tools/call", `"name":"greet","arguments":{"city":"Rome"}`)
}

func TestEndpoint(t *testing.T) {
	for header, code := range map[string]int{"Mcp-Method": -32020, "Mcp-Name": -32020, "MCP-Protocol-Version": -32020} {
		c := newClient(t, planted.Options{})
		c.headers = map[string]string{header: "tools/list"}
		c.refused(code, "tools/call", `"name":"clock","arguments":{"city":"Rome"}`)
	}
	for header, status := range map[string]int{"Origin": http.StatusForbidden, "Authorization": http.StatusUnauthorized} {
		c := newClient(t, planted.Options{})
		c.headers = map[string]string{header: "https://attacker.example"}
		if got, _ := c.send("tools/list", ""); got != status {
			t.Errorf("with the header %s the status is %d, want %d", header, got, status)
		}
	}
	c := newClient(t, planted.Options{})
	for _, wrong := range []string{`"a":1,"a":2`, "\"a\":\"\xff\"", `"a":` + strings.Repeat("[", 100) +
		strings.Repeat("]", 100)} {
		c.refused(-32700, "tools/list", wrong)
	}
	var names []any
	for cursor := any(""); cursor != nil; {
		page := c.result("tools/list", fmt.Sprintf(`"cursor":%q`, cursor))
		names, cursor = append(names, page["tools"].([]any)...), page["nextCursor"]
	}
	expect.Equal(t, "the list", len(names), 9)
}

// Each fault has a name of its own, which the server's code reads.
func TestFaultsAreRead(t *testing.T) {
	var code strings.Builder
	files := expect.Must(os.ReadDir("."))(t)
	for _, file := range files {
		name := file.Name()
		if strings.HasSuffix(name, ".go") && name != "faults.go" && !strings.HasSuffix(name, "_test.go") {
			text := expect.Must(os.ReadFile(name))(t)
			code.Write(text)
		}
	}
	var names []string
	for _, f := range planted.Faults {
		if !strings.Contains(code.String(), `"`+f.Name+`"`) {
			t.Errorf("nothing reads the fault %s", f.Name)
		}
		names = append(names, f.Name)
	}
	if slices.Sort(names); len(slices.Compact(names)) != len(planted.Faults) || len(names) < 40 {
		t.Errorf("the faults are %q", names)
	}
}
