package planted

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	taskTTL        = time.Minute
	maxTasks       = 1000
)

func declaresTasks(r *request) bool { return can(r, "extensions", tasksExtension) }

// create makes a task of a call.
func (s *server) create(r *request, t target) (map[string]any, error) {
	if !declaresTasks(r) && !s.has("task-undeclared") {
		return nil, lacks(map[string]any{"extensions": map[string]any{tasksExtension: map[string]any{}}})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, old := range s.tasks {
		if time.Since(old.created) > taskTTL {
			delete(s.tasks, id)
		}
	}
	if len(s.tasks) >= maxTasks {
		return nil, &refusal{http.StatusServiceUnavailable, -32603, "there are too many tasks", nil}
	}
	now := time.Now()
	s.latest++
	id := newID()
	switch s.Fault {
	case "task-numbers":
		id = strconv.Itoa(s.latest)
	case "task-times":
		id = "task-" + strconv.FormatInt(max(now.Unix(), int64(s.latest)), 10) + "-" + strconv.Itoa(s.latest)
	}
	city, _ := r.arguments["city"].(string)
	task := &taskState{id: id, owner: r.principal, city: city, status: "input_required", script: t.script,
		answers: map[string]string{}, created: now, updated: now}
	s.tasks[id] = task
	result := s.seen(task)
	delete(result, "inputRequests")
	result["resultType"] = "task"
	return result, nil
}

// seen returns a task as its owner sees it.
func (s *server) seen(t *taskState) map[string]any {
	result := map[string]any{"taskId": t.id, "status": t.status, "ttlMs": taskTTL.Milliseconds(), "pollIntervalMs": 50,
		"createdAt": t.created.UTC().Format(time.RFC3339Nano), "lastUpdatedAt": t.updated.UTC().Format(time.RFC3339Nano)}
	switch t.status {
	case "input_required":
		q := t.script[t.step]
		result["inputRequests"] = map[string]any{s.taskKey(q): q.ask(t.answers)}
	case "completed":
		if t.result != nil {
			result["result"] = t.result
		}
	}
	return result
}

func (s *server) taskKey(q question) string {
	if s.has("task-one-key") {
		return "question"
	}
	return q.key
}

func (s *server) task(r *request) (map[string]any, error) {
	if !declaresTasks(r) && !s.has("task-undeclared") {
		return nil, lacks(map[string]any{"extensions": map[string]any{tasksExtension: map[string]any{}}})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[r.TaskID]
	open := map[string]string{"tasks/get": "task-get-open", "tasks/update": "task-update-open",
		"tasks/cancel": "task-cancel-open"}[r.Method]
	if t == nil || t.owner != r.principal && !s.has(open) {
		if s.has("task-unknown") {
			return nil, &refusal{http.StatusInternalServerError, -32603, "no such key", nil}
		}
		return nil, invalid("there is no such task")
	}
	switch r.Method {
	case "tasks/get":
		return s.seen(t), nil
	case "tasks/cancel":
		if t.status == "input_required" || s.has("task-cancelled-late") {
			t.status, t.updated = "cancelled", time.Now()
		}
	case "tasks/update":
		s.update(t, r)
	}
	return map[string]any{}, nil
}

func (s *server) update(t *taskState, r *request) {
	if s.has("task-answered-twice") && t.status == "input_required" || s.has("task-answered-late") &&
		t.status == "completed" {
		for _, q := range t.script[:t.step] {
			if text, outcome := s.readAnswer(q, r.Answers); outcome == accepted {
				t.answers[q.key] = text
			}
		}
		if t.status == "completed" {
			t.result = s.taskResult(t)
		}
	}
	if t.status != "input_required" {
		return
	}
	q := t.script[t.step]
	asked := q
	asked.key = s.taskKey(q)
	text, outcome := s.readAnswer(asked, r.Answers)
	switch outcome {
	case again:
		return
	case refused:
		t.status, t.result = "completed", done(&request{}, "Nothing was done, as the person wished.")
	case accepted:
		t.answers[q.key] = text
		if t.step++; t.step == len(t.script) {
			t.status, t.result = "completed", s.taskResult(t)
		}
	}
	t.updated = time.Now()
}

func (s *server) taskResult(t *taskState) any {
	switch text := "Done: export " + t.city + ", " + said(t.answers) + "."; s.Fault {
	case "task-no-result":
		return nil
	case "task-text-result":
		return map[string]any{"text": text}
	default:
		return done(&request{}, text)
	}
}

// listTasks is no method of the extension, because it could not tell whose tasks are whose.
func (s *server) listTasks(*request) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []any{}
	for _, t := range s.tasks {
		all = append(all, s.seen(t))
	}
	slices.SortFunc(all, func(a, b any) int {
		return -compareTimes(a.(map[string]any), b.(map[string]any))
	})
	return map[string]any{"tasks": all}, nil
}

func compareTimes(a, b map[string]any) int {
	left, _ := time.Parse(time.RFC3339Nano, a["createdAt"].(string))
	right, _ := time.Parse(time.RFC3339Nano, b["createdAt"].(string))
	return left.Compare(right)
}
