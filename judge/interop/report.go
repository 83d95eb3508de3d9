package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// known are the cells that fail because of the peer, each with words of its fault. README.md has the evidence.
var known = map[string]string{
	"askback/gosdk/t_rounds/legacy":       `the result says "" instead of`,
	"askback/gosdk/t_state/legacy":        "the server is busy, retry later",
	"askback/mcpgo/t_state/legacy":        "the server is busy, retry later",
	"askback/typescript1/k_refused/http":  "not refused: ",
	"askback/typescript1/k_refused/stdio": "not refused: ",
}

// report prints how many cells pass. The error names the cells that fail and are not known, and those that are known
// and do not fail so.
func report(w io.Writer, cells []*cell) error {
	var problems []error
	for _, s := range sections {
		passed, all := 0, 0
		for _, c := range cells {
			if c.section != s {
				continue
			}
			all++
			words, listed := known[c.String()]
			switch {
			case c.fault == "" && listed:
				problems = append(problems, fmt.Errorf("%v is listed as a failure of the peer, and passes", c))
			case c.fault == "":
				passed++
			case !listed || !strings.Contains(c.fault, words):
				problems = append(problems, fmt.Errorf("%v: %s", c, c.fault))
			}
		}
		fmt.Fprintf(w, "%s: %d of %d cells pass.\n", s.title, passed, all)
	}
	return errors.Join(problems...)
}
