package inbox

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
)

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
