package terminal

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const maxURL = 8192 // bytes; RFC 9110, section 4.1, recommends at least 8000

// URL asks for consent to open an address: the URL mode of elicitation. It shows the whole address with its host
// emphasized, and warns of everything in it that can deceive. Without consent, nothing is opened or fetched. With
// consent, URL calls open with the address as it was shown; if open is nil, it prints the address. If open fails, the
// person is told and gets the address to open by hand. The answer is still accept.
//
// An address that is neither https nor http, or that browsers may read differently from this package, can only be
// declined. For errors see [Terminal.Form].
func (t *Terminal) URL(ctx context.Context, server, message, address string,
	open func(url string) error) (*mcp.ElicitResult, error) {
	p := &prompt{server: serverName(server), asks: "wants you to open an address:", body: messageBlocks(message)}
	shown, blocks, err := inspect(address)
	if err != nil {
		p.body = append(p.body,
			block{kind: warning, text: "This address will not be opened: " + err.Error() + "."},
			block{kind: theirs, text: line(address, maxAbout)})
	} else {
		p.body, p.accept, p.done = append(p.body, blocks...), "Open", "Agreed to open it."
		if open == nil {
			p.accept = "I will open it"
		}
	}
	a, err := t.ask(ctx, p)
	if err != nil {
		return nil, err
	}
	if a == accept {
		if open == nil {
			err = t.say("Open this address:\n%s\n", shown)
		} else if failed := open(shown); failed != nil {
			err = t.say("It could not be opened: %s\nOpen this address by hand:\n%s\n", visible(failed.Error(), maxAbout), shown)
		}
		if err != nil {
			return nil, err
		}
	}
	return &mcp.ElicitResult{Action: string(a)}, nil
}

// inspect returns an address as it is shown and opened, and the blocks that describe it. The error is for the person.
func inspect(raw string) (shown string, about []block, err error) {
	if len(raw) > maxURL {
		return "", nil, fmt.Errorf("it is %d bytes long, and this command shows at most %d", len(raw), maxURL)
	}
	// Browsers drop some of these characters, and read \ as /; Go does neither.
	if i := strings.IndexFunc(raw,
		func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' || r == '\ufffd' }); i >= 0 {
		return "", nil, fmt.Errorf("it contains %+q, which no address can have", []rune(raw[i:])[0])
	}
	shown = escape(raw)
	u, err := url.Parse(shown)
	switch {
	case err != nil:
		// The outer error quotes the address.
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return "", nil, fmt.Errorf("it is not valid (%s)", line(err.Error(), maxAbout))
	case u.Scheme != "https" && u.Scheme != "http":
		return "", nil, errors.New("it does not begin with https or http")
	case u.Hostname() == "" || u.Opaque != "":
		return "", nil, errors.New("it names no host")
	}

	start := strings.Index(shown, "//") + 2
	end := start + strings.IndexAny(shown[start:]+"/", "/?#")
	start += strings.LastIndex(shown[start:end], "@") + 1
	site := "Host: " + spellOut(u.Host)
	about = []block{
		{kind: address, text: shown, mark: [2]int{start, end}},
		{kind: address, text: site, mark: [2]int{len("Host: "), len(site)}},
	}
	name := strings.ToLower(u.Hostname())
	for _, w := range []struct {
		applies bool
		text    string
	}{
		{u.Scheme != "https", "It is not https: others on the network can read and change what you see and enter."},
		{u.User != nil, "What stands before the @ is no part of the host. It is often there to look like one."},
		{spellOut(name) != name, "The host has characters outside ASCII, which can look like others. They are spelled out " +
			"above."},
		{strings.Contains("."+name, ".xn--"), "The host is written in punycode (xn--…): shown in its own script, " +
			"it may look like another."},
		{isIP(name), "The host is a bare IP address, which says nothing about whose it is."},
	} {
		if w.applies {
			about = append(about, block{kind: warning, text: w.text})
		}
	}
	return shown, about, nil
}

// escape writes every byte outside ASCII as %XX. The address keeps its meaning, and cannot look like another one.
func escape(raw string) string {
	var b strings.Builder
	for i := range len(raw) {
		if raw[i] < 0x80 {
			b.WriteByte(raw[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", raw[i])
		}
	}
	return b.String()
}

// spellOut writes every character outside ASCII as its number.
func spellOut(s string) string {
	quoted := fmt.Sprintf("%+q", s)
	return quoted[1 : len(quoted)-1]
}

// isIP reports whether browsers read a host as an IP address. To them, 2130706433 and 0x7f.1 are 127.0.0.1.
func isIP(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = strings.TrimSuffix(name, ".")
	last := name[strings.LastIndex(name, ".")+1:]
	hex, isHex := strings.CutPrefix(last, "0x")
	return last != "" && strings.Trim(last, "0123456789") == "" || isHex && strings.Trim(hex, "0123456789abcdef") == ""
}
