package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/rawclient/transcript"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// TestTranscripts plays every transcript against the servers that its header names, as askback replay does. The servers
// of one transcript share keys, tasks and work items.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no transcripts (%v)", err)
	}
	index := expect.Must(os.ReadFile("../../testdata/transcripts/README.md"))(t)
	parts := 0
	for _, file := range files {
		if !bytes.Contains(index, []byte("]("+filepath.Base(file)+")")) {
			t.Errorf("the table in testdata/transcripts/README.md does not have %s", file)
		}
		data := expect.Must(os.ReadFile(file))(t)
		text := expect.Must(transcript.Parse(file, data))(t)
		parts += len(text.Parts)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			keys := filepath.Join(dir, "my.keys")
			if code, _, stderr := command(t, "keys", "new", keys); code != cli.ExitOK {
				t.Fatal(stderr)
			}
			shared := []string{"--keys", keys, "--store", "sqlite:" + filepath.Join(dir, "tasks.db"), "--data",
				filepath.Join(dir, "data")}
			args := []string{"replay", file}
			for _, server := range text.Servers {
				args = append(args, server.Name+"="+startServe(t, append(shared, server.Args...)...))
			}
			code, stdout, stderr := command(t, args...)
			if code != cli.ExitOK {
				t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
			}
		})
	}
	figure := fmt.Sprintf("%d transcripts with %d parts", len(files), parts)
	t.Log(figure)
	if readme, err := os.ReadFile("../../docs/proof/judges.md"); err != nil || !bytes.Contains(readme, []byte(figure)) {
		t.Errorf("docs/proof/judges.md does not say %q (%v)", figure, err)
	}
}

// startServe runs askback serve with these arguments until the test ends, and returns its URL.
func startServe(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan struct{})
	var (
		code   int
		stderr bytes.Buffer
	)
	go func() {
		defer close(ended)
		code = execute(ctx, append([]string{"serve", "--drain-delay", "0s", "--addr", "127.0.0.1:0"}, args...),
			strings.NewReader(""), in, &stderr)
		in.Close()
	}()
	t.Cleanup(func() {
		stop()
		if <-ended; code != cli.ExitOK {
			t.Errorf("askback serve %q ended with code %d", args, code)
		}
		if t.Failed() {
			t.Logf("askback serve %q wrote:\n%s", args, &stderr)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("askback serve %q was not ready: %v", args, err) // the rest is said when it has ended
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}
