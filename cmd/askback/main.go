// Command askback calls tools that ask back and answers what they ask, parks such calls and resumes them; it serves
// example tools, makes and rotates the keys that seal requestState, and shows what a requestState holds.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := withholdKeys(); err != nil {
		fmt.Fprintf(os.Stderr, "askback: %v\n", err)
		os.Exit(exitFailure)
	}
	os.Exit(run())
}
