package planted

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

var (
	reads   = map[string]any{"readOnlyHint": true}
	changes = map[string]any{"destructiveHint": true}
)

// targets are in the order of their lists.
func (s *server) targets() []target {
	guest, confirm, name := s.guest(), s.confirm(), s.name()
	return []target{
		{"tools/call", "book", "Asks for a guest, and then for the confirmation of a booking.", reads,
			[]question{guest, confirm}, false, false},
		{"tools/call", "move", "Asks for a guest, and then for the confirmation of a move.", reads,
			[]question{guest, confirm}, false, false},
		{"tools/call", "greet", "Asks for a name.", reads, []question{name}, false, false},
		{"tools/call", "thank", "Asks for a name.", reads, []question{name}, false, false},
		{"tools/call", "connect", "Sends the person to a page.", reads, []question{s.page()}, false, false},
		{"tools/call", "summarize", "Asks for a completion.", reads, []question{s.completion()}, false, false},
		{"tools/call", "redeem", "Asks for a guest, and redeems their voucher once.", changes,
			[]question{guest, confirm}, true, false},
		{"tools/call", "export", "Becomes a task, which asks for a guest and for a confirmation.", reads,
			[]question{guest, confirm}, false, true},
		{"tools/call", "clock", "Does not ask.", reads, nil, false, false},
		{"prompts/get", "book", "Asks for a guest, and then for the confirmation of a booking.", nil,
			[]question{guest, confirm}, false, false},
		{"resources/read", "planted://guests", "Asks for a guest, and then for a confirmation.", nil,
			[]question{guest, confirm}, false, false},
	}
}

func (s *server) dispatch(r *request) (map[string]any, error) {
	switch r.Method {
	case "server/discover":
		return map[string]any{"supportedVersions": []string{version}, "ttlMs": 0, "cacheScope": "private",
			"capabilities": map[string]any{"tools": map[string]any{}, "prompts": map[string]any{},
				"resources": map[string]any{}, "extensions": map[string]any{tasksExtension: map[string]any{}}}}, nil
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return s.list(r)
	case "tools/call", "prompts/get", "resources/read":
		return s.call(r)
	case "tasks/get", "tasks/update", "tasks/cancel":
		return s.task(r)
	case "tasks/list":
		if s.has("task-list-open") {
			return s.listTasks(r)
		}
	}
	return nil, &refusal{http.StatusNotFound, -32601, "Method not found", nil}
}

const pageSize = 5

// list returns a page of a list; the cursor is the number of its first entry.
func (s *server) list(r *request) (map[string]any, error) {
	if s.has("other-request") && r.Method == "tools/list" && can(r, "elicitation") && r.Answers == nil {
		return map[string]any{"resultType": "input_required", "requestState": s.sealed(s.newState(r)),
			"inputRequests": map[string]any{"name": s.name().ask(nil)}}, nil
	}
	member, _, _ := strings.Cut(r.Method, "/")
	if r.Method == "resources/templates/list" {
		member = "resourceTemplates"
	}
	all := []any{}
	for _, t := range s.targets() {
		if kind, _, _ := strings.Cut(t.method, "/"); kind != member {
			continue
		}
		switch city := "The city that is meant."; member {
		case "tools":
			property := map[string]any{"type": "string", "description": city}
			if s.Format != "" {
				property["format"] = s.Format
			}
			all = append(all, map[string]any{"name": t.name, "description": t.text, "annotations": t.hints,
				"inputSchema": map[string]any{"type": "object", "required": []string{"city"},
					"properties": map[string]any{"city": property}}})
		case "prompts":
			all = append(all, map[string]any{"name": t.name, "description": t.text,
				"arguments": []any{map[string]any{"name": "city", "description": city, "required": true}}})
		case "resources":
			all = append(all, map[string]any{"uri": t.name, "name": "guests", "description": t.text})
		}
	}
	from, err := strconv.Atoi("0" + r.Cursor)
	if err != nil || from > len(all) {
		return nil, invalid("the cursor is unknown")
	}
	result := map[string]any{"ttlMs": 0, "cacheScope": "private"}
	if to := from + pageSize; to < len(all) {
		result["nextCursor"] = strconv.Itoa(to)
	}
	result[member] = all[from:min(from+pageSize, len(all))]
	return result, nil
}

func (s *server) call(r *request) (map[string]any, error) {
	all := s.targets()
	i := slices.IndexFunc(all, func(t target) bool { return t.method == r.Method && t.name == r.target })
	if i < 0 {
		return nil, invalid("there is no " + strings.TrimRight(strings.Split(r.Method, "/")[0], "s") + " of this name")
	}
	t := all[i]
	if city, ok := r.arguments["city"].(string); r.Method != "resources/read" && (!ok || city == "") {
		return nil, invalid("the argument city is missing")
	} else if r.Method != "resources/read" && !s.mayAct(t, city) {
		return nil, invalid(city + " is not there, or is done already")
	}
	if t.becomes {
		return s.create(r, t)
	}
	return s.round(r, t)
}
