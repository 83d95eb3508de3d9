// Command schemas measures what the schemas of a hostile server cost those who use it, and those who use another one:
//
//	go run ./judge/bridge/schemas               # 500 schemas, about 20 minutes on two processors
//	go run ./judge/bridge/schemas -number 44    # two of each kind
//
// The schemas are drawn: references, circles, parts that double, patterns, deep, wide and large ones. Each is the input
// schema of a tool, and the form of another one, of a server behind `askback bridge --approve --approve-edit`. An
// honest server is behind it, too. For each of them:
//
//   - `askback call` calls the tool, with arguments to be checked;
//   - a host calls the tool through the bridge; a person opens the card at `askback inbox serve`, and edits the
//     arguments until the call ends;
//   - a host calls the tool that asks by the form, and the person declines what reaches the inbox.
//
// Each of these has to end in words, and to come to its end or to the next question within 2 seconds. No process may
// take 100 MB more than it had before. All the time somebody calls a tool of the honest server, and has to be answered
// within a second. It exits with 1 if any of this does not hold. It reads memory from Linux's /proc.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/askback-mcp/askback/internal/test/hostile"
	"github.com/askback-mcp/askback/judge/process"
)

func main() {
	number := flag.Int("number", 500, "`NUMBER` of schemas")
	seed := flag.Uint64("seed", rand.Uint64(), "`SEED` of the schemas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	found, err := judge(ctx, *number, *seed)
	stop()
	if found != nil {
		fmt.Println(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
	}
	if err != nil || len(found.violations) > 0 {
		os.Exit(1)
	}
}

// judge builds the command, and judges so many schemas, each kind behind a bridge of its own.
func judge(ctx context.Context, number int, seed uint64) (*findings, error) {
	dir, err := os.MkdirTemp("", "schemas-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program, err := process.Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	found := newFindings(number, seed)
	draws, kinds := rand.New(rand.NewPCG(seed, 0)), len(hostile.Kinds)
	for i, kind := range hostile.Kinds {
		n := number*(i+1)/kinds - number*i/kinds
		if n == 0 {
			continue
		}
		if err := found.batch(ctx, program, dir, draw(draws, kind, n)); err != nil {
			return found, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return found, context.Cause(ctx)
}
