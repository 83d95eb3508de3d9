package transport

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// Stall sends n requests whose bodies stop in the middle, until ctx is done. Each of them that ends is a value of
// ended, and wait returns when all are over.
func (l *Line) Stall(ctx context.Context, q Request, n int) (ended <-chan struct{}, wait func()) {
	body, _ := json.Marshal(q.Message(l.Sent + 1)) // it has a JSON form
	c := l.client("", "")
	c.HTTP = rawclient.Direct(0)
	l.Sent += n
	over := make(chan struct{}, n)
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			req, err := c.NewRequest(ctx, http.MethodPost, &halfBody{body[:len(body)/2], ctx.Done()}, q.Mirror())
			if err != nil {
				return
			}
			req.ContentLength = int64(len(body))
			if s, err := c.Do(req); err == nil {
				_ = s.Close()
			}
			over <- struct{}{}
		})
	}
	return over, func() {
		group.Wait()
		c.HTTP.CloseIdleConnections()
	}
}

// A halfBody is a request body that stalls after some bytes, until the request is given up.
type halfBody struct {
	left []byte
	end  <-chan struct{}
}

func (h *halfBody) Read(b []byte) (int, error) {
	if len(h.left) > 0 {
		n := copy(b, h.left)
		h.left = h.left[n:]
		return n, nil
	}
	<-h.end
	return 0, io.ErrUnexpectedEOF
}
