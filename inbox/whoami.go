package inbox

import (
	"bytes"
	"net/http"

	"github.com/askback-mcp/askback/desk"
)

var whoamiTemplate = parseAuth("whoami.html")

// whoami serves the page on which people see who the inbox takes them for, byte by byte.
func whoami(w http.ResponseWriter, _ *http.Request, p desk.Person) {
	var text bytes.Buffer
	if err := whoamiTemplate.Execute(&text, p); err != nil {
		http.Error(w, "This page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text.Bytes()) // an error means that the browser is gone
}
