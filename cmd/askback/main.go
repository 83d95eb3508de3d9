// Command askback calls tools that ask back, answers their questions, and parks and resumes such calls. It also serves
// example tools, makes and rotates the keys that seal requestState, and shows what a requestState holds.
//
// root.go puts the commands together; each has a file of its own name. The commands that speak with a server are built
// on conversation.go.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := withholdKeys(); err != nil {
		fmt.Fprintf(os.Stderr, "askback: %v\n", err)
		os.Exit(exitFailure)
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
