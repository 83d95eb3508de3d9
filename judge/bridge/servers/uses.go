package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// silence is how long nothing has to come for a call that was cancelled.
const silence = 500 * time.Millisecond

// everything uses what a session of server-everything holds: resources that a tool has made, and subscriptions.
func everything(ctx context.Context, t *transcript) {
	made := t.call(ctx, "gzip-file-as-resource", object{"name": "octocat.gz", "data": "data:text/plain,octocat"})
	t.readLinks(ctx, made)
	t.list(ctx, "resources/list", "resources", "uri")

	const uri = "demo://resource/dynamic/text/1"
	t.request(ctx, "subscribe", "resources/subscribe", object{"uri": uri})
	t.call(ctx, "toggle-subscriber-updates", object{})
	t.notice("notifications/resources/updated")
	t.cancelled(ctx, "trigger-long-running-operation", object{"duration": 30, "steps": 60})
	t.readLinks(ctx, made)
	t.atOnce(ctx, "trigger-long-running-operation", object{"duration": 0.3, "steps": 3},
		object{"duration": 0.6, "steps": 3}, object{"duration": 0.9, "steps": 3})
	t.atOnce(ctx, "gzip-file-as-resource", object{"name": "1.gz", "data": "data:text/plain,1"},
		object{"name": "2.gz", "data": "data:text/plain,2"}, object{"name": "3.gz", "data": "data:text/plain,3"})
	for i := range 3 {
		t.request(ctx, fmt.Sprint("read ", i), "resources/read",
			object{"uri": fmt.Sprintf("demo://resource/session/%d.gz", i+1)})
	}
	t.call(ctx, "toggle-subscriber-updates", object{})
	t.request(ctx, "unsubscribe", "resources/unsubscribe", object{"uri": uri})
}

// terminals uses the processes that a session of desktop-commander holds.
func terminals(ctx context.Context, t *transcript) {
	python := t.terminal(ctx)
	t.call(ctx, "interact_with_process", object{"pid": python, "input": "x = 40"})
	t.call(ctx, "interact_with_process", object{"pid": python, "input": "print(x + 2)"})
	t.cancelled(ctx, "start_process", object{"command": "sleep 30", "timeout_ms": 25_000})
	t.call(ctx, "interact_with_process", object{"pid": python, "input": "print(x + 3)"})
	second, third := t.terminal(ctx), t.terminal(ctx)
	t.atOnce(ctx, "interact_with_process", object{"pid": python, "input": "print('first', x)"},
		object{"pid": second, "input": "print('second', 7 * 6)"}, object{"pid": third, "input": "print('third', 6 * 9)"})
	t.call(ctx, "read_process_output", object{"pid": python, "timeout_ms": 500})
	for _, pid := range []any{python, second, third} {
		t.call(ctx, "force_terminate", object{"pid": pid})
	}
}

// terminal starts a Python that waits for input, and returns its process.
func (t *transcript) terminal(ctx context.Context) any {
	started := t.call(ctx, "start_process", object{"command": "python3 -iq", "timeout_ms": 5000})
	text, _ := pointer{"result", "content", "0", "text"}.in(started).(string)
	var pid int
	if _, after, ok := strings.Cut(text, "PID "); ok {
		_, _ = fmt.Sscan(after, &pid)
	}
	return pid
}

// readLinks reads the resources that a result links.
func (t *transcript) readLinks(ctx context.Context, outcome any) {
	content, _ := pointer{"result", "content"}.in(outcome).([]any)
	for _, block := range content {
		if uri := (pointer{"uri"}).in(block); uri != absent {
			t.request(ctx, fmt.Sprint("read the link ", uri), "resources/read", object{"uri": uri})
		}
	}
}

// notice waits for a notification.
func (t *transcript) notice(method string) {
	defer time.AfterFunc(patience, t.host.Close).Stop()
	for m := range t.host.Notices {
		if m.Method == method {
			t.add(method, decode(m.Params))
			return
		}
	}
	t.add(method, "it did not come")
}

// cancelled calls a tool, and cancels the call when a ping behind it has been answered. Nothing must come for it.
func (t *transcript) cancelled(ctx context.Context, tool string, arguments object) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	response, err := t.host.Post(waiting, whole(object{"jsonrpc": "2.0", "id": "tired", "method": "tools/call",
		"params": object{"name": tool, "arguments": arguments}}))
	t.request(ctx, "ping", "ping", object{})
	unsent := t.host.Notify(ctx, whole(object{"jsonrpc": "2.0", "method": "notifications/cancelled",
		"params": object{"requestId": "tired", "reason": "the octocat is tired"}}))
	t.request(ctx, "ping", "ping", object{})
	time.AfterFunc(silence, stop)
	t.add("cancel "+tool, outcome(response, errors.Join(err, unsent)))
}

// atOnce calls a tool several times at once.
func (t *transcript) atOnce(ctx context.Context, tool string, calls ...object) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var outcomes []func() any
	for _, arguments := range calls {
		response, err := t.host.Open(ctx, "tools/call", object{"name": tool, "arguments": arguments})
		outcomes = append(outcomes, func() any { return outcome(response, err) })
	}
	for i, outcome := range outcomes {
		t.add(fmt.Sprint("at once ", tool, " ", i), outcome())
	}
}
