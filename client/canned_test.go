package client_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
)

const (
	cannedState = "v4.local." +
		"c3RhdGUgb2YgYSBjYWxsIHRoYXQgYXNrcyBvbmNlLCBhcyBsb25nIGFzIGEgc2VhbGVkIG9uZSBpcyBpbiBhbiBvcmRp" +
		"bmFyeSBjYWxsIG9mIGEgdG9vbA"
	cannedAsk = `{"resultType":"input_required","inputRequests":{"resolution":{"method":"elicitation/create",` +
		`"params":{"mode":"form",` +
		`"message":"How was it resolved?","requestedSchema":{"type":"object","properties":{"resolution":{"type":"string",` +
		`"enum":["fixed","duplicate","wontfix"]}},"required":["resolution"]}}}},"requestState":"` + cannedState + `"}`
	cannedEnd = `{"resultType":"complete","content":[{"type":"text","text":"closed #4711 as a duplicate"}]}`
)

// canned answers every request with bytes that are ready.
func canned(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	result := cannedAsk
	switch {
	case bytes.Contains(body, []byte(`"server/discover"`)):
		result = discovered
	case bytes.Contains(body, []byte(cannedState)):
		result = cannedEnd
	}
	_, id, _ := bytes.Cut(body, []byte(`"id":`))
	id = id[:bytes.IndexByte(id, ',')]
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"jsonrpc":"2.0","id":`)
	w.Write(id)
	io.WriteString(w, `,"result":`+result+`}`)
}

// serveCanned is the canned server as a process of its own. It ends with its input.
func serveCanned() {
	s := httptest.NewServer(http.HandlerFunc(canned))
	fmt.Println(s.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
