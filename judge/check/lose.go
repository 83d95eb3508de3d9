package main

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
)

// lose serves a handler over a connection that loses one response in ten: the request is served, and the connection
// ends without a response.
func lose(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rand.IntN(10) > 0 {
			h.ServeHTTP(w, r)
			return
		}
		if r.Header.Get("Mcp-Method") != "subscriptions/listen" { // which would last
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler)
	})
}
