// Command cost measures what passes through the bridge without asking:
//
//	go run ./judge/bridge/cost                     # about a minute
//	go run ./judge/bridge/cost -profile FILE       # and a CPU profile of a bridge under the same load
//
// A server with tools that ask nothing is a process of its own, and so is a bridge in front of it. In every round each
// kind of call is made to the server directly, and then as often through the bridge. The CPU time of the bridge alone
// for a call is compared with the CPU time of the server when it is called directly, and with a proxy that only copies
// bytes, in net/http. It exits with 1 if the median of a ratio of the bridge is above 2.5.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/judge/bridge/rig"
	"github.com/askback-mcp/askback/judge/process"
)

// bar is the highest ratio that is allowed.
const bar = 2.5

// large is a text of 100 KB.
var large = strings.Repeat("All work and no play. ", 100<<10/22)

// shape is a kind of call.
type shape struct {
	title     string
	tool      string
	arguments map[string]any
	calls     int // in a turn
}

var shapes = []shape{
	{"small text", "echo", map[string]any{"text": "hello"}, 4000},
	{"result of 100 KB", "read", map[string]any{}, 600},
	{"arguments of 100 KB", "write", map[string]any{"text": large}, 600},
}

func main() {
	rounds := flag.Int("rounds", 7, "`NUMBER` of rounds that are counted")
	profile := flag.String("profile", "", "`FILE` for a CPU profile of a bridge")
	flag.Parse()
	ctx := context.Background()
	var err error
	switch flag.Arg(0) {
	case "server":
		err = serve(ctx)
	case "proxy":
		err = serveProxy(ctx, flag.Arg(1))
	case "bridge":
		err = serveBridge(ctx, flag.Arg(1), flag.Arg(2))
	default:
		err = run(ctx, *rounds, *profile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

type text struct {
	Text string `json:"text"`
}

// serve is the server behind the bridge.
func serve(ctx context.Context) error {
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil), nil)
	if err != nil {
		return err
	}
	askback.AddTool(srv, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *askback.Call, in text) (string, error) {
		return in.Text, nil
	})
	askback.AddTool(srv, &mcp.Tool{Name: "read"}, func(context.Context, *askback.Call, struct{}) (string, error) {
		return large, nil
	})
	askback.AddTool(srv, &mcp.Tool{Name: "write"}, func(_ context.Context, _ *askback.Call, in text) (string, error) {
		return fmt.Sprint(len(in.Text)), nil
	})
	return process.Serve(ctx, new(http.Server), srv.HTTPHandler(nil))
}

// serveProxy is a proxy that understands nothing of what it passes on: about the least that something in between costs.
func serveProxy(ctx context.Context, server string) error {
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	pass := func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, server, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header = r.Header
		res, err := web.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if body, err = io.ReadAll(res.Body); err != nil {
			return err
		}
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		_, err = w.Write(body)
		return err
	}
	return process.Serve(ctx, new(http.Server), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := pass(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}))
}

func run(ctx context.Context, rounds int, profile string) error {
	dir, err := os.MkdirTemp("", "cost-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd, err := process.Self("server")
	if err != nil {
		return err
	}
	server, err := process.StartServer(cmd)
	if err != nil {
		return err
	}
	defer server.Stop()
	bridge, err := startBridge(ctx, dir, server.URL)
	if err != nil {
		return err
	}
	defer bridge.Stop()
	if cmd, err = process.Self("proxy", server.URL); err != nil {
		return err
	}
	proxy, err := process.StartServer(cmd)
	if err != nil {
		return err
	}
	defer proxy.Stop()
	ratios, err := compare(ctx, []*process.Server{server, bridge, proxy}, rounds)
	if err != nil {
		return err
	}
	if profile != "" {
		return profileBridge(ctx, dir, server.URL, profile)
	}
	if slices.Max(ratios) > bar {
		return fmt.Errorf("a ratio is above %v", bar)
	}
	return nil
}

// startBridge starts the command.
func startBridge(ctx context.Context, dir, server string) (*process.Server, error) {
	program, err := process.Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	b, err := rig.NewBridge(program, dir, "", server)
	if err != nil {
		return nil, err
	}
	p, url, err := b.Start()
	return &process.Server{Process: p, URL: url}, err
}

// compare prints the costs of all shapes, at the server itself, in the bridge and in the proxy. It returns the medians
// of the bridge's ratios.
func compare(ctx context.Context, at []*process.Server, rounds int) (medians []float64, err error) {
	turns := make([][][3]float64, len(shapes)) // by shape and round, in microseconds a call
	for round := range rounds + 1 {            // the first one warms up
		for i, s := range shapes {
			var turn [3]float64
			for j, p := range at {
				if turn[j], err = measure(ctx, p, s); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", p.URL, s.title, err)
				}
			}
			if round > 0 {
				turns[i] = append(turns[i], turn)
			}
		}
	}
	for i, s := range shapes {
		bridge, proxy := ratios(turns[i], 1), ratios(turns[i], 2)
		fmt.Printf("%-20s server %4.0f µs; bridge %.2f times (%.2f to %.2f in %d rounds), proxy %.2f times\n", s.title,
			sorted(turns[i], func(t [3]float64) float64 { return t[0] })[rounds/2],
			bridge[rounds/2], bridge[0], bridge[rounds-1], rounds, proxy[rounds/2])
		medians = append(medians, bridge[rounds/2])
	}
	return medians, nil
}

// ratios returns what a call costs in one place, compared with the server itself in the same round.
func ratios(turns [][3]float64, place int) []float64 {
	return sorted(turns, func(t [3]float64) float64 { return t[place] / t[0] })
}

func sorted(turns [][3]float64, value func([3]float64) float64) []float64 {
	values := make([]float64, len(turns))
	for i, t := range turns {
		values[i] = value(t)
	}
	slices.Sort(values)
	return values
}

// measure makes the calls of a turn, and returns the CPU time of the process for each, in microseconds.
func measure(ctx context.Context, p *process.Server, s shape) (float64, error) {
	before, err := p.CPU()
	if err != nil {
		return 0, err
	}
	if err := load(ctx, p.URL, s); err != nil {
		return 0, err
	}
	after, err := p.CPU()
	return float64(after-before) / float64(time.Microsecond) / float64(s.calls), err
}

// clients call at once.
const clients = 4

func load(ctx context.Context, url string, s shape) error {
	params := map[string]any{"name": s.tool, "arguments": s.arguments}
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer web.CloseIdleConnections()
	c := &rawclient.Client{URL: url, HTTP: web, Capabilities: `{"elicitation":{}}`}
	failed := make([]error, clients)
	var working sync.WaitGroup
	for i := range clients {
		working.Go(func() {
			for range s.calls / clients {
				var result rawclient.Result
				err := c.Call(ctx, "tools/call", params, &result)
				if err == nil && (result.IsError || result.Text() == "") {
					err = fmt.Errorf("the result is %.100q", result.Text())
				}
				if err != nil {
					failed[i] = err
					return
				}
			}
		})
	}
	working.Wait()
	return errors.Join(failed...)
}

// profileBridge writes a CPU profile of a bridge under the load of all shapes in turn.
func profileBridge(ctx context.Context, dir, server, file string) error {
	cmd, err := process.Self("bridge", server, filepath.Join(dir, "profiled.db"))
	if err != nil {
		return err
	}
	bridge, err := process.StartServer(cmd)
	if err != nil {
		return err
	}
	defer bridge.Stop()
	for i, s := range shapes {
		const seconds = 5
		profiled := make(chan error, 1)
		go func() {
			data, err := bridge.Get(ctx, fmt.Sprint("/debug/pprof/profile?seconds=", seconds))
			if err == nil {
				err = os.WriteFile(fmt.Sprintf("%s.%d", file, i), data, 0o644)
			}
			profiled <- err
		}()
		for end := time.Now().Add(seconds * time.Second); time.Now().Before(end); {
			if err := load(ctx, bridge.URL, s); err != nil {
				return err
			}
		}
		if err := <-profiled; err != nil {
			return err
		}
	}
	return nil
}
