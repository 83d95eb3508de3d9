package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Processes that remember and forget at once lose nothing of each other's.
func TestProcessesRememberTogether(t *testing.T) {
	t.Parallel()
	config := t.TempDir()
	srv, err := newAsker(nil)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd, out := exec.Command("askback", args...), new(bytes.Buffer)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+config, "HOME="+config, "AppData="+config)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	const processes = 8
	var cmds []*exec.Cmd
	var outputs []*bytes.Buffer
	for i := range processes {
		web := httptest.NewServer(srv.HTTPHandler(nil))
		t.Cleanup(web.Close)
		cmd, out := run("tools", web.URL, "--header", fmt.Sprintf("X-Name: %d", i), "--remember")
		cmds, outputs = append(cmds, cmd), append(outputs, out)
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, outputs[i])
		}
	}
	cmd, out := run("forget")
	if err := cmd.Wait(); err != nil || bytes.Count(out.Bytes(), []byte("  X-Name\n")) != processes {
		t.Errorf("%v\n%s", err, out)
	}
	if left, _ := filepath.Glob(config + "/askback/.askback-headers-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAHostIsForgottenByItsName(t *testing.T) {
	t.Parallel()
	all := remembered{"https://a.example": nil, "http://a.example": nil, "http://a.example:8080": nil,
		"https://b.example:8443": nil}
	for host, want := range map[string][]string{
		"a.example":                   {"http://a.example", "http://a.example:8080", "https://a.example"},
		"A.example:8080":              {"http://a.example:8080"},
		"HTTPS://A.example:443/mcp":   {"https://a.example"},
		"https://b.example":           nil,
		"https://user@b.example:8443": {"https://b.example:8443"},
		"example":                     nil,
		"":                            nil,
		"://":                         nil,
	} {
		if diff := cmp.Diff(want, all.at(host)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", host, diff)
		}
	}
}

// An address with a password is the user's word, too.
func TestAURLsPasswordWins(t *testing.T) {
	config := t.TempDir()
	for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} {
		t.Setenv(name, config)
	}
	at := func(text string) target {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return target{text: text, address: u}
	}
	kept := http.Header{"Authorization": {"Bearer x"}, "X-Other": {"1"}}
	if err := remember(at("https://a.example/mcp"), kept); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]http.Header{
		"https://a.example":            kept,
		"https://A.example:443/other":  kept,
		"https://user:pw@a.example":    {"X-Other": {"1"}},
		"http://a.example":             {},
		"https://a.example:444":        {},
		"https://a.example.evil":       {},
		"https://a.example@b.example/": {},
	} {
		header := http.Header{}
		if _, err := recall(at(text), header); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, header); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func FuzzRemembered(f *testing.F) {
	f.Add([]byte(`{"https://example.com":{"Authorization":["Bearer x"]}}`))
	f.Add([]byte(`{"https://example.com":{"Authorization":["a\nb"]}}`))
	f.Add([]byte(`{"https://example.com":null,"http://[::1]:8080":{"X":[]}}`))
	f.Add([]byte(`{"https://EXAMPLE.com:443":{}}`))
	f.Add([]byte(`{"x":{"Host":["y"]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseRemembered(text)
		if err != nil {
			return
		}
		again, err := encodeJSON(all, "  ")
		if err != nil {
			t.Fatal(err)
		}
		same, err := parseRemembered(again)
		if err != nil || !cmp.Equal(all, same) {
			t.Errorf("%q became %q: %v", text, again, err)
		}
		for origin, header := range all {
			if found := all.at(origin); len(found) == 0 {
				t.Errorf("%q cannot be forgotten", origin)
			}
			for name, values := range header {
				for _, value := range values {
					if bytes.ContainsAny([]byte(name+value), "\r\n\x00") {
						t.Errorf("%q: %q", name, value)
					}
				}
			}
		}
	})
}
