//go:build ignore

// This file is the main function of the documentation's example of the Go SDK: see exampleServer.
package main

import (
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	handler := mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return newServer() }, &mcp.StreamableHTTPOptions{Stateless: true})
	log.Fatal(http.ListenAndServe(os.Args[1], handler))
}
