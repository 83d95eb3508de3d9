//go:build unix

package deployment

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox/receipt"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/seal"
)

// nginx returns the program. Without it the test is skipped, but not in the gate.
func nginx(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program = "/usr/sbin/nginx"; exec.Command(program, "-v").Run() != nil {
			const missing = "this machine has no nginx, so its configuration was not given to it: apt-get install nginx"
			if os.Getenv("ASKBACK_TEST_NGINX") == "required" { // in the gate, which leaves nothing out
				t.Fatal(missing)
			}
			t.Skip(missing)
		}
	}
	return program
}

// The people of the group finance approve a large refund on the page, to which nginx lets them with their passwords. To
// pretend to be somebody, or to go around nginx, does not help. A receipt proves the decision to everybody who has the
// public keys.
func TestRefundIsApprovedOnThePage(t *testing.T) {
	program := nginx(t)
	keys := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
	_, container := readManifests(t).server(t)
	i, database := newImage(t), pgtest.DSN(t)
	i.setKeys(t, value(container, "KEYS_FILE"), keys)
	fleet := map[string]*instance{
		"172.30.80.11:8080": i.start(t, "orders-one", database, "", "INBOX_PROXY=127.0.0.1/32"),
		"172.30.80.12:8080": i.start(t, "orders-two", database, "", "INBOX_PROXY=127.0.0.1/32"),
	}
	apart := i.start(t, "orders-three", database, "", "INBOX_PROXY=192.0.2.7/32")

	dir := t.TempDir()
	people := filepath.Join(dir, "people")
	if !strings.Contains(read(t, "README.md"), `printf 'ada:%s\n' "$(openssl passwd -apr1)" >keys/people`) {
		t.Error("the README does not make the file of passwords as this test does")
	}
	var file string
	for _, name := range []string{"ada", "eve"} {
		hash, err := exec.CommandContext(t.Context(), "openssl", "passwd", "-apr1", name+"'s password").Output()
		if err != nil {
			t.Fatal("openssl makes the passwords: ", err)
		}
		file += name + ":" + string(hash)
	}
	expect.Check(t, os.WriteFile(people, []byte(file), 0o644))
	at := expect.Must(process.FreeAddresses(2))(t)
	mcpAddr, pageAddr := at[0], at[1]
	upstream := strings.NewReplacer("listen 8080", "listen "+mcpAddr, "172.30.80.11:8080",
		fleet["172.30.80.11:8080"].addr, "172.30.80.12:8080", fleet["172.30.80.12:8080"].addr,
		"    server 172.30.80.13:8080 max_fails=1 fail_timeout=2s;\n", "")
	page := strings.NewReplacer("listen 8081", "listen "+pageAddr, "/etc/nginx/people", people)
	conf := expect.Must(process.NginxConfig(dir, upstream.Replace(read(t, "nginx.conf")),
		page.Replace(read(t, "inbox.conf"))))(t)
	proxy := exec.Command(program, "-c", conf, "-p", dir)
	proxy.Stderr = os.Stderr
	expect.Check(t, proxy.Start())
	t.Cleanup(func() { _, _ = proxy.Process.Signal(syscall.SIGTERM), proxy.Wait() })

	as := func(name, method, address string, form url.Values, headers ...string) (int, string) {
		r := expect.Must(http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode())))(t)
		if form != nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if name != "" {
			r.SetBasicAuth(name, name+"'s password")
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	inbox := "http://" + pageAddr + "/inbox/"
	harness.Eventually(t, "nginx that listens", func() bool { status, _ := as("", "GET", inbox, nil); return status != 0 })

	outcome := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		accepts := func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"refund": true}}, nil
		}
		s, err := client.New(&client.Options{Form: accepts}).Connect(ctx,
			&mcp.StreamableClientTransport{Endpoint: "http://" + mcpAddr + "/mcp"}, nil)
		if err == nil {
			defer s.Close()
			var result mcp.Result
			result, err = s.CallTool(ctx,
				&mcp.CallToolParams{Name: "refund_order", Arguments: map[string]any{"id": "17", "amount": 900}})
			if err == nil {
				outcome <- text(result)
				return
			}
		}
		outcome <- err.Error()
	}()

	link := regexp.MustCompile(`href="[^"]*?(q/[A-Z2-7]{26}/finance)"`)
	var card string
	harness.Eventually(t, "question in ada's list", func() bool {
		_, list := as("ada", "GET", inbox, nil)
		found := link.FindStringSubmatch(list)
		if found != nil {
			card = inbox + found[1]
		}
		return found != nil
	})
	pretends := []string{"X-Auth-Request-User", "ada", "X-Auth-Request-Groups", "finance"}
	for _, c := range []struct {
		says, name, address string
		want                int
	}{
		{"without a password", "", card, http.StatusUnauthorized},
		{"eve, who is not in the group", "eve", card, http.StatusNotFound},
		{"past nginx", "", "http://" + apart.addr + "/inbox/", http.StatusUnauthorized},
		{"past nginx, at the server's port", "", "http://" + mcpAddr + "/inbox/", http.StatusNotFound},
	} {
		for _, headers := range [][]string{nil, pretends} {
			if status, body := as(c.name, "GET", c.address, nil, headers...); status != c.want {
				t.Errorf("%s, with %q: %d, want %d: %.300s", c.says, headers, status, c.want, body)
			}
		}
	}
	_, whole := as("ada", "GET", card, nil)
	shown := regexp.MustCompile(`name="shown" value="([^"]*)"`).FindStringSubmatch(whole)
	if shown == nil || !strings.Contains(whole, "900.00 euros for order 17") {
		t.Fatalf("the card is %s", whole)
	}
	form := url.Values{"do": {"accept"}, "shown": {shown[1]}, "reason": {"it broke"}}
	if status, body := as("eve", "POST", card, form, pretends...); status != http.StatusNotFound {
		t.Errorf("eve's answer gets %d: %.300s", status, body)
	}
	foreign := []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}
	if status, body := as("ada", "POST", card, form, foreign...); status != http.StatusForbidden {
		t.Errorf("an answer that another site sends gets %d: %.300s", status, body)
	}
	own := []string{"Origin", "http://" + pageAddr, "Sec-Fetch-Site", "same-origin"}
	status, body := as("ada", "POST", card, form, own...)
	if status != http.StatusOK || !strings.Contains(body, "it broke") {
		t.Errorf("ada's answer gets %d: %.300s", status, body)
	}
	expect.Equal(t, "the call ends", <-outcome, "Order 17 is refunded.")
	_, given := as("ada", "GET", strings.Replace(card, "/q/", "/api/questions/", 1)+"/receipt", nil)
	status, public := as("", "GET", inbox+"receipts.jwks", nil)
	if status != http.StatusOK {
		t.Errorf("the public keys get %d: %.300s", status, public)
	}
	var held desk.Receipt
	if err := json.Unmarshal([]byte(given), &held); err != nil || held.JWS == "" {
		t.Fatalf("ada gets no receipt: %v, %.300s", err, given)
	}
	s := expect.Must(receipt.Verify(held.JWS, []byte(public)))(t)
	if s.Tool != "refund_order" || s.Action != "accept" || len(s.Voters) != 1 || s.Voters[0].Who != "ada" ||
		!s.HasArguments([]byte(`{"id":"17","amount":900}`)) || !s.HasReason(held.Salt, "ada", "it broke") {
		t.Errorf("the receipt states %+v", s)
	}
	for _, p := range fleet {
		if strings.Contains(p.log.String(), "password") {
			t.Errorf("the log of %s has a password", p.name)
		}
	}
}
