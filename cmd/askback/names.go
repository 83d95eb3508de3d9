package main

import (
	"fmt"
	"slices"
	"strings"
)

// didYouMean suggests the nearest name. It is empty if none is similar.
func didYouMean(name string, among []string) string {
	if near := nearest(name, among); near != "" {
		return fmt.Sprintf("; did you mean %s?", harmlessLine(near, 200))
	}
	return ""
}

// nearest returns the name that takes the fewest edits, or "" if none is similar: it may take an edit for every three
// letters.
func nearest(name string, among []string) string {
	fold := func(s string) []rune { return []rune(noLetters.Replace(strings.ToLower(s))) }
	word, best := fold(name), ""
	most := len(word) / 3
	if len(word) < 4 || len(word) > maxWord {
		most = 0
	}
	for _, one := range among {
		other := fold(one)
		if abs := len(other) - len(word); abs > most || -abs > most {
			continue
		}
		if d := edits(word, other); d < most || d == most && best == "" {
			best, most = one, d
		}
	}
	return best
}

// maxWord is the length of the longest word that is compared with others letter by letter.
const maxWord = 200

var noLetters = strings.NewReplacer("-", "", "_", "", ".", "", " ", "")

// edits counts the letters to insert, to delete, to replace or to swap with their neighbour, until a is b.
func edits(a, b []rune) int {
	if slices.Equal(a, b) {
		return 0
	}
	var before, last []int // the rows of a's last letters but one and but none
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			row[j+1] = 1 + min(last[j+1], row[j], last[j])
			if a[i] == b[j] {
				row[j+1] = min(row[j+1], last[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// unknownName returns the error of a tool or prompt that the server does not have.
func unknownName(kind, name string, names []string) error {
	if similar := didYouMean(name, names); similar != "" {
		return usagef("there is no %s %q%s", kind, name, similar)
	}
	if len(names) == 0 {
		return usagef("there is no %s %q; the server has no %[1]ss", kind, name)
	}
	slices.Sort(names)
	const most = 20
	more := ""
	if len(names) > most {
		names, more = names[:most], ", …"
	}
	return usagef("there is no %s %q; the %[1]ss are %[3]s%[4]s", kind, name, keys(names), more)
}
