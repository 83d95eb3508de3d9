package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/check/planted"
)

const (
	maxTime   = time.Minute
	maxMemory = 50 << 20
)

// judgeHostile checks servers that harm their client: each run has to end in its time with a report, and nothing may
// reach the server to which one of them redirects.
func judgeHostile(ctx context.Context, j *judge, w io.Writer) (wrong int) {
	for _, name := range planted.Hostiles {
		o, leaked := j.hostile(ctx, name)
		word, why := "ok   ", o.Stopped
		switch {
		case o.err != nil:
			word, why = "WRONG", o.err.Error()
		case leaked > 0:
			word, why = "WRONG", fmt.Sprint(leaked, " requests followed the redirect")
		case o.took > maxTime+5*time.Second:
			word, why = "WRONG", "it took too long"
		case o.memory > maxMemory:
			word, why = "WRONG", "it took too much memory"
		}
		if word == "WRONG" {
			wrong++
		}
		_, _ = fmt.Fprintf(w, "%s %-10s %d requests, %.1fs, %d MB; %s\n", word, name, o.Requests, o.took.Seconds(),
			o.memory>>20, why)
		for _, v := range o.Verdicts {
			if text, is := grave(v); is {
				_, _ = fmt.Fprintf(w, "      %.300s\n", text)
			}
		}
	}
	return wrong
}

func (j *judge) hostile(ctx context.Context, name string) (o outcome, leaked int32) {
	var reached atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer elsewhere.Close()
	web := httptest.NewServer(planted.Hostile(name, elsewhere.URL))
	defer web.Close()
	defer web.CloseClientConnections()
	o = j.run(ctx, web.URL+"/", nil, "--allow", "*")
	return o, reached.Load()
}
