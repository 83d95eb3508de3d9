// Package excerpt shortens texts for logs, errors and reports.
package excerpt

import "unicode/utf8"

// Of returns the beginning of a text, of at most that many bytes. It cuts no character.
func Of(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for end := most; end > most-utf8.UTFMax && end >= 0; end-- {
		if utf8.RuneStart(text[end]) {
			return text[:end]
		}
	}
	return text[:most] // not UTF-8
}
