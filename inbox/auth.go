package inbox

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The pages on which people sign in and out, and the script of the sign-in page of a local inbox.
//
//go:embed auth
var authFiles embed.FS

var authTemplate = parseAuth("auth.html")

func parseAuth(name string) *template.Template {
	t := template.Must(template.New(name).Funcs(template.FuncMap{"asset": assetPath}).ParseFS(authFiles, "auth/"+name))
	return template.Must(t.ParseFS(files, "templates/resend.html"))
}

// authPage holds the texts of a page of signing in or out.
type authPage struct {
	Base     string // the way to the first page; empty means from directly below /auth/
	Problem  string // in words
	Token    bool   // a form for the token of a local inbox
	Return   string // the local path to go to after it
	Done     bool   // somebody has logged out
	Provider string // where they can log out of the provider, too
	Again    string // the address that somebody unknown has asked for
	Resend   *resend
}

func showAuth(w http.ResponseWriter, status int, p authPage) {
	p.Base = cmp.Or(p.Base, "../")
	var text bytes.Buffer
	if err := authTemplate.Execute(&text, p); err != nil {
		http.Error(w, "This page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // an error means that the browser is gone
}

// serveAuthAsset serves the files that the pages load.
func serveAuthAsset(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/auth/local.js" || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	http.ServeFileFS(w, r, authFiles, "auth/local.js")
}

// localPath returns the address to which somebody returns after signing in: a path below the inbox, whatever a link
// said. Anything else becomes "/".
func localPath(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Scheme != "", u.Host != "", u.User != nil, u.Opaque != "", len(address) > 2048,
		slices.Contains(strings.Split(u.Path, "/"), ".."),
		!strings.HasPrefix(address, "/"), strings.HasPrefix(address, "//"), strings.HasPrefix(address, "/auth/"),
		strings.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c == '\\' || c == 0x7f }):
		return "/"
	}
	return address
}

// redirect sends a browser from an address directly below /auth/ to a local path. The reference is relative, because
// the inbox does not know below which prefix it is.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", "../"+strings.TrimPrefix(to, "/"))
	w.WriteHeader(http.StatusSeeOther)
}

// signInAt returns the reference from a path to the page of signing in, which leads back to it.
func signInAt(u *url.URL) string {
	up := strings.Repeat("../", max(strings.Count(u.EscapedPath(), "/")-1, 0))
	return up + "auth/?" + url.Values{"return": {u.RequestURI()}}.Encode()
}
