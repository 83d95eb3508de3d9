package inboxpage

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/serving"
	"github.com/askback-mcp/askback/cmd/askback/internal/storage"
)

// Each page for one user has a Unix socket in a directory that only this user can enter. Whoever reaches it gets a URL
// that signs in. No token is in a file, and nobody else can put a socket there that answers in the place of a page.

// Open prints a URL of each page, or of those that show one store.
func Open(cmd *cobra.Command, store string) error {
	dir, err := socketDir()
	if err != nil {
		return err
	}
	sockets, err := sockets(dir)
	if err != nil {
		return err
	}
	var pages []*signIn
	var failed []error
	for _, socket := range sockets {
		page, err := fetchSignIn(cmd.Context(), socket, store)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("a page does not answer: %w", err))
		case page != nil:
			pages = append(pages, page)
		}
	}
	for _, p := range pages {
		text := cli.Harmless(p.URL) + "\n"
		if len(pages) > 1 {
			text = cli.Harmless(p.Store) + "\n  " + text
		}
		if err := cli.Output(cmd.OutOrStdout(), text); err != nil {
			return err
		}
	}
	if pages == nil && failed == nil {
		of := ""
		if store != "" {
			of = " of this store"
		}
		return fmt.Errorf("no page%s runs here for you: start one with 'askback inbox serve --local'", of)
	}
	return errors.Join(failed...)
}

// signIn is the answer of a socket.
type signIn struct{ URL, Store string }

// socketDir returns the directory of the sockets. It makes it if it is not there.
func socketDir() (string, error) {
	dir, err := cli.StateDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "inbox")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err == nil {
		err = checkPrivateDir(info)
	}
	if err != nil {
		return "", fmt.Errorf("the directory %s: %w", dir, err)
	}
	return dir, nil
}

// sockets returns the sockets at which somebody listens. It removes the others, which killed processes have left,
// unless they are so young that a process may be about to listen.
func sockets(dir string) (all []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = c.Close()
			all = append(all, path)
		} else if info, failed := e.Info(); failed == nil && errors.Is(err, syscall.ECONNREFUSED) &&
			time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(path) // another process may be faster
		}
	}
	return all, err
}

// fetchSignIn asks a page for a URL. It returns nil if the page shows another store.
func fetchSignIn(ctx context.Context, socket, store string) (*signIn, error) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://inbox/", strings.NewReader(store))
	if err != nil {
		return nil, err
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusNotFound:
		return nil, nil
	case http.StatusOK:
	default:
		return nil, errors.New(res.Status)
	}
	page := new(signIn)
	return page, json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(page)
}

// handOut lets 'askback inbox open' have URLs of a page until done is called.
func handOut(ctx context.Context, store string, sign func() string, log *slog.Logger) (done func(), err error) {
	dir, err := socketDir()
	if err != nil {
		return func() {}, err
	}
	_, _ = sockets(dir) // removes those that are left over
	path := filepath.Join(dir, rand.Text()[:8])
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return func() {}, err
	}
	if err := os.Chmod(path, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = l.Close()
		return func() {}, err
	}
	store = storage.Public(store)
	server := serving.NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		if err != nil || len(want) > 0 && string(want) != store {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(&signIn{sign(), store}) // an error means that the other side is gone
	}), log)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	return func() { _ = server.Close(); <-ended }, nil
}
