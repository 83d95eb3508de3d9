package planted

import (
	"encoding/json"
	"errors"
	"net/http"
)

const version = "2026-07-28"

// A request is a message of a client that is going to be answered.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	params

	principal string // the name of the token's owner
	token     string
	target    string // what Mcp-Name has to name, if anything
	arguments map[string]any
	meta      map[string]any
}

type params struct {
	Name          string                     `json:"name"`
	URI           string                     `json:"uri"`
	TaskID        string                     `json:"taskId"`
	Cursor        string                     `json:"cursor"`
	State         *string                    `json:"requestState"`
	Answers       map[string]json.RawMessage `json:"inputResponses"`
	Notifications struct {
		TaskIDs []string `json:"taskIds"`
	} `json:"notifications"`
}

// A refusal is an error as the client sees it.
type refusal struct {
	status  int
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *refusal) Error() string { return e.Message }

func invalid(message string) error { return &refusal{http.StatusBadRequest, -32602, message, nil} }

func lacks(capabilities any) error {
	return &refusal{http.StatusBadRequest, -32021, "Missing required client capability",
		map[string]any{"requiredCapabilities": capabilities}}
}

// can reports whether the client of a request has declared a capability, and a mode of it.
func can(r *request, path ...string) bool {
	at, _ := r.meta["io.modelcontextprotocol/clientCapabilities"].(map[string]any)
	for i, name := range path {
		next, ok := at[name].(map[string]any)
		if !ok {
			return i == 1 && path[0] == "elicitation" && name == "form" && len(at) == 0 // {} means forms only
		}
		at = next
	}
	return true
}

// done returns the result of a call that has ended.
func done(r *request, text string) map[string]any {
	content := map[string]any{"type": "text", "text": text}
	switch r.Method {
	case "prompts/get":
		return map[string]any{"messages": []any{map[string]any{"role": "user", "content": content}}}
	case "resources/read":
		return map[string]any{"ttlMs": 0, "cacheScope": "private",
			"contents": []any{map[string]any{"uri": r.URI, "mimeType": "text/plain", "text": text}}}
	}
	return map[string]any{"content": []any{content}, "isError": false}
}

// respond writes a result or an error.
func (s *server) respond(w http.ResponseWriter, req *request, result map[string]any, err error) {
	message := map[string]any{"jsonrpc": "2.0", "id": req.ID}
	if len(req.ID) == 0 {
		message["id"] = nil
	}
	status := http.StatusOK
	if err != nil {
		wrong := new(refusal)
		if !errors.As(err, &wrong) {
			wrong = &refusal{http.StatusBadRequest, -32602, err.Error(), nil}
		}
		status, message["error"] = wrong.status, wrong
	} else {
		if result["resultType"] == nil {
			result["resultType"] = "complete"
		}
		result["_meta"] = map[string]any{"io.modelcontextprotocol/serverInfo": info}
		message["result"] = result
	}
	text, err := json.Marshal(message)
	if err != nil {
		http.Error(w, "the response cannot be encoded", http.StatusInternalServerError)
		return
	}
	if s.Stream && status == http.StatusOK {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(": the response follows\n\nevent: message\ndata: " + string(text) + "\n\n"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

var info = map[string]any{"name": "planted", "version": "1.0.0"}
