// Command hostreport is a server that finds out what a host can do. It reports what the host declares, and what the
// host does with the questions of its tools: see docs/hosts.md.
//
//	hostreport [-http HOST:PORT] [FILE]
//
// A host starts it as it starts any other server, over standard input and output. The report goes to standard error.
// Many hosts hide the standard error of servers, so with FILE the report goes to the end of that file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/drain"
)

func main() {
	addr := flag.String("http", "", "`HOST:PORT` to listen on, instead of standard input and output")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: hostreport [-http HOST:PORT] [FILE]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 1 {
		flag.Usage()
		os.Exit(2)
	}
	var to io.Writer = os.Stderr
	if name := flag.Arg(0); name != "" {
		file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		check(err)
		to = file
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once

	r := newReport(to)
	srv := newServer(r)
	if *addr == "" {
		in := struct {
			io.Reader
			io.Closer
		}{io.TeeReader(os.Stdin, r), os.Stdin}
		served := make(chan error, 1)
		go func() { served <- srv.Run(ctx, &mcp.IOTransport{Reader: in, Writer: os.Stdout}) }()
		select {
		case err := <-served:
			check(err)
		case <-ctx.Done(): // nothing interrupts a read of standard input
		}
		return
	}
	listener, err := drain.Listen(*addr)
	check(err)
	r.say("listening at http://%s/mcp", listener.Addr())
	mux := http.NewServeMux()
	mux.Handle("/mcp", r.reading(srv.HTTPHandler(nil)))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	check(drain.Serve(ctx, listener, server, &drain.Options{Delay: -1}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func newServer(r *report) *askback.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "hostreport", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	type none struct{}
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	add := func(name, description string, ask func(call *askback.Call) error) {
		tool := &mcp.Tool{Name: name, Description: description, Annotations: readOnly}
		askback.AddTool(srv, tool, func(ctx context.Context, call *askback.Call, _ none) (string, error) {
			return r.asks(ctx, call, name, ask)
		})
	}
	add("ask_form", "Asks the user a question in a form", func(call *askback.Call) error {
		_, err := askback.Elicit[struct {
			Colour string `json:"colour" enum:"red|green|blue"`
		}](call, "colour", "Which colour do you like?")
		return err
	})
	add("ask_url", "Asks the user to open a page", func(call *askback.Call) error {
		return askback.ElicitURL(call, "page", "Please read this page.", "https://example.com/?call="+call.ID())
	})
	add("ask_model", "Asks the model of the host for a completion", func(call *askback.Call) error {
		_, err := askback.Sample(call, "greeting", &mcp.CreateMessageWithToolsParams{MaxTokens: 20,
			Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Say hello."}}}}})
		return err
	})
	add("ask_roots", "Asks the host for its roots", func(call *askback.Call) error {
		_, err := askback.Roots(call, "roots")
		return err
	})

	type wait struct {
		Seconds  int  `json:"seconds" jsonschema:"how long to wait"`
		Progress bool `json:"progress,omitempty" jsonschema:"report progress every ten seconds"`
	}
	tool := &mcp.Tool{Name: "wait", Description: "Waits for some seconds, and then returns", Annotations: readOnly}
	askback.AddTool(srv, tool, func(ctx context.Context, call *askback.Call, in wait) (string, error) {
		return r.waits(ctx, call, in.Seconds, in.Progress)
	})
	return srv
}

// asks runs ask, and reports how the host answered.
func (r *report) asks(ctx context.Context, call *askback.Call, tool string, ask func(*askback.Call) error,
) (string, error) {
	since := r.begun(call.ID())
	stop := context.AfterFunc(ctx, func() { r.say("%s: the host gave up after %s", tool, since()) })
	err := ask(call)
	stop()
	var declined *askback.DeclinedError
	var incapable *askback.CapabilityError
	switch {
	case errors.Is(err, askback.ErrInputRequired):
		r.say("%s: asked", tool)
		return "", err
	case errors.As(err, &incapable):
		r.say("%s: not asked, because the host does not declare %v", tool, incapable.Need)
		return "The host does not declare " + incapable.Need.String() + ".", nil
	case errors.As(err, &declined):
		r.say("%s: %q after %s", tool, declined.Action, since())
		return fmt.Sprintf("The answer is %q, after %s.", declined.Action, since()), nil
	case err != nil:
		r.say("%s: failed after %s: %v", tool, since(), err)
		return "", err
	}
	r.say("%s: answered after %s", tool, since())
	return "Answered after " + since() + ".", nil
}

// waits for some seconds, and reports if the host gives up before.
func (r *report) waits(ctx context.Context, call *askback.Call, seconds int, progress bool) (string, error) {
	since := r.begun(call.ID())
	done := time.After(time.Duration(seconds) * time.Second)
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			r.say("wait: the host waited for %s", since())
			return "Waited for " + since() + ".", nil
		case <-ctx.Done():
			r.say("wait: the host gave up after %s", since())
			return "", ctx.Err()
		case <-tick.C:
			if progress {
				_ = call.Progress(ctx, 0, 0, "still waiting") // a host may have gone: the next turn says so
			}
		}
	}
}
