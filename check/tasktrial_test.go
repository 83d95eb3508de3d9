package check

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/redact"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A seenTask is a response about a task, which a test changes.
type seenTask struct {
	method, id string
	second     bool
	refused    bool
	message    map[string]any
	result     map[string]any // of message; nil if it is refused
}

// changed is a server of package planted whose responses about tasks are changed.
func changed(t *testing.T, fault string, change func(*seenTask)) string {
	t.Helper()
	server := planted.New(planted.Options{Fault: fault})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "subscriptions/listen" {
			server.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, r)
		seen := &seenTask{method: r.Header.Get("Mcp-Method"), id: r.Header.Get("Mcp-Name"),
			second: r.Header.Get("Authorization") == "Bearer "+planted.Bob}
		if err := json.Unmarshal(recorder.Body.Bytes(), &seen.message); err != nil {
			t.Error(err)
		}
		seen.result, _ = seen.message["result"].(map[string]any)
		seen.refused = seen.result == nil
		if change(seen); seen.refused && seen.result != nil {
			delete(seen.message, "error")
			recorder.Code, seen.message["result"] = http.StatusOK, seen.result
		}
		text, err := json.Marshal(seen.message)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(text)
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	return web.URL
}

// stale returns each time what a task was when it was read before, as a server does whose reads are behind.
func stale() func(*seenTask) {
	before := map[string]map[string]any{}
	return func(s *seenTask) {
		if s.method != "tasks/get" || s.refused {
			return
		}
		now := s.result
		if old := before[s.id]; old != nil {
			s.message["result"] = old
		}
		before[s.id] = now
	}
}

// What counts is shown by a proof, and what cannot be shown is not judged.
func TestControlsOfTasks(t *testing.T) {
	t.Parallel()
	getOfSecond := func(s *seenTask) bool { return s.method == "tasks/get" && s.second }
	for name, test := range map[string]struct {
		fault, probe string
		change       func(*seenTask)
		level        findings.Level
		proof        string
	}{
		"a status is a proof": {"task-get-open", "task-get", func(s *seenTask) {
			if getOfSecond(s) && !s.refused {
				delete(s.result, "inputRequests")
			}
		}, findings.Fail, "difference"},
		"a status for every ID is none": {"", "task-get", func(s *seenTask) {
			if s.method == "tasks/get" && s.refused {
				s.result = map[string]any{"taskId": s.id, "status": "input_required"}
			}
		}, findings.NotJudged, ""},
		"another status is none": {"", "task-get", func(s *seenTask) {
			if s.method == "tasks/get" && s.refused {
				s.result = map[string]any{"taskId": s.id, "status": "failed"}
			}
		}, findings.Pass, ""},
		"an acknowledgement is none": {"", "task-update", func(s *seenTask) {
			if s.refused && s.method == "tasks/update" {
				s.result = map[string]any{"resultType": "complete"}
			}
		}, findings.Pass, ""},
		"a cancellation that is not seen is no control": {"task-cancel-open", "task-cancel", func(s *seenTask) {
			if s.method == "tasks/get" && !s.refused {
				s.result["status"] = "working"
			}
		}, findings.NotJudged, ""},
		"a second identity without tasks of its own": {"task-get-open", "task-get", func(s *seenTask) {
			if s.method == "tools/call" && s.second {
				delete(s.message, "result")
				s.message["error"] = map[string]any{"code": -32000, "message": "not for you"}
			}
		}, findings.NotJudged, ""},
		"a result that does not show the answers": {"task-answered-twice", "task-answered-twice", func(s *seenTask) {
			if s.method == "tasks/get" && !s.refused && s.result["result"] != nil {
				s.result["result"] = map[string]any{"content": []any{}}
			}
		}, findings.NotJudged, ""},
		"a task that expires after its end": {"", "task-terminal", func() func(*seenTask) {
			reads := map[string]int{}
			return func(s *seenTask) {
				if s.method != "tasks/get" || s.refused || s.result["status"] != "completed" {
					return
				}
				if reads[s.id]++; reads[s.id] > 2 {
					s.result["status"] = "failed"
				}
			}
		}(), findings.Pass, ""},
		"an answer that is seen late":        {"task-update-open", "task-update", stale(), findings.Fail, "canary"},
		"a cancellation that is seen late":   {"task-cancel-open", "task-cancel", stale(), findings.Fail, "difference"},
		"an end that is seen late":           {"", "task-terminal", stale(), findings.Pass, ""},
		"an answer that is never to be seen": {"", "task-update", stale(), findings.Pass, ""},
		"a code of HTTP alone is a suspicion": {"task-unknown", "task-missing", func(s *seenTask) {
			if s.method == "tasks/get" && s.refused {
				s.message["error"] = map[string]any{"message": "no"}
			}
		}, findings.Warn, "suspicion"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := runPatiently(t.Context(), Options{
				Server: Endpoint{URL: changed(t, test.fault, test.change), Header: bearer(planted.Alice)},
				Second: bearer(planted.Bob), Allow: []string{"*"}, MaxRequests: 5000, Only: []string{test.probe},
			})
			expect.Check(t, err)
			if len(report.Verdicts) != 1 || report.Verdicts[0].Level != test.level || report.Verdicts[0].Proof != test.proof {
				t.Errorf("%+v; stopped: %q", report.Verdicts, report.Stopped)
			}
		})
	}
}

// A server may say the ID of a task in its errors, and no report has it.
func TestIDsOfTasksAreRedacted(t *testing.T) {
	t.Parallel()
	var ids []string
	url := changed(t, "", func(s *seenTask) {
		if s.refused && s.method == "tasks/get" {
			ids = append(ids, s.id)
			s.message["error"] = map[string]any{"code": -32602, "message": "there is no task " + s.id}
		}
	})
	report, err := runPatiently(t.Context(), Options{Server: Endpoint{URL: url, Header: bearer(planted.Alice)},
		Second: bearer(planted.Bob), Allow: []string{"*"}, MaxRequests: 5000, Only: []string{"task-get", "task-missing"}})
	expect.Check(t, err)
	text := expect.Must(json.Marshal(report))(t)
	for _, id := range ids {
		if bytes.Contains(text, []byte(id)) {
			t.Errorf("%s is in the report: %s", id, text)
		}
	}
	if len(ids) < 6 || !bytes.Contains(text, []byte("there is no task "+redact.Redacted)) {
		t.Errorf("%d IDs: %s", len(ids), text)
	}
}
