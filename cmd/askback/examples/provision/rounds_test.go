package provision_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/provision"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// web1 is a call of a client without tasks.
var web1 = harness.Request{Target: "provision_vm", Arguments: `{"name": "web-1", "diskMiB": 2}`}

// second is the round that answers what the first one asked.
func second(asked *harness.Response) harness.Request {
	r := web1
	r.Responses = `{"network": {"action": "accept", "content": {"network": "nat"}}}`
	r.State = asked.Result.State
	return r
}

func TestALastRoundSentAgainHasTheSameResult(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	h := serve(t, host)
	asked := web1.Send(t, h)
	var results []provision.Outcome
	for range 2 {
		var got struct {
			Result struct{ StructuredContent provision.Outcome }
		}
		if err := json.Unmarshal([]byte(second(asked).Send(t, h).Raw), &got); err != nil {
			t.Fatal(err)
		}
		checkMachine(t, got.Result.StructuredContent, filepath.Join(host.Root, "web-1"))
		results = append(results, got.Result.StructuredContent)
	}
	if diff := cmp.Diff(results[0], results[1]); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
	// The response was not lost, but the server cannot know: what the state does not have is done again.
	if diff := cmp.Diff(slices.Concat(allSteps, allSteps[4:]), effects(t, host)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestWhatWasMadeIsCheckedBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		meddle func(dir string) error
		want   string
	}{
		{"removed", os.RemoveAll, "nothing is left of web-1, somebody removed it meanwhile: call provision_vm again"},
		{"another's", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "claim"), []byte("another call"), 0o600)
		}, "another call began to provision web-1 at "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := newHost(t)
			h := serve(t, host)
			asked := web1.Send(t, h)
			if err := tt.meddle(filepath.Join(host.Root, "web-1")); err != nil {
				t.Fatal(err)
			}
			before := slices.DeleteFunc(entries(t, host), func(name string) bool { return strings.HasPrefix(name, ".work-") })
			got := second(asked).Send(t, h)
			if !got.Result.IsError || !strings.Contains(got.Text(t), tt.want) {
				t.Errorf("got %q, want the tool error %q", got.Text(t), tt.want)
			}
			wantOnly(t, host, before...)
		})
	}
}

func TestAFailureLeavesNothing(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	h := serve(t, host)
	asked := web1.Send(t, h)
	// A directory where a file is to be written.
	if err := os.MkdirAll(filepath.Join(host.Root, "web-1", "boot.log", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := second(asked).Send(t, h)
	if !got.Result.IsError || !strings.HasPrefix(got.Text(t), "boot: ") {
		t.Errorf("got %q, want a tool error", got.Text(t))
	}
	wantOnly(t, host, "effects.log")
}

func TestOfManyCallsOneGetsTheName(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	h := serve(t, host)
	responses := make([]*harness.Response, 8)
	var all sync.WaitGroup
	for i := range responses {
		all.Go(func() { responses[i] = web1.Send(t, h) })
	}
	all.Wait()
	var winners int
	for _, r := range responses {
		switch {
		case r.Result.State != "":
			winners++
			if got := second(r).Send(t, h); got.Result.IsError {
				t.Errorf("got %q", got.Text(t))
			}
		case !r.Result.IsError || !strings.Contains(r.Text(t), "another call began to provision web-1 at "):
			t.Errorf("got %q", r.Text(t))
		}
	}
	if winners != 1 {
		t.Errorf("%d calls got the name", winners)
	}
	wantOnly(t, host, "effects.log", "web-1")
}

// A call in rounds that is given up leaves its machine behind; the next one is told what to do.
func TestACallThatIsGivenUpKeepsItsName(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	h := serve(t, host)
	web1.Send(t, h)
	dir := filepath.Join(host.Root, "web-1")
	got := web1.Send(t, h)
	if !got.Result.IsError || !strings.HasSuffix(got.Text(t), "if that call was given up, remove "+dir) {
		t.Errorf("got %q", got.Text(t))
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	web1.Send(t, h).Asked(t, "network")
}

func TestProgressIsTold(t *testing.T) {
	t.Parallel()
	call := web1
	call.Meta = `,"progressToken":"p"`
	var got []string
	lines := bufio.NewScanner(strings.NewReader(call.Send(t, serve(t, newHost(t))).Raw))
	for lines.Scan() {
		var message struct {
			Params struct {
				Progress, Total float64
				Message         string
			}
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &message) == nil &&
			message.Params.Total > 0 {
			got = append(got, fmt.Sprintf("%g/%g %s", message.Params.Progress, message.Params.Total, message.Params.Message))
		}
	}
	want := []string{
		"0/8 Creating the directories",
		"1/8 Writing the disk image",
		"2/8 Writing the disk image: 1 of 2 MiB",
		"3/8 Writing the configuration",
		"4/8 Verifying the files",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// serve serves the tool without tasks.
func serve(t *testing.T, host *provision.Host) http.Handler {
	t.Helper()
	return harness.NewServer(t, nil, func(s *askback.Server) { provision.Register(s, host) }).HTTPHandler(nil)
}
