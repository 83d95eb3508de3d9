package drafts

import (
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/wire"
)

// In the proposal on the structure of task messages, a client answers a task's question with a response that names
// the task, but not the question.

// serveTaskAnswer passes the answer on to the first open question of its task, which is the one that the client was
// shown. Without an open question the answer is ignored.
func serveTaskAnswer(w http.ResponseWriter, r *http.Request, m message, next Ratified) {
	if fault := checkHeaders(r.Header, "", nil); fault != nil { // a response has no method and no name
		refuse(w, m["id"], fault)
		return
	}
	id := wire.RelatedTask(m["result"])
	asked := askTask(r, wire.GetTask, id, nil, next)
	if asked["result"] == nil {
		refuse(w, m["id"], decodeError(asked["error"]))
		return
	}
	if open := parseResult(asked["result"]).requests; len(open) > 0 {
		var answer, responses object
		answer.addAll(m["result"], "_meta")
		responses.add(open[0].Key, answer.bytes())
		if updated := askTask(r, wire.UpdateTask, id, responses.bytes(), next); updated["result"] == nil {
			refuse(w, m["id"], decodeError(updated["error"]))
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// askTask sends a request about a task on its client's behalf. It speaks the dialect of the extension, whose responses
// list the open questions and never wait.
func askTask(r *http.Request, method, task string, responses []byte, next Ratified) message {
	var params object
	params.add("taskId", quote(task))
	params.add("inputResponses", responses)
	var extensions, capabilities object
	extensions.add(wire.TasksExtension, []byte("{}"))
	capabilities.add("extensions", extensions.bytes())
	params.add("_meta", ratifiedMeta(nil, capabilities.bytes()))
	inner := ratifiedRequest(r, method, nil)
	inner.Header.Set(wire.HeaderName, wire.EncodeHeader(task))
	out := capture{header: make(http.Header)}
	next(&out, inner, request(quote("2.0"), []byte("0"), method, params.bytes()))
	return parse(out.body)
}

// capture is an http.ResponseWriter that keeps the response in memory.
type capture struct {
	header http.Header
	status int
	body   []byte
}

func (c *capture) Header() http.Header { return c.header }

func (c *capture) WriteHeader(status int) { c.status = status }

func (c *capture) Write(data []byte) (int, error) {
	c.body = append(c.body, data...)
	return len(data), nil
}

// decodeError decodes an error that this server wrote.
func decodeError(raw []byte) *jsonrpc.Error {
	e := new(jsonrpc.Error)
	if json.Unmarshal(raw, e) != nil {
		e.Code, e.Message = jsonrpc.CodeInternalError, "internal error"
	}
	return e
}
