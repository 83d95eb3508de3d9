package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The bugs can be planted in the code as it is. Whether chaos finds them takes minutes, and is what the command shows.
func TestBugsCanBePlanted(t *testing.T) {
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			for _, p := range b.patches {
				text, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(p.file)))
				if err != nil {
					t.Fatal(err)
				}
				changed, err := p.apply(string(text))
				if err != nil {
					t.Error(err)
				} else if changed == string(text) {
					t.Errorf("%s: the bug changes nothing", p.file)
				}
			}
		})
	}
}

func TestABugNeedsTheCodeThatItReplaces(t *testing.T) {
	p := patch{"x.go", 1, "fence = $2", "true"}
	for _, text := range []string{"", "fence = $3", "fence = $2 fence = $2"} {
		if _, err := p.apply(text); err == nil {
			t.Errorf("planted in %q", text)
		}
	}
}
