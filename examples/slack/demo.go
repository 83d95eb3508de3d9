package main

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// channel stands for the incoming webhook of a channel. It takes what Slack takes, and answers as Slack does. It is for
// trying the server and for its tests.
type channel func(message)

func (c channel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, why string) { w.WriteHeader(status); _, _ = io.WriteString(w, why) }
	if r.Method != http.MethodPost {
		refuse(http.StatusMethodNotAllowed, "method_not_allowed")
		return
	}
	var m message
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	d.DisallowUnknownFields()
	if r.Header.Get("Content-Type") != "application/json" || d.Decode(&m) != nil {
		refuse(http.StatusBadRequest, "invalid_payload")
		return
	}
	if m.Text == "" {
		refuse(http.StatusBadRequest, "no_text")
		return
	}
	for _, b := range m.Blocks {
		n := utf8.RuneCountInString(b.Text.Text)
		if b.Type != "section" || b.Text.Type != "plain_text" && b.Text.Type != "mrkdwn" || n == 0 || n > 3000 {
			refuse(http.StatusBadRequest, "invalid_blocks")
			return
		}
	}
	c(m)
	_, _ = io.WriteString(w, "ok")
}

// startChannel serves a channel that prints its messages.
func startChannel() (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: channel(func(m message) {
		var all []string
		for _, b := range m.Blocks {
			all = append(all, b.Text.Text)
		}
		log.Printf("Slack: %s", strings.Join(all, " | "))
	})}
	go func() { _ = server.Serve(l) }() // until stop
	return "http://" + l.Addr().String(), func() { _ = server.Close() }, nil
}
