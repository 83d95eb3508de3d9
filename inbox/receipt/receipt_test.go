package receipt_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox/receipt"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

func newFile(t testing.TB) receipt.File {
	t.Helper()
	f := receipt.File(filepath.Join(t.TempDir(), "receipts.jwks"))
	expect.Check(t, f.Create())
	return f
}

func public(t testing.TB, f receipt.File) []byte {
	t.Helper()
	keys := expect.Must(f.Public())(t)
	return keys
}

// scene is a server whose tool asks two people for a form, and signs receipts.
type scene struct {
	desk    *desk.Desk
	session *client.Session
	told    atomic.Pointer[string] // what Call.Receipt returned last
}

func newScene(t *testing.T, signer askback.ReceiptSigner) *scene {
	t.Helper()
	s, store := new(scene), new(task.MemoryStore)
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil), &askback.Options{
		Tasks: &askback.Tasks{Store: store}, Desk: &askback.DeskOptions{Receipts: signer},
		Logger:    slog.New(slog.DiscardHandler),
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
	})
	expect.Check(t, err)
	type window struct {
		Hour int `json:"hour"`
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, nil,
		func(_ context.Context, call *askback.Call, _ map[string]any) (string, error) {
			_, err := askback.ElicitWith[window](call, "window", askback.Question{Message: "When?", Votes: 2,
				For: []string{askback.Group("release")}, Within: time.Hour})
			told := call.Receipt("window")
			s.told.Store(&told)
			return "done", err
		})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.RunTasks(ctx) }()
	here, there := mcp.NewInMemoryTransports()
	expect.Must(srv.Connect(ctx, there, nil))(t)
	if s.session, err = client.New(nil).Connect(ctx, here, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.session.Close(); stop(); <-done })
	if s.desk, err = desk.Open(store, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// call begins a call, and returns the ID of its task and its question, once that waits.
func (s *scene) call(t *testing.T) (id string, q *desk.Question) {
	t.Helper()
	began, _, err := s.session.StartTask(t.Context(), &mcp.CallToolParams{Name: "deploy",
		Arguments: map[string]any{"version": "4.2"}}, 0)
	expect.Check(t, err)
	synctest.Wait()
	if q, err = s.desk.Question(t.Context(), task.Name(began.ID), "window", nil); err != nil {
		t.Fatal(err)
	}
	return began.ID, q
}

var release = []string{"release"}

// accept has two people accept the hour, of whom one says why.
func (s *scene) accept(t *testing.T, q *desk.Question) {
	t.Helper()
	for _, a := range []desk.Answer{
		{By: desk.Person{Name: "ada", Groups: release}, Reason: "It is quiet then.", Channel: "inbox"},
		{By: desk.Person{Name: "bob", Groups: release}},
	} {
		a.Action, a.Content = "accept", json.RawMessage(`{"hour":9}`)
		expect.Must(s.desk.Answer(t.Context(), q.Name, q.Key, a))(t)
	}
}

// A receipt states all of a decision, and the same to the handler, to those who may read the question, and in each run.
// With it they have what it has digests of.
func TestAReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newFile(t)
		s := newScene(t, keys)
		id, q := s.call(t)
		if _, err := s.desk.Receipt(t.Context(), q.Name, q.Key, nil); !errors.Is(err, desk.ErrNoReceipt) {
			t.Errorf("before the decision: %v", err)
		}
		s.accept(t, q)
		expect.Must(s.session.WaitTask(t.Context(), id))(t)
		ada := desk.Person{Name: "ada", Groups: release}
		held := expect.Must(s.desk.Receipt(t.Context(), q.Name, q.Key, &ada))(t)
		expect.Equal(t, "the handler has the receipt", *s.told.Load(), held.JWS)
		eve := &desk.Person{Name: "eve"}
		if _, err := s.desk.Receipt(t.Context(), q.Name, q.Key, eve); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("eve: %v", err)
		}
		got := expect.Must(receipt.Verify(held.JWS, public(t, keys)))(t)
		q = expect.Must(s.desk.Question(t.Context(), q.Name, q.Key, nil))(t)
		arguments := sha256.Sum256([]byte(`{"version":"4.2"}`))
		want := receipt.Statement{
			Version: 1, Server: "shop", Tool: "deploy", Caller: "carol", Task: q.Name, Call: q.Call, Key: "window",
			Shown: q.Shown, Arguments: hex.EncodeToString(arguments[:]), For: []string{"group:release"}, Votes: 2,
			Asked: q.Asked.UTC(), Deadline: q.Deadline.UTC(), Action: "accept", Content: got.Content,
			Decided: q.Decision.When.UTC(), Voters: []receipt.Voter{
				{Who: "ada", Groups: release, When: q.Count[0].When.UTC(), Channel: "inbox", Reason: got.Voters[0].Reason},
				{Who: "bob", Groups: release, When: q.Count[1].When.UTC(), Channel: "desk"},
			},
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) != string(b) || want.Call == "" || want.Shown == "" {
			t.Errorf("the receipt states\n%s\nwant\n%s", a, b)
		}
		switch salt := held.Salt; {
		case !got.HasContent(salt, held.Content), got.HasContent(salt, json.RawMessage(`{"hour":8}`)),
			got.HasContent("other", held.Content), got.HasContent(salt, nil):
			t.Error("the content of the receipt is not told from others")
		case !got.HasReason(salt, "ada", held.Reasons["ada"]), got.HasReason(salt, "ada", ""),
			got.HasReason(salt, "bob", "x"), !got.HasReason(salt, "bob", ""), got.HasReason(salt, "eve", ""):
			t.Error("the reasons of the receipt are not told from others")
		case !got.HasArguments(json.RawMessage(`{ "version": "4.2" }`)), got.HasArguments(json.RawMessage(`{}`)):
			t.Error("the arguments of the receipt are not told from others")
		case strings.Contains(string(a), "quiet") || strings.Contains(string(a), `"hour"`):
			t.Errorf("the receipt has contents: %s", a)
		}
	})
}

// signer fails, or does not answer, until it is let.
type signer struct {
	receipt.File
	fails, asked atomic.Int32
}

func (s *signer) Sign(ctx context.Context, statement []byte) (string, error) {
	switch s.asked.Add(1); s.fails.Load() {
	case 1:
		return "", errors.New("the vault is sealed")
	case 2:
		panic("no vault")
	case 3:
		<-ctx.Done()
		return "", ctx.Err()
	case 4:
		return strings.Repeat("x", 65<<10), nil
	}
	return s.File.Sign(ctx, statement)
}

// Nobody acts upon a decision that cannot be signed, whatever keeps the signer from it; once it can, the call goes on.
func TestADecisionWaitsForItsReceipt(t *testing.T) {
	for fails := int32(1); fails <= 4; fails++ {
		synctest.Test(t, func(t *testing.T) {
			keys := &signer{File: newFile(t)}
			keys.fails.Store(fails)
			s := newScene(t, keys)
			id, q := s.call(t)
			s.accept(t, q)
			time.Sleep(time.Minute)
			now, err := s.desk.Show(t.Context(), q.Name)
			if err != nil || now.Status.Terminal() || keys.asked.Load() == 0 {
				t.Fatalf("failure %d: %+v, %v, asked %d times", fails, now, err, keys.asked.Load())
			}
			if _, err := s.desk.Receipt(t.Context(), q.Name, q.Key, nil); !errors.Is(err, desk.ErrNoReceipt) {
				t.Errorf("failure %d: %v", fails, err)
			}
			keys.fails.Store(0)
			if res, err := s.session.WaitTask(t.Context(), id); err != nil || res.IsError {
				t.Fatalf("failure %d: %v, %v", fails, res, err)
			}
			if _, err := receipt.Verify(*s.told.Load(), public(t, keys.File)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Each altered receipt is refused, whatever was altered: a field, the signature, the head, and what a stranger signs.
func TestAlteredReceipts(t *testing.T) {
	keys := newFile(t)
	fields := map[string]any{
		"version": 1, "server": "shop", "tool": "deploy", "caller": "carol", "task": "T", "call": "C", "key": "window",
		"shown": "aa", "arguments": "bb", "for": []string{"group:release"}, "votes": 2, "asked": "2026-01-01T00:00:00Z",
		"action": "accept", "content": "cc", "decided": "2026-01-01T01:00:00Z",
		"voters": []any{map[string]any{"who": "ada", "when": "2026-01-01T00:30:00Z", "channel": "inbox", "reason": "dd"}},
	}
	statement, _ := json.Marshal(fields)
	good := expect.Must(keys.Sign(t.Context(), statement))(t)
	expect.Must(receipt.Verify(good, public(t, keys)))(t)
	parts := strings.Split(good, ".")
	encode := base64.RawURLEncoding.EncodeToString
	draw := rand.New(rand.NewPCG(3, 6))
	names := slices.Sorted(maps.Keys(fields))
	for i := range 200 {
		altered := maps.Clone(fields)
		switch name := names[i%len(names)]; v := altered[name].(type) {
		case string:
			altered[name] = v + string(rune('a'+draw.IntN(26)))
			if at, err := time.Parse(time.RFC3339, v); err == nil {
				altered[name] = at.Add(time.Duration(1+draw.IntN(1e6)) * time.Second)
			}
		case int:
			altered[name] = v + 1 + draw.IntN(9)
		case []string:
			altered[name] = append(slices.Clone(v), "user:mallory")
		case []any:
			one := maps.Clone(v[0].(map[string]any))
			part := []string{"who", "channel", "reason", "when"}[draw.IntN(4)]
			if one[part] = one[part].(string) + "x"; part == "when" {
				one[part] = "2026-01-01T00:30:01Z"
			}
			altered[name] = []any{one}
		}
		payload, _ := json.Marshal(altered)
		if _, err := receipt.Verify(parts[0]+"."+encode(payload)+"."+parts[2], public(t, keys)); err == nil {
			t.Fatalf("a receipt with %s is valid", payload)
		}
	}
	_, stranger, _ := ed25519.GenerateKey(nil)
	head, _ := base64.RawURLEncoding.DecodeString(parts[0])
	var kid struct {
		Kid string `json:"kid"`
	}
	_ = json.Unmarshal(head, &kid)
	sign := func(head string) string {
		text := encode([]byte(head)) + "." + parts[1]
		return text + "." + encode(ed25519.Sign(stranger, []byte(text)))
	}
	other := newFile(t)
	elsewhere, _ := other.Sign(t.Context(), statement)
	untyped := strings.Replace(string(head), `"typ":"askback-receipt"`, `"typ":"JWT"`, 1)
	file := expect.Must(os.ReadFile(string(keys)))(t)
	var set struct{ Keys []struct{ D, X string } }
	expect.Check(t, json.Unmarshal(file, &set))
	seed, _ := base64.RawURLEncoding.DecodeString(set.Keys[0].D)
	shared, _ := base64.RawURLEncoding.DecodeString(set.Keys[0].X)
	own := encode([]byte(untyped)) + "." + parts[1]
	own += "." + encode(ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(own)))
	mac := encode([]byte(strings.Replace(string(head), "EdDSA", "HS256", 1))) + "." + parts[1]
	sum := hmac.New(sha256.New, shared)
	sum.Write([]byte(mac))
	mac += "." + encode(sum.Sum(nil))
	for says, bad := range map[string]string{
		"nothing": "", "no JWS": "a.b",
		"zeros":            parts[0] + "." + parts[1] + "." + encode(make([]byte, 64)),
		"no signature":     parts[0] + "." + parts[1] + ".",
		"no algorithm":     encode([]byte(`{"alg":"none","typ":"askback-receipt"}`)) + "." + parts[1] + ".",
		"a stranger's":     sign(string(head)),
		"a stranger's key": sign(`{"alg":"EdDSA","typ":"askback-receipt","jwk":{"kty":"OKP","crv":"Ed25519","x":"AA"}}`),
		"a shared secret":  mac, // the public key
		"another type":     own, "another server's": elsewhere, "much": strings.Repeat("a", 1<<20),
	} {
		_, err := receipt.Verify(bad, public(t, keys))
		if _, ok := errors.AsType[*receipt.InvalidError](err); !ok {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// A key that signs no more verifies what it has signed for ever, and its secret is gone. Nothing replaces a file by
// accident.
func TestKeysAreNeverForgotten(t *testing.T) {
	keys := newFile(t)
	if info, err := os.Stat(string(keys)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	statement := []byte(`{"version":1}`)
	var receipts []string
	for range 5 {
		r := expect.Must(keys.Sign(t.Context(), statement))(t)
		receipts = append(receipts, r)
		expect.Check(t, keys.Rotate())
	}
	var ids []string // of the keys that have signed
	for i, r := range receipts {
		s, err := receipt.Verify(r, public(t, keys))
		if err != nil || slices.Index(receipts, r) != i || slices.Contains(ids, s.KeyID) ||
			strings.Count(string(public(t, keys)), `"kid":"`+s.KeyID+`"`) != 1 {
			t.Fatalf("receipt %d: %+v, %v", i, s, err)
		}
		ids = append(ids, s.KeyID)
	}
	data, err := os.ReadFile(string(keys))
	if n := strings.Count(string(data), `"d":`); err != nil || n != 1 {
		t.Errorf("the file has %d secrets, %v", n, err)
	}
	if strings.Contains(string(public(t, keys)), `"d":`) {
		t.Error("a secret is published")
	}
	if info, err := os.Stat(string(keys)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	expect.Is(t, "a second file", keys.Create(), fs.ErrExist)
	shown := filepath.Join(t.TempDir(), "public.jwks")
	expect.Check(t, os.WriteFile(shown, public(t, keys), 0o600))
	if _, err := receipt.File(shown).Sign(t.Context(), statement); err == nil {
		t.Error("a public key signs")
	}
	renamed := bytes.Replace(public(t, keys), []byte(`"kid":"`), []byte(`"kid":"x`), 1)
	if _, err := receipt.Verify(receipts[0], renamed); err == nil {
		t.Error("a key is taken under another name than its thumbprint")
	}
}

// Rotations at the same time forget no key: one of them is refused, and leaves nothing behind.
func TestRotationsAtTheSameTime(t *testing.T) {
	keys := newFile(t)
	var done atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				switch err := keys.Rotate(); {
				case err == nil:
					done.Add(1)
				case !errors.Is(err, fs.ErrExist):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := strings.Count(string(public(t, keys)), `"kid"`); n != 1+int(done.Load()) || n < 2 {
		t.Errorf("the file has %d keys after %d rotations", n, done.Load())
	}
	if err := keys.Rotate(); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(string(keys), 0o640); err != nil { // a group of the server's reads it, also from now on
		t.Fatal(err)
	}
	if err := keys.Rotate(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(string(keys)); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o640 {
		t.Errorf("after a rotation the file has the mode %v, %v", info.Mode(), err)
	}
	none := receipt.File(filepath.Join(t.TempDir(), "none"))
	for range 2 { // the first leaves nothing that keeps out the second
		expect.Is(t, "none.Rotate()", none.Rotate(), fs.ErrNotExist)
	}
}

// Foreign bytes are refused without a panic, as a receipt and as keys.
func FuzzVerify(f *testing.F) {
	keys := newFile(f)
	good := expect.Must(keys.Sign(context.Background(), []byte(`{"version":1}`)))(f)
	f.Add(good, public(f, keys))
	f.Add("a.b.c", []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`))
	f.Fuzz(func(t *testing.T, text string, set []byte) {
		s, err := receipt.Verify(text, set)
		if (s == nil) == (err == nil) {
			t.Errorf("%v, %v", s, err)
		}
	})
}

// A stranger verifies a receipt with openssl, without any code of this package or of its library.
func TestAStrangerVerifies(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Fatal("there is no openssl: install the package openssl")
	}
	keys := newFile(t)
	signed := expect.Must(keys.Sign(t.Context(), []byte(`{"version":1}`)))(t)
	var set struct {
		Keys []struct{ Kty, Crv, X, Kid string }
	}
	expect.Check(t, json.Unmarshal(public(t, keys), &set))
	k := set.Keys[0]
	raw, _ := base64.RawURLEncoding.DecodeString(k.X)
	head, _ := hex.DecodeString("302a300506032b6570032100") // of a public key, by RFC 8410
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		expect.Check(t, os.WriteFile(path, data, 0o600))
		return path
	}
	key := write("key.der", append(head, raw...))
	at := strings.LastIndex(signed, ".")
	signature, _ := base64.RawURLEncoding.DecodeString(signed[at+1:])
	verify := func(text string) error {
		return exec.Command("openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", key, "-rawin",
			"-in", write("text", []byte(text)), "-sigfile", write("signature", signature)).Run()
	}
	if err := verify(signed[:at]); err != nil {
		t.Errorf("openssl refuses the receipt: %v", err)
	}
	if verify(signed[:at]+"x") == nil {
		t.Error("openssl verifies anything")
	}
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + k.X + `"}`)) // RFC 7638
	expect.Equal(t, "the kid", k.Kid, base64.RawURLEncoding.EncodeToString(sum[:]))
}
