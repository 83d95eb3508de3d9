// Bench measures what one interaction costs a server: the CPU time, user and system, that its process uses for two
// requests over HTTP on loopback, a call that asks and its retry with the answer.
//
//	cd internal/bench && go run . [-interactions 20000] [-batches 10]
//
// Each subject runs in a process of its own. Batches of load go to the subjects in turn within one run, and costs are
// shown as ratios to the floor: a net/http handler that reads the body and writes canned bytes of the same sizes.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/child"
)

// subjects in the order of the table; the first is the floor.
var subjects = []struct {
	name    string
	handler func() (http.Handler, error)
}{
	{"net/http floor", floor},
	{"askback", askbackServer},
}

func main() {
	interactions := flag.Int("interactions", 20_000, "interactions per subject")
	batches := flag.Int("batches", 10, "batches that they are spread over")
	clients := flag.Int("clients", 4, "concurrent clients")
	serve := flag.Int("serve", -1, "run as the server of this subject (used by the program itself)")
	flag.Parse()
	var err error
	if *serve >= 0 {
		err = runServer(*serve)
	} else {
		err = compare(*interactions, *batches, *clients)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runServer(subject int) error {
	handler, err := subjects[subject].handler()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return http.Serve(listener, handler)
}

// server is a subject in a process of its own.
type server struct {
	*child.Process
	url string
}

func start(subject int) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-serve", strconv.Itoa(subject))
	cmd.Stderr = os.Stderr
	p, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	addr, err := p.Wait(time.Minute)
	if err != nil {
		return nil, fmt.Errorf("the server of %q: %w", subjects[subject].name, err)
	}
	return &server{p, "http://" + addr + "/mcp"}, nil
}

// cpu is the time that the process has used so far.
func (s *server) cpu() (time.Duration, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.PID()))
	if err != nil {
		return 0, fmt.Errorf("CPU time is read from Linux's /proc: %w", err)
	}
	var sum time.Duration
	for _, task := range tasks {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", s.PID(), task.Name()))
		if err != nil {
			continue // the thread has ended
		}
		nanoseconds, err := strconv.ParseInt(strings.Fields(string(data))[0], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(nanoseconds)
	}
	return sum, nil
}

func compare(interactions, batches, clients int) error {
	servers := make([]*server, len(subjects))
	for i := range subjects {
		s, err := start(i)
		if err != nil {
			return err
		}
		defer s.Kill()
		servers[i] = s
	}
	costs := make([][]time.Duration, len(subjects))
	for batch := range batches + 1 { // the first one warms up
		for i, s := range servers {
			before, err := s.cpu()
			if err != nil {
				return err
			}
			if err := load(s.url, interactions/batches, clients); err != nil {
				return fmt.Errorf("%s: %w", subjects[i].name, err)
			}
			after, err := s.cpu()
			if err != nil {
				return err
			}
			if batch > 0 {
				costs[i] = append(costs[i], (after-before)/time.Duration(interactions/batches))
			}
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "server\tCPU per interaction\tratio to the floor\tbatches from\tto")
	for i, subject := range subjects {
		ratios := make([]float64, batches)
		for b := range ratios {
			ratios[b] = float64(costs[i][b]) / float64(costs[0][b])
		}
		slices.Sort(ratios)
		slices.Sort(costs[i])
		fmt.Fprintf(w, "%s\t%v\t%.2f\t%.2f\t%.2f\n", subject.name, costs[i][batches/2].Round(100*time.Nanosecond),
			ratios[batches/2], ratios[0], ratios[batches-1])
	}
	return w.Flush()
}

// load runs n interactions from several clients.
func load(url string, n, clients int) error {
	var wg sync.WaitGroup
	faults := make([]error, clients)
	for c := range clients {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			for i := c; i < n && faults[c] == nil; i += clients {
				_, _, faults[c] = interact(client, url)
			}
		})
	}
	wg.Wait()
	return errors.Join(faults...)
}

const (
	ask   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"},` + meta + `}}`
	retry = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"},"inputResponses":{"github_login":{"action":"accept","content":{"name":"octocat"}}},"requestState":%s,` + meta + `}}`
	meta  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	final = `Current weather in New York:`
)

// interact asks, and answers what the server asks back. It returns both responses.
func interact(client *http.Client, url string) (asked, done []byte, err error) {
	if asked, err = post(client, url, []byte(ask)); err != nil {
		return nil, nil, err
	}
	var state struct {
		Result struct {
			RequestState json.RawMessage `json:"requestState"`
		} `json:"result"`
	}
	if err := json.Unmarshal(asked, &state); err != nil || state.Result.RequestState == nil {
		return nil, nil, fmt.Errorf("no requestState in %s", asked)
	}
	done, err = post(client, url, fmt.Appendf(nil, retry, state.Result.RequestState))
	if err == nil && !bytes.Contains(done, []byte(final)) {
		err = fmt.Errorf("no final result in %s", done)
	}
	return asked, done, err
}

var headers = http.Header{
	"Content-Type":         {"application/json"},
	"Accept":               {"application/json, text/event-stream"},
	"Mcp-Protocol-Version": {"2026-07-28"},
	"Mcp-Method":           {"tools/call"},
	"Mcp-Name":             {"get_weather"},
}

func post(client *http.Client, url string, body []byte) ([]byte, error) {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = headers.Clone()
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// askbackServer has the weather tool of the proposal (SEP-2322): arguments validated, state sealed.
func askbackServer() (http.Handler, error) { return askbackWith(askback.Options{}) }

func askbackWith(opts askback.Options) (http.Handler, error) {
	type arguments struct {
		Location string `json:"location"`
	}
	type login struct {
		Name string `json:"name"`
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	opts.Logger = slog.New(slog.DiscardHandler)
	srv, err := askback.New(m, &opts)
	if err != nil {
		return nil, err
	}
	askback.AddTool(srv, &mcp.Tool{Name: "get_weather"}, func(ctx context.Context, call *askback.Call, in arguments) (string, error) {
		_, err := askback.Elicit[login](call, "github_login", "Please provide your GitHub username")
		if err != nil {
			return "", err
		}
		return "Current weather in " + in.Location + ":\nTemperature: 72°F\nConditions: Partly cloudy", nil
	})
	return srv.HTTPHandler(nil), nil
}

// floor reads the body and writes bytes that Askback's server wrote before.
func floor() (http.Handler, error) {
	real, err := askbackServer()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	go http.Serve(listener, real)
	asked, done, err := interact(http.DefaultClient, "http://"+listener.Addr().String())
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if len(body) > len(ask)+100 {
			_, _ = w.Write(done)
		} else {
			_, _ = w.Write(asked)
		}
	}), nil
}
