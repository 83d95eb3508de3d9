package inbox_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// The arguments of the call are on the card whatever the author shows of it, and as text: markup and the characters
// that change how others are shown do nothing.
func TestTheCardHasPreviewAndArguments(t *testing.T) {
	o := newOffice(t)
	name := o.askFor("a", task.Task{ID: "a", Principal: "carol", Target: "deploy"},
		`{"to":"\u003cb\u003eeve\u202e","amount":1200.0,"z":"`+strings.Repeat("long", 8000)+`"}`,
		asked(1, func(a *stored.Asking, _ *task.Question) { a.Preview = "Pays <i>bob</i>." }))
	page := o.send("alice:release", http.MethodGet, "/q/"+name+"/q", "").Body.String()
	for _, part := range []string{"What the tool will do", "Pays &lt;i&gt;bob&lt;/i&gt;.", "Arguments of the call",
		"&#34;amount&#34;: 1200,\n  &#34;to&#34;: &#34;&lt;b&gt;eve<span class=\"unseen\">U+202E</span>&#34;",
		"longlong&#34;\n}</bdi></pre>"} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is not in the page:\n%s", part, page)
		}
	}
	if strings.Contains(page, "show all of it") {
		t.Error("the arguments are folded")
	}
}

// A card of ten megabytes of arguments is small, also if they are made to take as much of a page as they can. The rest
// is to be had, byte for byte, by those whom the question concerns.
func TestLargeArguments(t *testing.T) {
	for what, filler := range map[string]string{"letters": "x", "quotes": `\"`, "markup": "<", "controls": "\x7f",
		"directions": "\u202e", "blanks": "\u2800", "hyphens": "\u00ad"} {
		t.Run(what, func(t *testing.T) {
			o := newOffice(t)
			arguments := `{"a":"` + strings.Repeat(filler, (1<<20)/len(filler)) + `"}`
			name := o.askFor("a", task.Task{ID: "a", Principal: "carol", Target: "deploy"}, arguments, asked(1))
			path := "/api/questions/" + name + "/q"
			digest := sha256.Sum256([]byte(arguments))

			card := o.send("alice:release", http.MethodGet, "/q/"+name+"/q", "").Body.String()
			for _, part := range []string{hex.EncodeToString(digest[:]), `href="../../api/questions/` + name + `/q/arguments"`} {
				if !strings.Contains(card, part) {
					t.Errorf("%q is not in the page:\n%s", part, card)
				}
			}
			for where, most := range map[string]int{"/q/" + name + "/q": 60_000, path: 60_000, "/": 100_000,
				"/api/questions": 100_000} {
				w := o.send("alice:release", http.MethodGet, where, "")
				if w.Code != http.StatusOK || w.Body.Len() > most {
					t.Errorf("%s: status %d, %d bytes", where, w.Code, w.Body.Len())
				}
			}

			all := o.send("alice:release", http.MethodGet, path+"/arguments", "")
			if all.Body.String() != arguments || !strings.HasPrefix(all.Header().Get("Content-Disposition"), "attachment") {
				t.Errorf("status %d, %d bytes, %v", all.Code, all.Body.Len(), all.Header())
			}
			if w := o.send("eve", http.MethodGet, path+"/arguments", ""); w.Code != http.StatusNotFound {
				t.Errorf("somebody else gets status %d", w.Code)
			}
		})
	}
}
