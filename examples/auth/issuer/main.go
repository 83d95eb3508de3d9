// Command issuer is an authorization server to try the server of examples/auth with. It gives a token to everybody who
// asks, so it listens on this machine only.
//
//	go run ./examples/auth/issuer
//	curl 'http://127.0.0.1:9000/token?sub=alice&resource=http://127.0.0.1:8080/mcp'
package main

import (
	"cmp"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/askback-mcp/askback/examples/auth/internal/issuer"
)

func main() {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ISSUER_ADDR"), "127.0.0.1:9000"))
	check(err)
	url := "http://" + listener.Addr().String()
	i, err := issuer.New(url)
	check(err)
	log.Print("listening on ", url)
	server := &http.Server{Handler: i.Handler(), ReadHeaderTimeout: 10 * time.Second}
	check(server.Serve(listener))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
