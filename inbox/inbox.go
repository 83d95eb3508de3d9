// Package inbox shows people what waits for them on a desk, and takes their answers: a page and an API over package
// desk, as an http.Handler.
//
//	d, err := desk.Open(store, nil) // the store of askback.Tasks
//	page, err := inbox.New(d, &inbox.Options{
//		Title: "shop",
//		Identity: inbox.TrustedHeader{Name: "X-Auth-Request-User", Groups: "X-Auth-Request-Groups",
//			Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32")}},
//	})
//	http.Handle("/inbox/", http.StripPrefix("/inbox", page))
//
// A person sees what waits for them, what they have answered and what their own calls have asked, each in a list with a
// search. A card shows one question: who asks, the exact arguments of the call or the preview of its author, the votes
// so far, equal calls that wait beside it, and a form made from the question's schema. People accept, decline with a
// reason, dismiss, claim, hand over and extend. Somebody whom a question does not concern gets 404 for it.
//
// The pages are plain HTML with forms and links, and work without JavaScript. With it there are keys, live updates and
// notifications of the browser. They follow the light or dark colours of the system and fit a phone. Nothing is loaded
// from elsewhere, and a Content-Security-Policy allows no script or style in a page.
//
// What servers and people write is shown as text: characters that show nothing or turn the direction of writing are
// named, and links are shown in full. Markdown is rendered only where the author of the question says that it is
// Markdown, without HTML and images.
//
// A link has no authority: the [Identity] says who sends each request, and the desk decides what that person may do.
package inbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/throttle"
)

// Identity finds out who sent a request. It is asked at every request, by several goroutines at once.
//
// The middleware of your own program is an [IdentityFunc], which reads what the middleware has put into the context of
// the request. Behind a proxy it is a [TrustedHeader]. With [NewOIDC] people sign in at the inbox.
type Identity interface {
	// Person returns who sent the request, with the groups that they are in at this time. An error means that this is
	// not known: the request is refused with 401, and the error is logged and not shown.
	Person(r *http.Request) (desk.Person, error)
}

// IdentityFunc is a function that is an [Identity].
type IdentityFunc func(r *http.Request) (desk.Person, error)

// Person calls the function.
func (f IdentityFunc) Person(r *http.Request) (desk.Person, error) { return f(r) }

// Options configure an [Inbox].
type Options struct {
	// Identity names the sender of a request. It is required.
	Identity Identity
	// Title is shown at the top of each page, such as the name of the server whose questions they are. Default "Inbox".
	Title string
	// Logger gets what goes wrong. Nil means slog.Default.
	Logger *slog.Logger
}

// Inbox is the page of a desk, and an http.Handler. Its links are relative, so it can be mounted below any prefix with
// [http.StripPrefix]. It is safe for concurrent use.
type Inbox struct {
	desk     *desk.Desk
	identity Identity
	title    string
	log      *slog.Logger
	mux      *http.ServeMux
	handler  http.Handler // mux, behind the guard
	bounds   bounds
	streams  streams
}

// New returns an inbox of a desk. The error is for options that cannot be used.
func New(d *desk.Desk, o *Options) (*Inbox, error) {
	if d == nil {
		return nil, errors.New("inbox: there is no desk")
	}
	if o == nil || o.Identity == nil {
		return nil, errors.New("inbox: Options.Identity is missing: the inbox must know who answers")
	}
	in := &Inbox{desk: d, identity: o.Identity, title: o.Title, log: o.Logger, mux: http.NewServeMux()}
	if in.title == "" {
		in.title = "Inbox"
	}
	if in.log == nil {
		in.log = slog.Default()
	}
	in.log = throttle.New(in.log)
	in.handler = guard(in.mux)
	in.streams.changes = in.follow
	in.serveAPI()
	if c, ok := o.Identity.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("inbox: %w", err)
		}
	}
	if s, ok := o.Identity.(signIn); ok {
		in.mux.HandleFunc("/auth/", func(w http.ResponseWriter, r *http.Request) {
			if p := readBody(w, r, mostSignIn); p != nil {
				refuse(w, r, p)
				return
			}
			s.ServeHTTP(w, r)
		})
	}
	in.routes()
	return in, nil
}

func (in *Inbox) routes() {
	for _, t := range tabs {
		in.handle("GET /"+cmp.Or(t.Path, "{$}"), in.list(t))
	}
	in.handle("GET /q/{name}/{key}", in.card)
	in.handle("POST /q/{name}/{key}", in.act)
	in.handle("GET /help", func(w http.ResponseWriter, r *http.Request, p desk.Person) {
		in.show(w, r, http.StatusOK, "help", in.view(r, p, "Help"))
	})
	in.mux.HandleFunc("GET /assets/{hash}/{name}", serveAsset)
}

// ServeHTTP serves a request.
func (in *Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { in.handler.ServeHTTP(w, r) }

// handle serves the requests of a pattern, for somebody whose identity is known, within the bounds of one person.
func (in *Inbox) handle(pattern string, serve func(w http.ResponseWriter, r *http.Request, p desk.Person)) {
	in.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		p, err := in.person(r)
		if err != nil {
			in.refuseUnknown(w, r, err)
			return
		}
		change := r.Method != http.MethodGet && r.Method != http.MethodHead
		if ok, why := in.bounds.enter(p.Name, change, time.Now()); !ok {
			refuse(w, r, &problem{kind: "too-many", Status: http.StatusTooManyRequests, Title: why, retry: 1})
			return
		}
		defer in.bounds.leave(p.Name)
		if change {
			if problem := readBody(w, r, mostBody); problem != nil {
				refuse(w, r, problem)
				return
			}
		}
		serve(w, r, p)
	})
}

// person returns the sender of a request. It refuses a person whom a desk would refuse, so that the log has the reason.
func (in *Inbox) person(r *http.Request) (desk.Person, error) {
	p, err := in.identity.Person(r)
	if err == nil {
		err = checkPerson(p)
	}
	if err != nil {
		return desk.Person{}, err
	}
	return p, nil
}

// refuseUnknown refuses a request of which it is not known who sent it. Somebody who can sign in is led there.
func (in *Inbox) refuseUnknown(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, errSignedOut) {
		in.log.WarnContext(r.Context(), "inbox: the sender of a request is not known", "path", r.URL.Path, "error", err)
	}
	_, canSignIn := in.identity.(signIn)
	if canSignIn && r.Method == http.MethodGet && !forPrograms(r) {
		w.Header().Set("Location", signInAt(r.URL))
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	const words = "The inbox does not know who you are: sign in."
	if forPrograms(r) {
		refuse(w, r, &problem{kind: "unknown-person", Status: http.StatusUnauthorized, Title: words})
		return
	}
	page := authPage{Base: base(r), Problem: words, Again: base(r) + strings.TrimPrefix(r.URL.RequestURI(), "/")}
	if r.Method == http.MethodPost && readBody(w, r, mostSignIn) == nil && r.ParseForm() == nil {
		if page.Resend = newResend(r.PostForm); page.Resend != nil {
			page.Problem = "You are signed out, so nothing is recorded. What you have written is still here."
		}
	}
	showAuth(w, http.StatusUnauthorized, page)
}
