package inbox

import (
	"bytes"
	"cmp"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// view holds the parts that each page shows around its content.
type view struct {
	Base    string // the way from this page to the first one, as links are relative
	Site    string
	Heading string
	Person  desk.Person
	SignOut bool   // the person has signed in here
	Waits   string // how many questions wait for the person, on the page that lists them
	Told    string // what has just been done
	Done    bool   // it is an answer that was accepted
	Problem string // why it was not done
}

func (in *Inbox) view(r *http.Request, p desk.Person, heading string) view {
	_, signsIn := in.identity.(signIn)
	return view{Base: base(r), Site: in.title, Heading: heading, Person: p, SignOut: signsIn}
}

// base returns the relative way from the page of a request to the first page.
func base(r *http.Request) string {
	if up := strings.Repeat("../", strings.Count(r.URL.EscapedPath(), "/")-1); up != "" {
		return up
	}
	return "./"
}

// linkTo is the way from the first page to the page of a question.
func linkTo(name, key string) string { return "q/" + url.PathEscape(name) + "/" + url.PathEscape(key) }

// templates are parsed when the first page is shown: a program that has an inbox need not serve it.
var templates = sync.OnceValue(func() map[string]*template.Template {
	functions := template.FuncMap{"asset": assetPath, "text": isolated, "linked": linked, "line": oneLine}
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(files, "templates/layout.html",
		"templates/resend.html"))
	all := make(map[string]*template.Template)
	for _, name := range []string{"list", "card", "help", "message", "remembered"} {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return all
})

// show writes a page.
func (in *Inbox) show(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	var page bytes.Buffer
	if err := templates()[name].Execute(&page, data); err != nil {
		in.log.ErrorContext(r.Context(), "inbox: a page cannot be made", "page", name, "error", err)
		http.Error(w, "This page cannot be shown. The operator finds the reason in the log.",
			http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // the browser may be gone
}

// message is a page with nothing but a few words.
type message struct {
	view
	Text   string
	Resend *resend
}

// resend is a form that was not taken, in a page that can send it again. So nothing that somebody has written is lost.
type resend struct {
	Inputs  []struct{ Name, Value string }
	Written []string // what somebody wrote, as they read it
}

// newResend returns the form of a request, or nil.
func newResend(sent url.Values) *resend {
	if len(sent) == 0 {
		return nil
	}
	f := new(resend)
	byNumber := func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) } // f2 before f10
	for _, name := range slices.SortedFunc(maps.Keys(sent), byNumber) {
		for _, value := range sent[name] {
			f.Inputs = append(f.Inputs, struct{ Name, Value string }{name, value})
			if !slices.Contains([]string{"", "do", "shown", "from", "for"}, name) && len(value) > 2 { // shorter ones are choices
				f.Written = append(f.Written, plain(value))
			}
		}
	}
	return f
}

func (in *Inbox) say(w http.ResponseWriter, r *http.Request, p desk.Person, status int, heading, text string) {
	in.show(w, r, status, "message", message{in.view(r, p, heading), text, newResend(r.PostForm)})
}

// failPage shows why something cannot be shown or done. A question that does not concern a person looks like one that
// does not exist, so that nobody can find out which questions there are.
func (in *Inbox) failPage(w http.ResponseWriter, r *http.Request, p desk.Person, err error) {
	problem, known := problemOf(err)
	heading := "This cannot be done"
	switch {
	case !known:
		in.log.ErrorContext(r.Context(), "inbox: a page failed", "path", r.URL.Path, "error", err)
		heading = "The inbox does not answer"
	case errors.Is(err, task.ErrNotFound):
		heading = "Not found"
	}
	in.say(w, r, p, problem.Status, heading, plain(problem.Title))
}

// leadTo sends a browser to another page of the inbox, after a form. The reference is relative to this page.
func leadTo(w http.ResponseWriter, r *http.Request, to string) {
	w.Header().Set("Location", base(r)+to) // not http.Redirect, which does not know what is in front of the path
	w.WriteHeader(http.StatusSeeOther)
}
