package inbox

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// What a server or a person writes is shown as text: what could hide something or turn it around is named.
func TestTextIsShownAsText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"<script>alert(1)</script>", "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>"},
		{"abc\u202edef", `<bdi>abc<span class="unseen">U+202E</span>def</bdi>`},
		{"a\u200bb\x00c\x1b", `<bdi>a<span class="unseen">U+200B</span>b<span class="unseen">U+0000</span>c` +
			`<span class="unseen">U+001B</span></bdi>`},
		{"a\xffb", `<bdi>a<span class="unseen">\xff</span>b</bdi>`},
		{"a\r\nb\tc é 日本 👩\u200d👧", "<bdi>a\nb\tc é 日本 👩\u200d👧</bdi>"},
		{"see https://a.example/x?y=1&z=2.", `<bdi>see <a href="https://a.example/x?y=1&amp;z=2" rel="noopener noreferrer" ` +
			`target="_blank">https://a.example/x?y=1&amp;z=2</a>.</bdi>`},
		{"javascript:alert(1) data:,x ftp://a.example", "<bdi>javascript:alert(1) data:,x ftp://a.example</bdi>"},
		{"https://bank.example@evil.example/", "<bdi>https://bank.example@evil.example/</bdi>"}, // no link
		{"https://b\u0430nk.example/", "<bdi>https://b\u0430nk.example/</bdi>"},                 // a letter of another script
		{"https://a.example/\u202e", `<bdi>https://a.example/<span class="unseen">U+202E</span></bdi>`},
		{`https://a.example/"onclick="x`, `<bdi><a href="https://a.example/" rel="noopener noreferrer" target="_blank">` +
			`https://a.example/</a>&#34;onclick=&#34;x</bdi>`},
	} {
		if got := string(linked(c.text)); got != c.want {
			t.Errorf("%q is shown as\n%s, want\n%s", c.text, got, c.want)
		}
	}
}

// The host of a page is the one that the network has.
func TestPages(t *testing.T) {
	for _, c := range []struct{ link, host, reads, user string }{
		{"https://example.com/x", "example.com", "", ""},
		{"https://EXAMPLE.com:8443/x", "example.com:8443", "", ""},
		{"https://ex\u00e4mple.com/x", "xn--exmple-cua.com", "exämple.com", ""},
		{"https://xn--exmple-cua.com/x", "xn--exmple-cua.com", "exämple.com", ""},
		{"https://bank.example:secret@evil.example/", "evil.example", "", "bank.example:secret"},
		{"http://[::1]:80/", "::1:80", "", ""},
	} {
		p, ok := newPage(c.link)
		if !ok || p.Host != c.host || p.Reads != c.reads || p.User != c.user {
			t.Errorf("%s: %+v", c.link, p)
		}
	}
	for _, link := range []string{"javascript:alert(1)", "https:///x", "//example.com", "%", ""} {
		if _, ok := newPage(link); ok {
			t.Errorf("%q is the address of a page", link)
		}
	}
}

// Markdown gives text its form and nothing else: no element of its own, no image, no link that hides where it leads.
func TestMarkdown(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"# Go on?\n\nIt is **new**.", "<h3>Go on?</h3><p>It is <strong>new</strong>.</p>\n"},
		{"[the docs](https://a.example/x)", `<p>the docs (<bdi><a href="https://a.example/x" rel="noopener noreferrer" ` +
			`target="_blank">https://a.example/x</a></bdi>)</p>` + "\n"},
		{"[a](javascript:alert(1))", "<p>a (<bdi>javascript:alert(1)</bdi>)</p>\n"},
		{"![pixel](https://a.example/p.png)", `<p>pixel (<bdi><a href="https://a.example/p.png" rel="noopener noreferrer" ` +
			`target="_blank">https://a.example/p.png</a></bdi>)</p>` + "\n"},
		{"<b onclick=x>b</b>", "<p>&lt;b onclick=x&gt;b&lt;/b&gt;</p>\n"},
		{"<script>\nx\n</script>", "<pre>&lt;script&gt;\nx\n&lt;/script&gt;</pre>\n"},
		{"<https://a.example/>", `<p><bdi><a href="https://a.example/" rel="noopener noreferrer" target="_blank">` +
			`https://a.example/</a></bdi></p>` + "\n"},
		{"a\u202eb", "<p>a⟨U+202E⟩b</p>\n"},
	} {
		if got := string(markdown(c.source)); got != c.want {
			t.Errorf("%q is rendered as\n%s, want\n%s", c.source, got, c.want)
		}
	}
}

// What Markdown may become: the elements, attributes and addresses of the renderer.
var (
	element = regexp.MustCompile(`<([^>]*)>`)
	safe    = regexp.MustCompile(`^(/?(p|h[3-6]|strong|em|del|ul|ol|li|blockquote|pre|code|bdi|table|thead|tbody|tr|th|` +
		`td|br|hr|a)( /)?|ol start="\d+"|code class="language-[^"<>]*"|t[hd] align="(left|right|center)"|` +
		`a href="https?://[^"<>]*" rel="noopener noreferrer" target="_blank")$`)
)

func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{"# a\n* b\n\n|a|b|\n|:-|-:|\n|c|d|", "[a]: https://x\n![a] <b> <!-- c -->",
		"```x y\n<b>\n```\n1) ~~a~~", "<https://a.example/\u202e>", "[a](//b.example) [c](data:x \"t\")"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		for _, found := range element.FindAllStringSubmatch(string(markdown(source)), -1) {
			if !safe.MatchString(found[1]) {
				t.Errorf("%q has the element %q", source, found[0])
			}
		}
	})
}

// A link to a question leads to it, whatever its key is.
func TestLinks(t *testing.T) {
	for _, key := range []string{"approve", "a b", "a/b", "ä?#%", "(put) x#2"} {
		u, err := url.Parse("./" + linkTo("NAME", key))
		if err != nil || u.Path != "./q/NAME/"+key || strings.Count(u.EscapedPath(), "/") != 3 {
			t.Errorf("%q: %v, %v", key, u, err)
		}
	}
}
