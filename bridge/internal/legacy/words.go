package legacy

import (
	"encoding/json"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// label names a question in the words with which its call may end.
func label(q *client.Question) string {
	if q.Message != "" {
		return truncate(q.Message)
	}
	return q.Method
}

// truncate cuts a text of the server for a message.
func truncate(text string) string {
	const most = 300
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// firstText returns the first text of a tool's result.
func firstText(result json.RawMessage) string {
	for content := range strictjson.Elements(strictjson.Get(result, "content")) {
		if text, ok := strictjson.String(strictjson.Get(content, "text")); ok {
			return text
		}
	}
	return "nothing"
}
