package sdkfront

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Around params a line may be ambiguous, too. An answer has the id that can be told, or else none.
func TestAmbiguousLinesAreRefused(t *testing.T) {
	for line, id := range map[string]any{
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`:                                                               nil,
		`{"jsonrpc":"2.0","id":3,"i\u0064":4,"method":"ping"}`:                                                          nil,
		`{"jsonrpc":"2.0","id":5,"method":"ping","method":"tools/list"}`:                                                5.0,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"plain"},"params":{"name":"quiet"}}`:            6.0,
		`{"jsonrpc":"2.0","id":"` + "\xff" + `","method":"ping"}`:                                                       nil,
		`[{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"plain","name":"quiet"}}]`:                     nil,
		`{"jsonrpc":"2.0","id":9,"method":"ping","result":{},"result":{}}`:                                              9.0,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}`:                   nil,
		`{"jsonrpc":"2.0","id":8,"method":"ping","params":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`: 8.0,
	} {
		const next = `{"jsonrpc":"2.0","id":10,"method":"ping"}` + "\n"
		var passed, answered bytes.Buffer
		if err := filter(strings.NewReader(line+"\n"+next), &passed, &answered, bound.Limits{MessageBytes: 1 << 20, Depth: 64,
			Batch: 64}); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", line, err)
		}
		var got struct {
			ID    any
			Error struct{ Code int }
		}
		if err := json.Unmarshal(answered.Bytes(), &got); err != nil || got.Error.Code != -32700 || got.ID != id {
			t.Errorf("%s: got %s (%v), want -32700 with the id %v", line, &answered, err, id)
		}
		if passed.String() != next {
			t.Errorf("%s: passed on %s", line, &passed)
		}
	}
}

// A line may have as many bytes as the limit says, without the newline that ends it. The reader's buffer is no limit.
func TestLinesOfTheLimitPass(t *testing.T) {
	const buffer = 64 << 10
	for _, limit := range []int{100, buffer - 1, buffer, buffer + 1, 3 * buffer} {
		for _, end := range []string{"", "\n"} {
			for more, passes := range []bool{true, false} {
				ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
				line := ping + strings.Repeat(" ", limit+more-len(ping)) + end
				var passed, answered bytes.Buffer
				if err := filter(strings.NewReader(line), &passed, &answered, bound.Limits{MessageBytes: int64(limit), Depth: 64,
					Batch: 64}); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				refused := strings.Contains(answered.String(), fmt.Sprintf("the limit of %d bytes", limit))
				if refused == passes || strings.Contains(passed.String(), "ping") != passes {
					t.Errorf("%d bytes with the limit %d and the end %q: passed on %d bytes, answered %s", limit+more, limit, end,
						passed.Len(), &answered)
				}
			}
		}
	}
}

// A batch has at least one message, and no more than the limit.
func TestBatchesOfLinesAreBounded(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for n, want := range []string{"an empty batch", "", "", "the batch exceeds the limit of 2 messages"} {
		line := "[" + strings.TrimPrefix(strings.Repeat(","+ping, n), ",") + "]\n"
		var passed, answered bytes.Buffer
		err := filter(strings.NewReader(line), &passed, &answered, bound.Limits{MessageBytes: 1 << 20, Depth: 64, Batch: 2})
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if refused := want != ""; !strings.Contains(answered.String(), want) || (passed.String() == line) == refused {
			t.Errorf("%d messages: passed on %s, answered %s", n, &passed, &answered)
		}
	}
}

// No member of any message may be there twice, wherever it is.
func TestDuplicateMembersAreRefusedEverywhere(t *testing.T) {
	const next = `{"jsonrpc":"2.0","id":"next","method":"ping"}` + "\n"
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":{"b":1}},` +
			`"requestState":"forged","inputResponses":{"k":{"action":"accept","content":{"n":1}}},` +
			`"task":{"ttl":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"x","_meta":{"a":1}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"x"},"_meta":{"a":1}}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","data":{"a":1}}}`,
	} {
		n := 0
		for ambiguous := range duplicates([]byte(message)) {
			n++
			for _, line := range []string{ambiguous, "[" + ambiguous + "]"} {
				var passed, answered bytes.Buffer
				if err := filter(strings.NewReader(line+"\n"+next), &passed, &answered,
					bound.Limits{MessageBytes: 1 << 20, Depth: 64, Batch: 64}); !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v", line, err)
				}
				// The error is for the sender or, in place of its response, for whoever waits for that.
				if all := passed.String() + answered.String(); strings.Contains(all, ambiguous) ||
					strings.Count(all, "-32700") != 1 || !strings.HasSuffix(passed.String(), next) {
					t.Errorf("%s: passed on %s, answered %s", line, &passed, &answered)
				}
			}
		}
		if n < 5 {
			t.Errorf("%d members of %s", n, message)
		}
	}
}

// duplicates yields an object with each of its members, at any depth, twice.
func duplicates(object []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, value := range strictjson.Members(object) {
			if !yield(fmt.Sprintf("%s,%q:%s}", object[:len(object)-1], name, value)) {
				return
			}
			for inner := range duplicates(value) {
				if !yield(strings.Replace(string(object), string(value), inner, 1)) {
					return
				}
			}
		}
	}
}

// A server that is stopped waits for no request, because the SDK writes nothing more.
func TestAStoppedServerDoesNotWait(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stopped := make(chan struct{})
	close(stopped)
	c := &lineConnection{stopped: stopped, open: map[jsonrpc.ID]bool{{}: true}}
	if c.finish(ctx) != nil || ctx.Err() != nil {
		t.Error("the connection waits for a request that is open")
	}
}
