package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// roundsTool is the tool that is called without a task: the call is in no database, but in the state that its customer
// sends back with each answer. Its releases ask different questions.
const roundsTool = "link_accounts"

// invalidParams is the code of the error for a state that a server does not open.
const invalidParams = -32602

// link calls roundsTool, answers one question a round, and takes its time. Any server of any release can continue the
// call, as long as it has the key. It returns true if the call was completed.
func (c *customers) link(ctx context.Context, number int) bool {
	call := map[string]any{"name": roundsTool, "arguments": map[string]any{}}
	params := call
	var answered []string
	var came time.Time // the state
	for ctx.Err() == nil {
		var res rawclient.Result
		err := c.send(ctx, `{"elicitation":{}}`, "tools/call", params, &res)
		if r, ok := errors.AsType[*rawclient.Error](err); ok && r.Code == invalidParams {
			if !c.rotation.forgotten(came) {
				c.ledger.violate(kindLost, "call %d in rounds: a server refuses its state: %v", number, err)
			}
			return false
		}
		if err != nil {
			c.ledger.requestFailed(err)
			sleep(ctx, pause)
			continue
		}
		if res.Type != "input_required" {
			c.checkLinked(number, answered, res.IsError, res.Text())
			return true
		}
		var open string
		for key := range res.Requests {
			if slices.Contains(answered, key) {
				c.ledger.violate(kindLost, "call %d in rounds: it asks %q again", number, key)
			}
			open = max(open, key)
		}
		came = time.Now()
		sleep(ctx, time.Duration(number%5)*pause*3)
		answered = append(answered, open)
		params = res.Retry(call, map[string]any{open: rawclient.Accept(map[string]any{"name": account(number, open)})})
	}
	return false
}

// account is the answer to a question.
func account(number int, key string) string { return fmt.Sprintf("%s-%d", key, number) }

// checkLinked checks that the result names two accounts as they were answered: GitHub's, and the account of the last
// release that asked.
func (c *customers) checkLinked(number int, answered []string, failed bool, text string) {
	linked := 0
	for _, key := range answered {
		if strings.Contains(text, account(number, key)+" (") {
			linked++
		}
	}
	if failed || linked != 2 || !strings.Contains(text, account(number, "github_login")+" (GitHub)") {
		c.ledger.violate(kindWrong, "call %d in rounds: it answered %q, and the result is %s", number, answered, text)
	}
}
