package terminal

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestURL(t *testing.T) {
	const address = "https://login.example.com:8443/authorize?client=42&state=abc"
	tests := map[string]struct {
		address string
		sees    []string
		keys    []string
		action  string
		opened  string
	}{
		"consent": {address, []string{address, "Host: login.example.com:8443", "│ Sign in"}, []string{toLeft, enter},
			"accept", address},
		"refusal": {address, []string{address}, []string{enter}, "decline", ""},
		"cancel":  {address, []string{address}, []string{esc}, "cancel", ""},
		"Cancel":  {address, []string{address}, []string{right, enter}, "cancel", ""},
		"punycode": {"https://xn--pypal-4ve.com/", []string{"! The host is written in punycode"}, []string{esc}, "cancel",
			""},
		"lookalike": {"https://p\u0430ypal.com/", []string{"https://p%D0%B0ypal.com/", `Host: p\u0430ypal.com`,
			"! The host has characters outside ASCII"}, []string{toLeft, enter}, "accept", "https://p%D0%B0ypal.com/"},
		"user": {"https://bank.com@evil.com/", []string{"Host: evil.com", "! What stands before the @"},
			[]string{esc}, "cancel", ""},
		"http": {"http://example.com/", []string{"! It is not https"}, []string{esc}, "cancel", ""},
		"IPv4": {"https://192.0.2.1/", []string{"! The host is a bare IP address"}, []string{esc}, "cancel", ""},
		"IPv6": {"https://[2001:db8::1]:443/", []string{"Host: [2001:db8::1]:443", "! The host is a bare IP address"},
			[]string{esc}, "cancel", ""},
		"number": {"https://2130706433/", []string{"! The host is a bare IP address"}, []string{esc}, "cancel", ""},
		"hex":    {"https://0x7F.1/", []string{"! The host is a bare IP address"}, []string{esc}, "cancel", ""},
		"backslash": {`https://evil.com\@good.com/`, []string{`! This address will not be opened: it contains '\\', which`,
			"▸ Decline    Cancel"}, []string{toLeft, enter}, "decline", ""},
		"newline": {"https://good.com\n.evil.com/", []string{"! This address will not be opened"}, []string{enter},
			"decline", ""},
		"javascript": {"javascript:alert(1)",
			[]string{"! This address will not be opened", "does not begin with https or http"},
			[]string{enter}, "decline", ""},
		"no host": {"https:evil.com", []string{"! This address will not be opened", "it names no host"}, []string{enter},
			"decline", ""},
		"three /":    {"https:///evil.com", []string{"it names no host"}, []string{enter}, "decline", ""},
		"no address": {"::", []string{"! This address will not be opened"}, []string{enter}, "decline", ""},
		"empty":      {"", []string{"does not begin with https or http"}, []string{enter}, "decline", ""},
		"too long": {"https://example.com/" + strings.Repeat("x", maxURL), []string{"it is 8212 bytes long"},
			[]string{enter}, "decline", ""},
		"long, in all": {"https://example.com/" + strings.Repeat("x", 200) + "!",
			[]string{"\n  " + strings.Repeat("x", 66) + "!\n"}, []string{toLeft, enter}, "accept", "https://example.com/" +
				strings.Repeat("x", 200) + "!"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t)
			opened := ""
			a := ask(t, func(ctx context.Context) (*mcp.ElicitResult, error) {
				return p.terminal().URL(ctx, "tracker", "Sign in", tt.address, func(url string) error { opened = url; return nil })
			})
			p.sees(append(tt.sees, "tracker wants you to open an address:", "▸ Decline")...)
			p.types(tt.keys...)
			wants(t, a, &mcp.ElicitResult{Action: tt.action})
			expect.Equal(t, "opened", opened, tt.opened)
			p.gotItBack()
		})
	}
}

func TestURLNeedsNoWarning(t *testing.T) {
	for _, address := range []string{"https://example.com", "https://example.com:443/a?b#c", "https://1.example.com/",
		"https://a.b2/", "https://x.com/@user"} {
		_, about, err := inspect(address)
		if err != nil || len(about) != 2 {
			t.Errorf("%s: %v, %v", address, about, err)
		}
	}
}

func TestURLToOpenByHand(t *testing.T) {
	const address = "https://login.example.com/authorize?state=abc"
	for name, open := range map[string]func(string) error{
		"Open this address:":                   nil,
		"could not be opened: no browser here": func(string) error { return errors.New("no browser here") },
	} {
		p := newPerson(t)
		a := ask(t, func(ctx context.Context) (*mcp.ElicitResult, error) {
			return p.terminal().URL(ctx, "tracker", "Sign in", address, open)
		})
		p.sees("▸ Decline")
		p.types(toLeft, enter)
		wants(t, a, &mcp.ElicitResult{Action: "accept"})
		p.sees(name, "\n"+address)
	}
}

// FuzzURL compares what is shown with what was asked for.
func FuzzURL(f *testing.F) {
	for _, s := range []string{"https://example.com/", "https://a@b:1/?#", "https://[::1%25a]/", "http://0x7f.1",
		"https://p\u0430y.com\\@x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		shown, about, err := inspect(address)
		if err != nil {
			return
		}
		if !strings.HasPrefix(strings.ToLower(shown), "http") ||
			strings.IndexFunc(shown, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
			t.Errorf("%q is shown for %q", shown, address)
		}
		at := about[0]
		if at.text != shown || shown[at.mark[0]:at.mark[1]] == "" {
			t.Errorf("%q has no host in %v", shown, at)
		}
	})
}
