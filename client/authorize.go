package client

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// authorizeOnce asks for authorization once while a session connects. When authorization is
// refused during server/discover, the SDK assumes a server of an earlier revision, connects
// again, and would send the user through the same authorization a second time.
type authorizeOnce struct {
	auth.OAuthHandler

	connected atomic.Bool // a refusal is not remembered any more
	mu        sync.Mutex
	refused   error
}

func (a *authorizeOnce) Authorize(ctx context.Context, req *http.Request, res *http.Response) error {
	if a.connected.Load() {
		return a.OAuthHandler.Authorize(ctx, req, res)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused == nil {
		a.refused = a.OAuthHandler.Authorize(ctx, req, res)
	} else {
		res.Body.Close()
	}
	return a.refused
}
