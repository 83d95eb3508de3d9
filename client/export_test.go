package client

import "testing"

// SetUnanswered changes how many bytes of a server's requests may wait for their answers, until the test ends.
func SetUnanswered(t *testing.T, most int64) {
	before := unanswered
	t.Cleanup(func() { unanswered = before })
	unanswered = most
}

// ReadRequired is readRequired within generous limits.
func ReadRequired(data []byte) []*Question {
	return readRequired(data, nil, &Limits{Questions: 8, Depth: 64})
}
