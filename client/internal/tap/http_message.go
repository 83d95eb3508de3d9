package tap

import (
	"bytes"
	"io"
	"mime"
	"net/http"
)

// The media types of responses.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

func mediaType(res *http.Response) string {
	t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return t
}

// takeBody reads a request's body.
func takeBody(req *http.Request) ([]byte, error) {
	defer req.Body.Close()
	return io.ReadAll(req.Body)
}

// withBody returns a copy of a request with another body.
func withBody(req *http.Request, body []byte) *http.Request {
	req = req.Clone(req.Context())
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return req
}
