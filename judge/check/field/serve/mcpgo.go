//go:build ignore

// This file is the main function of examples of mcp-go: see goExample.
package main

import (
	"log"
	"os"

	mcpgo "github.com/mark3labs/mcp-go/server"
)

func main() {
	log.Fatal(mcpgo.NewStreamableHTTPServer(newServer()).Start(os.Args[1]))
}
