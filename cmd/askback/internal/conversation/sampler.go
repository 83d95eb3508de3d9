package conversation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/strictjson"
)

const maxSample = 4 << 20 // bytes

// sampler is the command line of a program that stands for a model: it reads the parameters of the request and prints a
// text or a result.
type sampler []string

// sample runs the program for a question. What the program writes to standard error goes to the console.
func (s sampler) sample(ctx context.Context, q *client.Question,
	console *console) (*mcp.CreateMessageWithToolsResult, error) {
	cmd := exec.CommandContext(ctx, s[0], s[1:]...)
	cmd.Stdin = bytes.NewReader(q.Params)
	complaints := &cli.LineWriter{Each: func(line string) { console.line("%s", line) }}
	cmd.Stderr = complaints
	cmd.WaitDelay = time.Second
	out := &limitedBuffer{most: maxSample}
	cmd.Stdout = out
	err := cmd.Run()
	complaints.Flush()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case out.full:
		return nil, fmt.Errorf("the sampler %s printed more than %d bytes", s[0], maxSample)
	case err != nil:
		return nil, fmt.Errorf("the sampler %s failed for %q: %w", s[0], q.Key, err)
	}
	res, err := parseSample(strings.TrimRight(out.String(), "\r\n"), filepath.Base(s[0]))
	if err != nil {
		return nil, fmt.Errorf("the sampler %s, for %q: %w", s[0], q.Key, err)
	}
	return res, nil
}

// limitedBuffer fails when it would hold more than most bytes.
type limitedBuffer struct {
	bytes.Buffer
	most int
	full bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		b.full = true
		return 0, errors.New("too much output")
	}
	return b.Buffer.Write(p)
}

func parseSample(text, model string) (*mcp.CreateMessageWithToolsResult, error) {
	raw := []byte(strings.TrimSpace(text))
	res := &mcp.CreateMessageWithToolsResult{}
	if strictjson.Check(raw, cli.MaxDepth) == nil {
		if said, ok := strictjson.String(raw); ok {
			text = said
		} else if strictjson.Get(raw, "content") != nil {
			if err := json.Unmarshal(raw, res); err != nil {
				return nil, fmt.Errorf("it is not a sampling result: %w", err)
			}
		}
	}
	if res.Content == nil {
		res.Content, res.StopReason = []mcp.Content{&mcp.TextContent{Text: text}}, "endTurn"
	}
	res.Role, res.Model = cmp.Or(res.Role, "assistant"), cmp.Or(res.Model, model)
	return res, nil
}
