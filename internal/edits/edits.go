// Package edits compares words letter by letter, to suggest the name that was meant.
package edits

// Count returns how many letters to insert, to delete, to replace or to swap with their neighbour turn a into b. The
// time it takes grows with the product of their lengths, which the caller bounds.
func Count(a, b []rune) int {
	// Three rows of the usual matrix are enough: a swap looks two rows back.
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before, above, row = above, row, before
		row[0] = i + 1
		for j := range b {
			replaced := above[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
