package planted

import (
	"encoding/json"
	"net/http"
	"time"
)

// listenTime bounds a subscription.
const listenTime = time.Minute

// listen sends what changes of the tasks that a client names and owns.
func (s *server) listen(w http.ResponseWriter, r *http.Request, req *request) {
	if len(req.Notifications.TaskIDs) > 0 && !declaresTasks(req) {
		s.respond(w, req, nil, lacks(map[string]any{"extensions": map[string]any{tasksExtension: map[string]any{}}}))
		return
	}
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	send := func(message map[string]any) bool {
		message["jsonrpc"] = "2.0"
		text, err := json.Marshal(message)
		if err != nil {
			return false
		}
		_, err = w.Write([]byte("event: message\ndata: " + string(text) + "\n\n"))
		return err == nil && control.Flush() == nil
	}
	meta := map[string]any{"io.modelcontextprotocol/subscriptionId": req.ID}
	followed := []string{}
	s.mu.Lock()
	for _, id := range req.Notifications.TaskIDs {
		if t := s.tasks[id]; t != nil && (t.owner == req.principal || s.has("task-listen-open")) {
			followed = append(followed, id)
		}
	}
	s.mu.Unlock()
	ok := send(map[string]any{"method": "notifications/subscriptions/acknowledged",
		"params": map[string]any{"_meta": meta, "notifications": map[string]any{"taskIds": followed}}})
	last := map[string]time.Time{}
	end, tick := time.After(listenTime), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for ok {
		for _, id := range followed {
			s.mu.Lock()
			var seen map[string]any
			if t := s.tasks[id]; t != nil && !t.updated.Equal(last[id]) {
				last[id], seen = t.updated, s.seen(t)
			}
			s.mu.Unlock()
			if seen != nil {
				seen["_meta"] = meta
				ok = ok && send(map[string]any{"method": "notifications/tasks", "params": seen})
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		case <-end:
			send(map[string]any{"id": req.ID, "result": map[string]any{"resultType": "complete", "_meta": meta}})
			return
		}
	}
}
