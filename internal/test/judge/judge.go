// Package judge leaves judges out of the tests unless somebody asks for them, by ASKBACK_JUDGE=1 or by name with -run:
// they need browsers, proxies, packages of npm and minutes.
package judge

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

const (
	variable = "ASKBACK_JUDGE"
	leftOut  = "left out, because it is a judge: set " + variable + "=1"
)

// Run runs the tests of a package that is a judge. Left out, the line of go test says that there are none to run.
func Run(m *testing.M) int {
	if os.Getenv(variable) == "" {
		fmt.Println(leftOut)
		if err := flag.Set("test.run", "^$"); err != nil { // which -run replaces
			panic(err)
		}
	}
	return m.Run()
}

// Skip leaves out a test that is a judge, in a package of others.
func Skip(t *testing.T) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skip(leftOut)
	}
}
