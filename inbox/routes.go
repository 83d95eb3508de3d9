package inbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/throttle"
)

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
	if o.ReceiptKeys != nil {
		in.mux.HandleFunc("GET /receipts.jwks", func(w http.ResponseWriter, r *http.Request) {
			in.publish(w, r, o.ReceiptKeys)
		})
	}
	return in, nil
}

// publish sends the public keys of receipts.
func (in *Inbox) publish(w http.ResponseWriter, r *http.Request, read func() ([]byte, error)) {
	keys, err := read()
	if err != nil {
		in.log.ErrorContext(r.Context(), "inbox: the keys of receipts cannot be read", "error", err)
		http.Error(w, "The keys cannot be read now.", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/jwk-set+json")
	_, _ = w.Write(keys) // an error means that the client is gone
}

func (in *Inbox) routes() {
	for _, t := range tabs[:len(tabs)-1] {
		in.handle("GET /"+cmp.Or(t.Path, "{$}"), in.list(t))
	}
	in.handle("GET /"+rememberedTab.Path, in.remembered)
	in.handle("POST /"+rememberedTab.Path, in.forget)
	in.handle("GET /q/{name}/{key}", in.card)
	in.handle("POST /q/{name}/{key}", in.act)
	in.handle("GET /help", func(w http.ResponseWriter, r *http.Request, p desk.Person) {
		in.show(w, r, http.StatusOK, "help", in.view(r, p, "Help"))
	})
	in.mux.HandleFunc("GET /assets/{hash}/{name}", serveAsset)
}
