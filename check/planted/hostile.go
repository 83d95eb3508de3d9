package planted

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Hostiles are the servers that Hostile makes: what each does to a client.
var Hostiles = []string{
	"hang",      // never answers
	"trickle",   // answers one byte a second
	"body",      // sends a body without end
	"line",      // sends one event without end
	"events",    // sends events without end, and no response
	"redirect",  // redirects to another origin
	"long",      // announces more than it sends
	"short",     // sends more than it announces
	"crash",     // ends the connection in the middle of the response
	"tools",     // lists a hundred thousand tools
	"pages",     // lists tools with a cursor to the next page, without end
	"same-page", // lists tools with a cursor to the same page
	"depth",     // answers with JSON that is nested without end
	"gzip",      // answers with a small body that unpacks to a large one
	"numbers",   // answers with numbers that are too large
	"questions", // asks ten thousand questions in each round
	"rounds",    // asks in every round, without end
	"regexp",    // asks for a text that fits a pattern which takes long to try
	"state",     // sends a state of ten megabytes
	"busy",      // answers 429 to every second request
	"wrong-id",  // answers another request
	"null",      // answers null
	"comments",  // sends comments of an event stream without end
	"claim",     // announces four gigabytes
	"hang-call", // answers lists, and hangs in the middle of the response to a call
	"states",    // sends a state of 1.5 MB in each round
	"growing",   // sends a state that is twice as long in each round
	"results",   // sends a question and a result of 1.5 MB
	"names",     // lists a tool whose name has a megabyte
	"task",      // makes a task that never ends, and is to be polled at once
}

// Hostile returns a server that harms its client, or tries to. Elsewhere is where "redirect" leads.
func Hostile(name, elsewhere string) http.Handler {
	return &hostile{name: name, elsewhere: elsewhere, honest: New(Options{})}
}

type hostile struct {
	name      string
	elsewhere string
	honest    http.Handler

	mu    sync.Mutex
	count int
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.count++
	count := h.count
	h.mu.Unlock()
	method := r.Header.Get("Mcp-Method")
	id, answered := identify(r)
	if flood(w, r, h.name) || miscount(w, r, h.name) {
		return
	}
	result := func(text string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, text)
	}
	tool := `{"name":"tool-%d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
	asks := `{"resultType":"input_required","requestState":%q,"inputRequests":{%s}}`
	ask := `"%s":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object",` +
		`"properties":{"a":%s},"required":["a"]}}}`
	switch h.name {
	case "hang":
		<-r.Context().Done()
		return
	case "trickle":
		trickle(w, r)
		return
	case "redirect":
		http.Redirect(w, r, h.elsewhere, http.StatusTemporaryRedirect)
		return
	case "depth":
		w.Header().Set("Content-Type", "application/json")
		result(strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000))
		return
	case "gzip":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb())
		return
	case "numbers":
		result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":1e999999,"tools":[],"a":-1E400}`)
		return
	case "null":
		_, _ = w.Write([]byte("null"))
		return
	case "busy":
		if count%2 == 0 {
			w.Header().Set("Retry-After", "100000000")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
	case "wrong-id":
		id = json.RawMessage(`"another"`)
		result(`{"resultType":"complete","tools":[],"supportedVersions":["2026-07-28"],"capabilities":{}}`)
		return
	}
	switch {
	case method == "tools/list" && h.name == "tools":
		var list strings.Builder
		for i := range 100_000 {
			_, _ = fmt.Fprintf(&list, ","+tool, i)
		}
		result(`{"resultType":"complete","tools":[` + list.String()[1:] + `]}`)
	case method == "tools/list" && h.name == "pages":
		result(fmt.Sprintf(`{"resultType":"complete","tools":[`+tool+`],"nextCursor":"%d"}`, count, count))
	case method == "tools/list" && h.name == "same-page":
		result(fmt.Sprintf(`{"resultType":"complete","tools":[`+tool+`],"nextCursor":"1"}`, 1))
	case method == "tools/list":
		result(fmt.Sprintf(`{"resultType":"complete","tools":[`+tool+`]}`, 1))
	case method == "tools/call" && h.name == "questions":
		var list strings.Builder
		for i := range 10_000 {
			_, _ = fmt.Fprintf(&list, ","+ask, fmt.Sprint("q", i), `{"type":"string"}`)
		}
		result(fmt.Sprintf(asks, "state", list.String()[1:]))
	case method == "tools/call" && h.name == "rounds":
		result(fmt.Sprintf(asks, fmt.Sprint("state", count), fmt.Sprintf(ask, fmt.Sprint("q", count), `{"type":"string"}`)))
	case method == "tools/call" && h.name == "regexp":
		result(fmt.Sprintf(asks, "state", fmt.Sprintf(ask, "q",
			`{"type":"string","pattern":"^(a+)+(b{1,1000}){1,1000}$","minLength":1000000000}`)))
	case method == "tools/call" && h.name == "state":
		result(fmt.Sprintf(asks, strings.Repeat("a", 10<<20), fmt.Sprintf(ask, "q", `{"type":"string"}`)))
	case method == "tools/call" && h.name == "hang-call":
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0",`)
		_ = http.NewResponseController(w).Flush() // the client sees that it has begun
		<-r.Context().Done()
	case method == "tools/call" && h.name == "states":
		result(fmt.Sprintf(asks, fmt.Sprint(count, strings.Repeat("b", 3<<19)), fmt.Sprintf(ask, "q", `{"type":"string"}`)))
	case method == "tools/call" && h.name == "growing":
		result(fmt.Sprintf(asks, strings.Repeat("c", 1<<min(count, 22)), fmt.Sprintf(ask, fmt.Sprint("q", count),
			`{"type":"string"}`)))
	case method == "tools/call" && h.name == "results":
		text := fmt.Sprint(count, strings.Repeat("d", 3<<19))
		if answered {
			result(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, text))
		} else {
			result(fmt.Sprintf(asks, "state", fmt.Sprintf(ask, "q", fmt.Sprintf(`{"type":"string","title":%q}`, text))))
		}
	case method == "tools/list" && h.name == "names":
		result(fmt.Sprintf(`{"resultType":"complete","tools":[{"name":%q},`+tool+`]}`, strings.Repeat("e", 1<<20), 1))
	case h.name == "task" && (method == "tools/call" || method == "tasks/get"):
		result(fmt.Sprintf(`{"resultType":%q,"taskId":"1","status":"working","ttlMs":null,"pollIntervalMs":0,`+
			`"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"}`,
			map[bool]string{true: "task", false: "complete"}[method == "tools/call"]))
	default:
		h.honest.ServeHTTP(w, r)
	}
}

// flood sends a body without end, if the server is one that does.
func flood(w http.ResponseWriter, r *http.Request, name string) bool {
	const object = `{"jsonrpc":"2.0","id":1,"result":{"a":"`
	kinds := map[string]struct{ contentType, first, more string }{
		"body":     {"application/json", object, "a"},
		"claim":    {"application/json", object, "a"},
		"line":     {"text/event-stream", "data: ", "a"},
		"comments": {"text/event-stream", "", ": still there\n\n"},
		"events": {"text/event-stream", "",
			"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n"},
	}
	kind, ok := kinds[name]
	if !ok {
		return false
	}
	w.Header().Set("Content-Type", kind.contentType)
	if name == "claim" {
		w.Header().Set("Content-Length", "4294967296")
	}
	_, _ = io.WriteString(w, kind.first)
	for chunk := []byte(strings.Repeat(kind.more, 1+32<<10/len(kind.more))); r.Context().Err() == nil; {
		if _, err := w.Write(chunk); err != nil {
			break
		}
	}
	return true
}

// miscount sends more or less than it announces, if the server is one that does.
func miscount(w http.ResponseWriter, r *http.Request, name string) bool {
	text, ok := map[string]string{
		"crash": "5000\r\n\r\n" + `{"jsonrpc":"2.0",`,
		"long":  "5000\r\n\r\n" + `{"jsonrpc":"2.0",`,
		"short": "7\r\n\r\n" + `{"jsonrpc":"2.0","id":1,"result":{}}`,
	}[name]
	if !ok {
		return false
	}
	conn, out, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return true
	}
	_, _ = out.WriteString("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + text)
	_ = out.Flush()
	if name == "long" {
		<-r.Context().Done()
	}
	_ = conn.Close()
	return true
}

// identify returns the ID of a request, whose body can be read once more, and whether it has answers.
func identify(r *http.Request) (id json.RawMessage, answered bool) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	r.Body = io.NopCloser(bytes.NewReader(body))
	var message struct {
		ID     json.RawMessage
		Params struct{ InputResponses map[string]json.RawMessage }
	}
	if json.Unmarshal(body, &message) != nil || len(message.ID) == 0 {
		return json.RawMessage("null"), false
	}
	return message.ID, len(message.Params.InputResponses) > 0
}

func trickle(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 3600 {
		if _, err := w.Write([]byte(" ")); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// bomb unpacks to 256 MB.
var bomb = sync.OnceValue(func() []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	zeros := make([]byte, 1<<20)
	for range 256 {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	return out.Bytes()
})
