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
	"log/slog"
	"net/http"

	"github.com/askback-mcp/askback/desk"
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
	// ReceiptKeys returns the JWK set that verifies the receipts of decisions, such as the method Public of receipt.File
	// does. It is published at /receipts.jwks, to everybody, and called for each request. Nil means no such page.
	ReceiptKeys func() ([]byte, error)
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

// ServeHTTP serves a request.
func (in *Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { in.handler.ServeHTTP(w, r) }
