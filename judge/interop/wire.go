package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// message is one JSON-RPC message as it passed between client and server.
type message struct {
	From string // "client" or "server"
	Data json.RawMessage
}

// wiretap is what passed in one cell.
type wiretap struct {
	mu       sync.Mutex
	messages []message
}

func (t *wiretap) add(from string, data []byte) {
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return
	}
	if !json.Valid(data) {
		data, _ = json.Marshal(string(data)) // such as an HTTP error in plain text
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages = append(t.messages, message{from, bytes.Clone(data)})
}

// proxy stands between a client and the HTTP server at target, until it is closed. It records a response when it has
// passed.
func (t *wiretap) proxy(target string) (*httptest.Server, string, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, "", err
	}
	path := to.Path
	to.Path = ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		t.add("client", body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var response bytes.Buffer
		defer func() { t.addResponse(w.Header(), response.Bytes()) }()
		(&httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
			FlushInterval: -1,
			ErrorLog:      log.New(io.Discard, "", 0), // clients that go away
			ModifyResponse: func(res *http.Response) error {
				res.Body = struct {
					io.Reader
					io.Closer
				}{io.TeeReader(res.Body, &response), res.Body}
				return nil
			},
		}).ServeHTTP(w, r)
	}))
	return server, server.URL + path, nil
}

func (t *wiretap) addResponse(header http.Header, body []byte) {
	s := rawclient.NewStream(&http.Response{Header: header, Body: io.NopCloser(bytes.NewReader(body))}, len(body))
	for data, err := s.NextBytes(); err == nil; data, err = s.NextBytes() {
		t.add("server", data)
	}
}

// tapCommand stands between a client and a stdio server: this program runs it as
//
//	interop tap FILE COMMAND...
func tapCommand(file string, command []string) error {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		copyLines("client", stdin, os.Stdin, out)
		stdin.Close()
	}()
	copyLines("server", os.Stdout, stdout, out)
	return cmd.Wait()
}

func copyLines(from string, w io.Writer, r io.Reader, record io.Writer) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			fmt.Fprintf(record, "%s %s\n", from, bytes.TrimSpace(line))
			if _, err := w.Write(line); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// load reads what tapCommand recorded.
func (t *wiretap) load(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if from, data, ok := strings.Cut(line, " "); ok {
			t.add(from, []byte(data))
		}
	}
	return nil
}
