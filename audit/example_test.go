package audit_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/audit"
)

// A server whose audit is chained and signed, and which refuses calls while it cannot be written.
func Example() {
	dir, err := os.MkdirTemp("", "audit")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	public, private, _ := ed25519.GenerateKey(nil)       // in production ReadKey("audit.pem")
	heads, err := os.Create(filepath.Join(dir, "heads")) // in production on another machine
	if err != nil {
		panic(err)
	}
	defer heads.Close()
	file := filepath.Join(dir, "audit.jsonl")
	log, err := audit.Open(file, &audit.Options{
		MaxSize: 1 << 30, Sync: 0, Wait: 2 * time.Second, Queue: 10_000,
		Heads: heads, Key: private, HeadEvery: 10 * time.Minute, Logger: slog.Default(),
	})
	if err != nil {
		panic(err)
	}
	_, err = askback.New(mcp.NewServer(&mcp.Implementation{Name: "orders"}, nil), &askback.Options{
		Audit: log.Record,
		Authorize: func(context.Context, askback.Access) error {
			if err := log.Err(); err != nil {
				return fmt.Errorf("%w: %w", askback.ErrUndecided, err)
			}
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	log.Record(context.Background(), askback.AuditEvent{Kind: askback.AuditEnded, Reason: "completed"})
	if err := log.Close(); err != nil {
		panic(err)
	}

	report, err := audit.Verify([]string{file}, &audit.VerifyOptions{Heads: heads.Name(), Key: public})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d lines, %d after the last head, %d faults\n", report.Lines, report.Unsigned, len(report.Faults))
	// Output: 2 lines, 0 after the last head, 0 faults
}

// A server does not start with an audit that takes no line.
func TestAFullDiskAtTheStart(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full")
	}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.Symlink("/dev/full", file); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Open(file, nil); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("a server starts without its audit: %v", err)
	}
}

func TestKeysAreRead(t *testing.T) {
	dir := t.TempDir()
	private, public := keys(t, dir)
	key, err := audit.ReadKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := audit.ReadPublicKey(public); err != nil || !got.Equal(key.Public()) {
		t.Errorf("%v, %v", got, err)
	}
	other := filepath.Join(dir, "rsa.pem")
	openssl(t, nil, "genpkey", "-algorithm", "x25519", "-out", other)
	_, err1 := audit.ReadKey(other)
	_, err2 := audit.ReadKey(public)
	_, err3 := audit.ReadPublicKey(private)
	_, err4 := audit.ReadKey(filepath.Join(dir, "none"))
	if err := os.Chmod(private, 0o604); err != nil {
		t.Fatal(err)
	}
	_, err5 := audit.ReadKey(private)
	for i, err := range []error{err1, err2, err3, err4, err5} {
		if err == nil || strings.Contains(err.Error(), string(key)) {
			t.Errorf("case %d: %v", i+1, err)
		}
	}
}

// A stranger verifies a chain and its heads with sha256sum and openssl, without any code of this package.
func TestAStrangerVerifiesTheChain(t *testing.T) {
	dir := t.TempDir()
	private, public := keys(t, dir)
	key, err := audit.ReadKey(private)
	if err != nil {
		t.Fatal(err)
	}
	heads, err := os.Create(filepath.Join(dir, "heads"))
	if err != nil {
		t.Fatal(err)
	}
	defer heads.Close()
	file := filepath.Join(dir, "audit.jsonl")
	for range 2 {
		log, err := audit.Open(file, &audit.Options{Heads: heads, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			log.Record(t.Context(), askback.AuditEvent{Kind: askback.AuditStep, Key: "book", Principal: `a"b\<ø>` + "\xff"})
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	prev := strings.Repeat("0", 64)
	digests := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, `"prev":"`+prev+`"`) {
			t.Errorf("%s does not follow %s", line, prev)
		}
		prev = strings.Fields(openssl(t, strings.NewReader(line), "dgst", "-sha256", "-r"))[0]
		digests[prev] = true
	}
	if len(digests) != 8 {
		t.Errorf("there are %d lines", len(digests))
	}
	all, err := os.ReadFile(heads.Name())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, line := range strings.Fields(string(all)) {
		if n++; n%2 == 1 { // a head, and the next word is its signature
			if err := os.WriteFile(filepath.Join(dir, "head"), []byte(line+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		decoded := openssl(t, strings.NewReader(line), "base64", "-d", "-A")
		if err := os.WriteFile(filepath.Join(dir, "signature"), []byte(decoded), 0o600); err != nil {
			t.Fatal(err)
		}
		openssl(t, nil, "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", filepath.Join(dir, "head"),
			"-sigfile", filepath.Join(dir, "signature"))
		signed, _ := os.ReadFile(filepath.Join(dir, "head"))
		if _, digest, _ := strings.Cut(string(signed), `"digest":"`); !digests[digest[:64]] {
			t.Errorf("%s is of no line", signed)
		}
	}
	if n != 4 {
		t.Errorf("there are %d words in %q", n, all)
	}
}

// keys makes a pair of keys as the documents say.
func keys(t *testing.T, dir string) (private, public string) {
	t.Helper()
	private, public = filepath.Join(dir, "audit.pem"), filepath.Join(dir, "audit.pub.pem")
	openssl(t, nil, "genpkey", "-algorithm", "ed25519", "-out", private)
	openssl(t, nil, "pkey", "-in", private, "-pubout", "-out", public)
	return private, public
}

func openssl(t *testing.T, in io.Reader, args ...string) string {
	t.Helper()
	cmd := exec.Command("openssl", args...)
	cmd.Stdin = in
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("needs openssl")
	}
	if err != nil {
		t.Fatalf("openssl %q: %v, %s", args, err, out)
	}
	return string(out)
}
