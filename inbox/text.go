package inbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"github.com/askback-mcp/askback/internal/foreign"
)

// plain returns a foreign text for a place that has no elements, such as a title.
func plain(text string) string { return foreign.Shown(text) }

// oneLine is plain, on one line of at most 300 characters.
func oneLine(text string) string {
	const most = 300
	line := []rune(plain(strings.Join(strings.Fields(text), " ")))
	if len(line) > most {
		line = append(line[:most-1], '…')
	}
	return string(line)
}

// isolated returns a foreign text as HTML. Its direction of writing has no effect on the text around it, which could
// otherwise change its order.
func isolated(text string) template.HTML {
	var b strings.Builder
	b.WriteString("<bdi>")
	writeVisible(&b, text)
	b.WriteString("</bdi>")
	return template.HTML(b.String()) //nolint:gosec // writeVisible escapes each part
}

func writeVisible(b *strings.Builder, text string) {
	foreign.Visible(text, func(part string, isName bool) {
		if isName {
			part = `<span class="unseen">` + template.HTMLEscapeString(part) + `</span>`
		} else {
			part = template.HTMLEscapeString(part)
		}
		b.WriteString(part)
	})
}

// address matches what may be a link: anything with one of the two schemes, up to a space or a quote.
var address = regexp.MustCompile(`https?://[^\s<>"'` + "`" + `]+`)

// linked is isolated, with links to the http and https addresses in the text. Each is shown in full.
func linked(text string) template.HTML {
	var b strings.Builder
	b.WriteString("<bdi>")
	for text != "" {
		at := address.FindStringIndex(text)
		if at == nil {
			break
		}
		end := at[0] + len(strings.TrimRight(text[at[0]:at[1]], ".,;:!?)]}")) // these end a sentence, not an address
		writeVisible(&b, text[:at[0]])
		writeLink(&b, text[at[0]:end])
		text = text[end:]
	}
	writeVisible(&b, text)
	b.WriteString("</bdi>")
	return template.HTML(b.String()) //nolint:gosec // each part is escaped
}

// writeLink writes an address as a link if its host is plain to see, and otherwise as text. A name in front of the host
// (https://bank.example@evil.example) or letters of another script would let somebody take it for another host.
func writeLink(b *strings.Builder, link string) {
	u, err := url.Parse(link)
	if err != nil || u.Host == "" || u.User != nil || plain(link) != link || asciiHost(u) != u.Hostname() {
		writeVisible(b, link)
		return
	}
	fmt.Fprintf(b, `<a href="%s" rel="noopener noreferrer" target="_blank">%s</a>`,
		template.HTMLEscapeString(u.String()), template.HTMLEscapeString(link))
}

// asciiHost is the host of an address as the network has it, without letters that look like others.
func asciiHost(u *url.URL) string {
	host, err := idna.Punycode.ToASCII(strings.ToLower(u.Hostname()))
	if err != nil {
		return strconv.QuoteToASCII(u.Hostname())
	}
	return host
}

// page is the address of a page that a question sends people to.
type page struct {
	URL  string
	Host string // as the network has it, with the port
	// Reads is the host with the letters of other scripts, as a browser may show it. It is empty if that is the same.
	Reads  string
	Secure bool
	User   string // in front of the host, which can look like a host
}

func newPage(link string) (*page, bool) {
	u, err := url.Parse(link)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, false
	}
	p := &page{URL: u.String(), Host: asciiHost(u), Secure: u.Scheme == "https"}
	if reads, err := idna.Punycode.ToUnicode(p.Host); err == nil && reads != p.Host {
		p.Reads = reads
	}
	if port := u.Port(); port != "" {
		p.Host += ":" + port
	}
	if u.User != nil {
		p.User = u.User.String()
	}
	return p, true
}

// code is JSON, or a text, that is shown exactly.
type code struct {
	Text  template.HTML
	Lines int
	Size  string
	Large bool // it is folded
}

// What is longer is folded.
const (
	mostLines = 24
	mostBytes = 4 << 10
)

func newCode(raw json.RawMessage) *code {
	if len(raw) == 0 {
		return nil
	}
	text := string(raw)
	if b := new(bytes.Buffer); json.Indent(b, raw, "", "  ") == nil {
		text = foreign.Plain(b.Bytes())
	}
	lines := strings.Count(text, "\n") + 1
	return &code{isolated(text), lines, size(len(text)), lines > mostLines || len(text) > mostBytes}
}

func size(n int) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%d KB", (n+512)>>10)
}

// moment is a time with its distance from now.
type moment struct {
	time.Time
	now time.Time
}

// Machine is the time for a program.
func (m moment) Machine() string { return m.UTC().Format(time.RFC3339) }

// Full is the time for people who want to know exactly.
func (m moment) Full() string { return m.UTC().Format("2 January 2006, 15:04:05 UTC") }

// Clock is the time of the day, and the day unless it is today.
func (m moment) Clock() string {
	layout := "15:04 UTC"
	if at, now := m.UTC(), m.now.UTC(); at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		layout = "Mon 2 Jan, " + layout
	}
	return m.UTC().Format(layout)
}

// Distance is the time from now: "in 3 h 5 min", "12 min ago".
func (m moment) Distance() string {
	if d := m.Sub(m.now); d > 0 {
		return "in " + span(d)
	}
	return span(m.now.Sub(m.Time)) + " ago"
}

// Passed reports whether the time is over.
func (m moment) Passed() bool { return !m.After(m.now) }

// Soon reports whether little is left.
func (m moment) Soon() bool { return m.Sub(m.now) < time.Hour }

// span shows a duration in its two largest units.
func span(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.size, u.name)
		if i+1 < len(units) {
			if rest := d % u.size / units[i+1].size; rest > 0 && u.size > time.Minute {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "1 s"
}
