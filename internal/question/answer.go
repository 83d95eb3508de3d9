package question

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Accept checks a client's raw answer to a question and returns the value to record.
type Accept func(raw []byte) ([]byte, error)

// AcceptFor returns the check of answers to a question as it was sent.
func AcceptFor(method string, params []byte) (Accept, error) {
	switch method {
	case input.MethodElicit:
		if mode, _ := strictjson.String(strictjson.Get(params, "mode")); mode == "url" {
			return acceptURL, nil
		}
		schema, err := form.Read(strictjson.Get(params, "requestedSchema"))
		return acceptForm(schema), err
	case input.MethodCreateMessage:
		return acceptSample(strictjson.Get(params, "tools") != nil || strictjson.Get(params, "toolChoice") != nil), nil
	case input.MethodListRoots:
		return acceptRoots, nil
	}
	return nil, errors.New("a question of unknown method: " + method)
}
func acceptForm(schema *form.Schema) Accept {
	return func(raw []byte) ([]byte, error) {
		action, err := Action(raw)
		if err != nil || action != "accept" {
			return recordAction(action), err
		}
		content, err := schema.Check(strictjson.Get(raw, "content"))
		if err != nil {
			return nil, err
		}
		return slices.Concat([]byte(`{"action":"accept","content":`), content, []byte("}")), nil
	}
}

func acceptURL(raw []byte) ([]byte, error) {
	action, err := Action(raw)
	return recordAction(action), err
}

func acceptSample(tools bool) Accept {
	return func(raw []byte) ([]byte, error) {
		var res mcp.CreateMessageWithToolsResult
		if err := json.Unmarshal(raw, &res); err != nil {
			return nil, errors.New("not a sampling result")
		}
		if res.Model == "" || len(res.Content) == 0 || res.Role != "user" && res.Role != "assistant" {
			return nil, errors.New("a sampling result needs role, content and model")
		}
		for _, content := range res.Content {
			if _, ok := content.(*mcp.ToolUseContent); ok && !tools {
				return nil, errors.New("the sampling result uses tools, but none were offered")
			}
		}
		return raw, nil
	}
}

func acceptRoots(raw []byte) ([]byte, error) {
	var res mcp.ListRootsResult
	if err := json.Unmarshal(raw, &res); err != nil {
		return nil, errors.New("not a list of roots")
	}
	if res.Roots == nil {
		return nil, errors.New("a list of roots needs its member roots")
	}
	for _, root := range res.Roots {
		if root == nil {
			return nil, errors.New("a root is null")
		}
		if u, err := url.Parse(root.URI); err != nil || u.Scheme != "file" {
			return nil, errors.New("a root needs a file URI")
		}
	}
	return raw, nil
}

// Action returns the action of an elicitation result: "accept", "decline" or "cancel".
func Action(result []byte) (string, error) {
	action, _ := strictjson.Text(strictjson.Get(result, "action"))
	switch string(action) {
	case "accept":
		return "accept", nil
	case "decline":
		return "decline", nil
	case "cancel":
		return "cancel", nil
	}
	return "", errors.New(`an elicitation result needs the action "accept", "decline" or "cancel"`)
}

func recordAction(action string) []byte { return []byte(`{"action":"` + action + `"}`) }

// After decodes a value of [WithAfter]. Shown is false for a value of [NotShown].
func After(result []byte) (after time.Duration, shown, ok bool) {
	member := strictjson.Get(result, "after")
	if member == nil { // the answer is an accept, as nearly all are
		return 0, true, false
	}
	ms, err := strconv.ParseInt(string(member), 10, 64)
	return time.Duration(ms) * time.Millisecond, string(strictjson.Get(result, "shown")) != "false", err == nil && ms >= 0
}

// NotShown returns the record of an elicitation that nobody accepted and nobody can have seen.
func NotShown(result []byte, after time.Duration) []byte {
	action, _ := Action(result)
	return fmt.Appendf(nil, `{"action":%q,"after":%d,"shown":false}`, action, after.Milliseconds())
}

// IsBlank reports whether the answer to a form is empty: it accepts without a value, or has no action.
func IsBlank(raw []byte) bool {
	if action, _ := strictjson.String(strictjson.Get(raw, "action")); action != "accept" {
		return action == ""
	}
	for range strictjson.Members(strictjson.Get(raw, "content")) {
		return false
	}
	return true
}

// WithAfter returns the result of an elicitation that nobody accepted with the time after which it came, and any other
// result as it is. Less than zero means that nobody knows the time. What the client itself says of it is left out.
func WithAfter(result []byte, after time.Duration) []byte {
	switch action, _ := Action(result); action {
	case "decline", "cancel":
		if after < 0 {
			return recordAction(action)
		}
		return fmt.Appendf(nil, `{"action":%q,"after":%d}`, action, after.Milliseconds())
	}
	return result
}
