package checkreport

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/foreign"
)

func htmlText(t testing.TB, r *findings.Report) string {
	t.Helper()
	text, err := HTML(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// element is an element of a page, with its attributes and the text in it, and in what it contains.
type element struct {
	name       string
	attributes map[string]string
	text       string
}

// elements reads a page. The template is XML as well, so that a text that opens or closes an element is an error.
func elements(t testing.TB, page string) (all []*element) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(page))
	var open []*element
	for {
		token, err := decoder.Token()
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attributes: make(map[string]string)}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			all, open = append(all, e), append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			for _, e := range open {
				e.text += string(token)
			}
		}
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, page)
		}
	}
}

// texts returns the texts of the elements with a name and a class, with single spaces.
func texts(all []*element, name, class string) (found []string) {
	for _, e := range all {
		if e.name == name && (class == "" || slices.Contains(strings.Fields(e.attributes["class"]), class)) {
			found = append(found, strings.Join(strings.Fields(e.text), " "))
		}
	}
	return found
}

func TestHTMLHasTheReport(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Stopped, r.Remarks = "the server answered 503", []string{"an entry has expired"}
	all := elements(t, htmlText(t, r))
	for _, tt := range []struct {
		name, class string
		want        []string
	}{
		{"title", "", []string{"FAIL: http://127.0.0.1:8080/mcp (askback check)"}},
		{"h1", "", []string{"http://127.0.0.1:8080/mcp"}},
		{"p", "verdict", []string{"FAIL 1 broken requirement, 1 warning, 1 note"}},
		{"ul", "counts", []string{"1 fail 1 warn 1 note 3 passed 5 not judged"}},
		{"p", "ended", []string{"The run ended early: the server answered 503", "Baseline: an entry has expired"}},
		{"h2", "", []string{"Findings", "Accepted by the baseline", "Not judged", "What asks",
			"Every probe on every target", "What the words mean"}},
		{"h4", "", []string{"allow it with --allow wipe", "give a second one with --second-header",
			`name its time with "ttl" in the file of askback check init`}},
		{"summary", "", []string{"Transcript on tools/call deploy", "Transcript on tools/call deploy",
			"Transcript on tools/call wipe", "3 combinations of a probe and a target",
			"1 combination of a probe and a target", "1 combination of a probe and a target"}},
		{"td", "fail", []string{"Ffail"}},
		{"td", "warn", []string{"(W)warn, accepted", "Wwarn"}},
	} {
		if diff := cmp.Diff(tt.want, texts(all, tt.name, tt.class)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.name, tt.class, diff)
		}
	}
	article := texts(all, "article", "fail")
	for _, want := range []string{"FAIL A value in the state is replaced", "state-forged · MUST (MR-9)",
		"three times of three.", "(canary)", "tools/call deploy", "A client decides what the server believes",
		"Seal the state with an AEAD",
		"askback replay state-forged-tools-call-deploy.txt http://127.0.0.1:8080/mcp", `{"method":"tools/call"}`} {
		if len(article) != 1 || !strings.Contains(article[0], want) {
			t.Errorf("%q is not in %q", want, article)
		}
	}
}

func TestHTMLOfOtherVerdicts(t *testing.T) {
	t.Parallel()
	fine := &findings.Report{Verdicts: []findings.Verdict{{Probe: "ask-kind", Level: findings.Pass}}}
	for word, r := range map[string]*findings.Report{
		"NO FINDING in what was judged":      fine,
		"NOT JUDGED nothing could be judged": {Subject: "./server", Kind: "server"},
	} {
		if got := texts(elements(t, htmlText(t, r)), "p", "verdict"); !slices.Equal(got, []string{word}) {
			t.Errorf("%q, want %q", got, word)
		}
	}
}

// A finding on eleven targets is one article that names them all.
func TestHTMLGroupsAFinding(t *testing.T) {
	t.Parallel()
	r := &findings.Report{}
	for _, tool := range strings.Split("abcdefghijk", "") {
		r.Verdicts = append(r.Verdicts, findings.Verdict{Probe: "ask-link", Level: findings.Note,
			Target: "tools/call " + tool})
	}
	all := elements(t, htmlText(t, r))
	articles, names := texts(all, "article", ""), texts(all, "li", "")
	if len(articles) != 1 || !slices.Contains(names, "tools/call k") {
		t.Errorf("%q, %q", articles, names)
	}
}

// allowed are the elements and attributes of a page. None of them loads or runs anything.
var allowed = map[string]string{
	"html": "lang", "head": "", "meta": "charset http-equiv content name", "title": "", "style": "", "body": "",
	"main": "", "header": "", "nav": "aria-label", "section": "aria-labelledby", "article": "class",
	"div": "class role aria-labelledby tabindex", "p": "class", "h1": "", "h2": "id", "h3": "", "h4": "", "a": "href rel",
	"bdi": "", "b": "", "strong": "", "code": "", "span": "class aria-hidden", "ul": "class", "li": "class", "dl": "",
	"dt": "", "dd": "", "time": "datetime", "pre": "class", "details": "", "summary": "",
	"svg": "class viewBox preserveAspectRatio aria-hidden", "rect": "class x y width height",
	"table": "", "thead": "", "tbody": "", "tr": "", "th": "scope class colspan", "td": "class",
}

// checkPage reports what a page must not have, and returns its elements in one text.
func checkPage(t testing.TB, page string) string {
	t.Helper()
	var b strings.Builder
	for _, e := range elements(t, page) {
		b.WriteString(e.name + " ")
		known, ok := allowed[e.name]
		if !ok {
			t.Errorf("the element %s", e.name)
		}
		for name, value := range e.attributes {
			if !slices.Contains(strings.Fields(known), name) {
				t.Errorf("the attribute %s of %s", name, e.name)
			}
			if name == "href" && !strings.HasPrefix(value, "#") && value != clausesPage {
				t.Errorf("a link to %s", value)
			}
		}
	}
	for _, r := range page {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) && r != 0x200c) {
			t.Errorf("the page has %U", r)
		}
	}
	if strings.Contains(strings.ToLower(pageStyle), "url(") || strings.Contains(pageStyle, "@import") {
		t.Error("the style loads something")
	}
	return b.String()
}

// The bar is as long as there are verdicts, without gaps.
func TestHTMLBar(t *testing.T) {
	t.Parallel()
	at := 0
	var box string
	for _, e := range elements(t, htmlText(t, sample())) {
		switch e.name {
		case "svg":
			box = e.attributes["viewBox"]
		case "rect":
			width, err := strconv.Atoi(e.attributes["width"])
			if err != nil || e.attributes["x"] != strconv.Itoa(at) {
				t.Errorf("%v, %v, want x=%d", e.attributes, err, at)
			}
			at += width
		}
	}
	if want := fmt.Sprintf("0 0 %d 1", at); at != 11 || box != want {
		t.Errorf("%q, want %q", box, want)
	}
}

// The policy names the style of the page, and allows nothing else.
func TestHTMLPolicy(t *testing.T) {
	t.Parallel()
	all := elements(t, htmlText(t, sample()))
	at := slices.IndexFunc(all, func(e *element) bool { return e.attributes["http-equiv"] == "Content-Security-Policy" })
	style := slices.IndexFunc(all, func(e *element) bool { return e.name == "style" })
	if at < 0 || style < at {
		t.Fatal("there is no policy before the style")
	}
	want := "default-src 'none'; style-src 'sha256-" + hashOf(all[style].text) + "'; base-uri 'none'; form-action 'none'"
	if got := all[at].attributes["content"]; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestHTMLCutsLongTranscripts(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Verdicts[5].Transcript = strings.Repeat("é", maxTranscript)
	if page := htmlText(t, r); len(page) > 3*maxTranscript || !strings.Contains(page, "The rest is left out here.") {
		t.Errorf("%d bytes", len(page))
	}
}

// Whatever a stranger writes is text, and never an element. The characters that are shown are fuzzed in package
// foreign, and html/template escapes them.
func TestHTMLShowsWhatStrangersWrite(t *testing.T) {
	t.Parallel()
	want := checkPage(t, htmlText(t, hostile("x")))
	for _, text := range strange {
		page, shown := htmlText(t, hostile(text)), foreign.Line(text, maxWords)
		if shown == "" {
			continue // what is empty is left out
		}
		if got := checkPage(t, page); got != want {
			t.Errorf("%q changes the page:\n%s", text, cmp.Diff(want, got))
		}
		if !strings.Contains(html.UnescapeString(page), shown) {
			t.Errorf("%q is not shown", shown)
		}
	}
}
