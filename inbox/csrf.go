package inbox

import (
	"net/http"
)

// guard lets a request pass to next unless another site made a browser send it. Every response gets the headers that
// protect it.
//
// A change is a POST, and must come from a page of the inbox itself, by Sec-Fetch-Site or Origin. Other sites must not
// even read the addresses for programs: the time of a response would tell them what the person of the browser may see.
func guard(next http.Handler) http.Handler {
	var protection http.CrossOriginProtection
	protection.SetDenyHandler(http.HandlerFunc(refuseForeign))
	changes := protection.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		site := r.Header.Get("Sec-Fetch-Site")
		if forPrograms(r) && site != "" && site != "same-origin" && site != "none" {
			refuseForeign(w, r)
			return
		}
		changes.ServeHTTP(w, r)
	})
}

func refuseForeign(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, &problem{kind: "foreign", Status: http.StatusForbidden,
		Title: "This request was sent by another site. Open the inbox itself, and do it there."})
}
