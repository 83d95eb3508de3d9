package rawclient

import (
	"net/http"
	"time"
)

// Direct returns an HTTP client for servers that nobody trusts. It follows no redirect, keeps no cookie and asks for no
// compression. The headers of a response may take 64 KB and the given time. [Client.MaxBytes] bounds the bodies, and
// the context of a request bounds their time.
func Direct(headers time.Duration) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	transport.ResponseHeaderTimeout = headers
	transport.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
