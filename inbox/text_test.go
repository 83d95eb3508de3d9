package inbox

import (
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// What a server or a person writes is shown as text: what could hide something or turn it around is named.
func TestTextIsShownAsText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"<script>alert(1)</script>", "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>"},
		{"abc\u202edef", `<bdi>abc<span class="unseen">U+202E</span>def</bdi>`},
		{"a\u200bb\x00c\x1b", `<bdi>a<span class="unseen">U+200B</span>b<span class="unseen">U+0000</span>c` +
			`<span class="unseen">U+001B</span></bdi>`},
		{"1\ufe0f\u20e3 \u2764\ufe0f\u200d\U0001f525", "<bdi>1\ufe0f\u20e3 \u2764\ufe0f\u200d\U0001f525</bdi>"},
		{"\u0646\u0645\u06cc\u200c\u062e", "<bdi>\u0646\u0645\u06cc\u200c\u062e</bdi>"},
		{"a\u200db\u3164c\u115f\u034f\u2800", `<bdi>a<span class="unseen">U+200D</span>b<span class="unseen">U+3164</span>c` +
			`<span class="unseen">U+115F</span><span class="unseen">U+034F</span><span class="unseen">U+2800</span></bdi>`},
		{"\u65e5\U000e0101\U000e0102\U000e0041\ufe0f", "<bdi>\u65e5" + `<span class="unseen">U+E0101</span>` +
			`<span class="unseen">U+E0102</span><span class="unseen">U+E0041</span><span class="unseen">U+FE0F</span></bdi>`},
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
		{"a&#8238;b &#x1b;[2J &#12644; &shy; &NoBreak;", "<p>a⟨U+202E⟩b ⟨U+001B⟩[2J ⟨U+3164⟩ ⟨U+00AD⟩ ⟨U+2060⟩</p>\n"},
		{"[&#8238;](x&#8238;)", "<p>⟨U+202E⟩ (<bdi>x&amp;#8238;</bdi>)</p>\n"},
		{"```a&#8238;\n&#8238;\n```", `<pre><code class="language-a⟨U+202E⟩">&amp;#8238;` + "\n</code></pre>\n"},
	} {
		if got := string(markdown(c.source)); got != c.want {
			t.Errorf("%q is rendered as\n%s, want\n%s", c.source, got, c.want)
		}
	}
}

// Markdown that is nested too deep, or whose marks and cells cost more than is spent on a page, is shown as it is. All
// that people write is rendered.
func TestCostlyMarkdown(t *testing.T) {
	table := func(columns, lines int) string {
		line := strings.Repeat("|a", columns) + "\n"
		return line + strings.Repeat("|-", columns) + "\n" + strings.Repeat(line, lines)
	}
	for name, c := range map[string]struct {
		least, most string // the largest that is rendered, and the smallest that is not
	}{
		"quotes":         {strings.Repeat("> ", 32) + "a", strings.Repeat("> ", 33) + "a"},
		"lists":          {strings.Repeat("- ", 32) + "a", strings.Repeat("- ", 15_000) + "a"},
		"numbers":        {strings.Repeat("1. ", 32) + "a", strings.Repeat("1) - > ", 11) + "a"},
		"lists by lines": {"- a\n  - b\n    - c", strings.Repeat("  ", 40) + "- a"},
		"links":          {strings.Repeat("[a](", 700), strings.Repeat("[a](", 1000)},
		"emphasis":       {strings.Repeat("*a_ ", 700), strings.Repeat("*a_ ", 1000)},
		"elements":       {strings.Repeat("<!--", 1400), strings.Repeat("<!--", 1500)},
		"a table":        {table(20, 1000), table(200, 200)},
		"lines":          {strings.Repeat("- **a**: `b`\n", 3000), strings.Repeat("**a**: `b`\n", 3000)},
		"paragraphs": {strings.Repeat("**a**: [b](https://c.example/) `d`\n\n", 5000),
			strings.Repeat(strings.Repeat("[", 999)+"\n\n", 5)},
		"a line like none": {strings.Repeat("a", 1<<20), strings.Repeat("[", 1<<16)},
	} {
		if isCostly(c.least) {
			t.Errorf("%s: what people write is not rendered", name)
		}
		if !isCostly(c.most) || markdown(c.most) != linked(c.most) {
			t.Errorf("%s: %.80q is rendered", name, c.most)
		}
	}
}

// seen is what somebody sees of HTML: its texts, and the attributes that a browser shows.
func seen(t *testing.T, page template.HTML) (texts []string, links [][2]string) {
	t.Helper()
	root := expect.Must(html.Parse(strings.NewReader(string(page))))(t)
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			texts = append(texts, n.Data)
		}
		for _, a := range n.Attr {
			texts = append(texts, a.Val)
			if a.Key == "href" {
				links = append(links, [2]string{a.Val, n.FirstChild.Data})
			}
		}
	}
	return texts, links
}

// hidesNothing requires that a finished text has no character that shows nothing or turns others around, however it was
// written, and that each link shows where it leads.
func hidesNothing(t *testing.T, source string, page template.HTML) {
	t.Helper()
	texts, links := seen(t, page)
	for _, text := range texts {
		if plain(text) != text {
			t.Errorf("%q is shown with %q", source, text)
		}
	}
	for _, l := range links {
		u, err := url.Parse(l[0])
		shown, err2 := url.Parse(l[1])
		if err != nil || err2 != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Host == "" ||
			u.Host != shown.Host || strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII }) {
			t.Errorf("%q has a link %q that leads to %q", source, l[1], l[0])
		}
	}
}

// Whatever a text is, nothing of it is hidden or turned around, and it becomes nothing but text and links.
func FuzzLinked(f *testing.F) {
	for _, s := range []string{"see https://a.example/x?y=1&z=2.", "https://a.example/\u202e",
		"https://b\u0430nk.example/", "https://u@h/ http://[::1]:80/ HTTPS://X",
		"a\u200d\u200d\u3164\x1b\xff", "&#8238; <b> \"'", "https://x\u200d/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		page := linked(text)
		hidesNothing(t, text, page)
		hidesNothing(t, text, isolated(text))
		for _, found := range element.FindAllStringSubmatch(string(page), -1) {
			if !safe.MatchString(found[1]) {
				t.Errorf("%q has the element %q", text, found[0])
			}
		}
		if line := oneLine(text); plain(line) != line || strings.Contains(line, "\n") {
			t.Errorf("%q is %q on one line", text, line)
		}
		if p, ok := newPage(text); ok && strings.ContainsFunc(p.Host, func(r rune) bool { return r > unicode.MaxASCII }) {
			t.Errorf("%q leads to the host %q", text, p.Host)
		}
	})
}

// What Markdown may become: the elements, attributes and addresses of the renderer.
var (
	element = regexp.MustCompile(`<([^>]*)>`)
	safe    = regexp.MustCompile(`^(/?(p|h[3-6]|strong|em|del|ul|ol|li|blockquote|pre|code|bdi|table|thead|tbody|tr|th|` +
		`td|br|hr|a)( /)?|/span|span class="unseen"|ol start="\d+"|` +
		`code class="language-[^"<>]*"|t[hd] align="(left|right|center)"|` +
		`a href="https?://[^"<>]*" rel="noopener noreferrer" target="_blank")$`)
)

func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{"# a\n* b\n\n|a|b|\n|:-|-:|\n|c|d|", "[a]: https://x\n![a] <b> <!-- c -->",
		"```x y\n<b>\n```\n1) ~~a~~", "<https://a.example/\u202e>", "&#8238;&#x1b; [a](https://x/&#8238;) ```&#8238;",
		"[a](//b.example) [c](data:x \"t\")"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		page := markdown(source)
		hidesNothing(t, source, page)
		for _, found := range element.FindAllStringSubmatch(string(page), -1) {
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
