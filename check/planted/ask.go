package planted

// refuse answers a request whose state is refused.
func (s *server) refuse(r *request, t target) (map[string]any, error) {
	const text = "The state does not belong to this request, or its time is over."
	switch {
	case s.Refusal == "afresh":
		return s.ask(r, t, s.newState(r))
	case s.Refusal == "text", s.Refusal == "tool-error" && t.method == "tools/call":
		result := done(r, text)
		if s.Refusal == "tool-error" {
			result["isError"] = true
		}
		return result, nil
	}
	return nil, invalid(text)
}

// ask returns the result that asks the question at which a call has arrived.
func (s *server) ask(r *request, t target, st *state) (map[string]any, error) {
	q := t.script[st.Step]
	if err := s.mayAsk(r, q); err != nil {
		return nil, err
	}
	if s.has("empty-round") && t.name == "thank" {
		return map[string]any{"resultType": "input_required"}, nil
	}
	asked := q.ask(st.Answers)
	if s.has("url-token") && q.key == "page" {
		asked["params"].(map[string]any)["url"] = "https://connect.example.com/start?access_token=" + r.token
	}
	return map[string]any{"resultType": "input_required", "requestState": s.sealed(st),
		"inputRequests": map[string]any{q.key: asked}}, nil
}
