package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestProxyRecords(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path + " " + string(body) {
		case `/mcp {"id":1}`:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"id":1,"result":{}}`)
		case `/mcp {"id":2}`:
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			fmt.Fprint(w, ": hello\n\nevent: message\ndata: {\"method\":\"a\"}\n\ndata:{\"id\":2}\n\n")
		default:
			http.Error(w, "what?", http.StatusBadRequest)
		}
	}))
	defer server.Close()
	tap := new(wiretap)
	proxy, url, err := tap.proxy(server.URL + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"id":1}`, `{"id":2}`, `{"id":3}`} {
		res, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(res.Body); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	proxy.Close()
	var got []string
	for _, m := range tap.messages {
		got = append(got, m.From+" "+string(m.Data))
	}
	want := []string{
		`client {"id":1}`, `server {"id":1,"result":{}}`,
		`client {"id":2}`, `server {"method":"a"}`, `server {"id":2}`,
		`client {"id":3}`, `server "what?"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
