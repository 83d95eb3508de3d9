package tap

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// post sends a request that must not be sent twice.
func post(t *testing.T, base http.RoundTripper, url string) (*Delivery, error) {
	t.Helper()
	d := &Delivery{Once: true}
	req, err := http.NewRequestWithContext(d.Context(t.Context()), http.MethodPost, url, strings.NewReader("{}"))
	expect.Check(t, err)
	res, err := d.RoundTrip(base, req)
	if err == nil {
		res.Body.Close()
	}
	return d, err
}

// A request is begun from the moment on in which there is a connection for it, and as far as anybody knows also over a
// transport that does not report its connections.
func TestADeliveryBegins(t *testing.T) {
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cut.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	silent := roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("no") })
	for name, c := range map[string]struct {
		base  http.RoundTripper
		url   string
		begun bool
	}{
		"cut":     {new(http.Transport), cut.URL, true},
		"refused": {new(http.Transport), closed.URL, false},
		"unknown": {silent, closed.URL, true},
	} {
		if d, err := post(t, c.base, c.url); err == nil || d.Begun() != c.begun {
			t.Errorf("%s: begun %v, %v", name, d.Begun(), err)
		}
	}
}

// HTTP/2 lets a server refuse a stream that has arrived. The client would send the request again on its own.
func TestHTTP2DoesNotSendARequestTwice(t *testing.T) {
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: secure.TLS.Certificates, NextProtos: []string{"h2"}})
	expect.Check(t, err)
	defer listener.Close()
	var streams atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go refuseStreams(conn, &streams)
		}
	}()
	transport := secure.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = true
	defer transport.CloseIdleConnections()
	d, err := post(t, transport, "https://"+listener.Addr().String())
	if n := streams.Load(); err == nil || n != 1 || !d.Begun() {
		t.Errorf("the server got the request %d times, begun %v, %v", n, d.Begun(), err)
	}
}

// refuseStreams answers each stream of HTTP/2 with REFUSED_STREAM (RFC 9113, section 8.7).
func refuseStreams(conn net.Conn, streams *atomic.Int64) {
	defer conn.Close()
	const headers, reset, settings, refused = 1, 3, 4, 7
	if _, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	_, _ = conn.Write([]byte{0, 0, 0, settings, 0, 0, 0, 0, 0})
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		size := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, size); err != nil {
			return
		}
		switch {
		case head[3] == settings && head[4] == 0:
			_, _ = conn.Write([]byte{0, 0, 0, settings, 1, 0, 0, 0, 0})
		case head[3] == headers:
			streams.Add(1)
			frame := append([]byte{0, 0, 4, reset, 0}, head[5:9]...)
			_, _ = conn.Write(binary.BigEndian.AppendUint32(frame, refused))
		}
	}
}

// broken is a connection to a program that takes some bytes of a message and fails.
type broken struct {
	mcp.Connection
	takes, written int64
}

func (b *broken) Written() int64 { return b.written }

func (b *broken) Write(context.Context, jsonrpc.Message) error {
	b.written += b.takes
	return io.ErrClosedPipe
}

func TestAProgramThatGotNothing(t *testing.T) {
	id, _ := jsonrpc.MakeID("1")
	for takes, begun := range map[int64]bool{0: false, 1: true} {
		c := &connection{Connection: &broken{takes: takes}, config: &config, open: make(map[jsonrpc.ID]request)}
		x := new(Exchange)
		err := c.Write(x.Context(t.Context()), &jsonrpc.Request{ID: id, Method: "tools/call",
			Params: json.RawMessage(`{"name":"a"}`)})
		if err == nil || x.Delivery.Begun() != begun {
			t.Errorf("%d bytes: begun %v, %v", takes, x.Delivery.Begun(), err)
		}
	}
}

// What a server says about a missing authorization reaches the words of the error.
func TestChallengesAreTold(t *testing.T) {
	for _, c := range []struct {
		headers []string
		want    string
	}{
		{nil, ""},
		{[]string{`Bearer`}, ""},
		{[]string{`Bearer realm="x", scope="a b"`}, `, scope "a b"`},
		{[]string{`Bearer scope=a`}, `, scope "a"`},
		{[]string{`Bearer SCOPE = a, Error_Description="no"`}, `, scope "a", error description "no"`},
		{[]string{`Basic realm="x", Bearer scope=a, error="e", error_description="say \"x\", then\\"`},
			`, scope "a", error description "say \"x\", then\\"`},
		{[]string{`Basic realm="scope=x, scope=\"y\""`, `Bearer error=insufficient_scope,scope=files:write`},
			`, scope "files:write"`},
		{[]string{`Bearer scope="a"`, `DPoP scope="a", error_description="b"`}, `, scope "a", error description "b"`},
		{[]string{"Bearer error_description=\"a\x1b[2Jb\""}, `, error description "a\x1b[2Jb"`},
		{[]string{`Bearer resource_scope="x", scope="a`}, ""},
		{[]string{`Bearer scope="` + strings.Repeat("ø", 300) + `"`}, `, scope "` + strings.Repeat("ø", 200) + `"`},
		{[]string{strings.Repeat(`Bearer realm="x", `, 1000) + "scope=late"}, ""},
	} {
		for _, code := range []int{401, 403} {
			res := &http.Response{StatusCode: code, Header: http.Header{"Www-Authenticate": c.headers}, Body: http.NoBody}
			want := fmt.Sprintf("the server answered with HTTP status %d %s%s", code, http.StatusText(code), c.want)
			expect.Equal(t, fmt.Sprintf("%q", c.headers), ReadStatus(res).Error(), want)
		}
	}
}

// Whatever a response with an error has in its body and its headers, its error is text, and the body can still be read.
func FuzzReadStatus(f *testing.F) {
	f.Add(400, []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`), `Bearer scope="a", error="b"`)
	f.Add(503, []byte(`{"error":{"code":1e99}}`), `error_description="\u001b[2J"`)
	f.Fuzz(func(t *testing.T, code int, body []byte, header string) {
		res := &http.Response{StatusCode: code, Header: http.Header{"Www-Authenticate": {header}, "Location": {header}},
			Body: io.NopCloser(bytes.NewReader(body))}
		e := ReadStatus(res)
		if strings.ContainsAny(e.Error(), "\x1b\n\x00") {
			t.Errorf("the error is %q", e.Error())
		}
		if got, err := io.ReadAll(res.Body); err != nil || len(body) <= 64<<10 && !bytes.Equal(got, body) {
			t.Errorf("the body is %q, %v", got, err)
		}
		if _, ok := errors.AsType[*jsonrpc.Error](e); ok && code >= 500 {
			t.Error("the error of a gateway is taken for the server's")
		}
	})
}
