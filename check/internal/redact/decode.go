package redact

import (
	"bytes"
	"compress/gzip"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// decode returns what a run of letters may stand for.
func decode(run string) (all []string) {
	if strings.ContainsAny(run, `%\&`) {
		plain, err := url.QueryUnescape(run)
		if err != nil {
			plain = run
		}
		all = append(all, html.UnescapeString(unescape(plain)))
	}
	for _, digits := range hexDigits.FindAllString(run, -1) {
		for offset := range 2 {
			b, _ := hex.DecodeString(digits[offset : len(digits)-(len(digits)-offset)%2]) // these are digits
			all = append(all, string(b))
		}
	}
	for _, digits := range base32Digits.FindAllString(run, -1) {
		digits = strings.ToUpper(digits)
		for offset := range 8 {
			b := make([]byte, base32Bare.DecodedLen(len(digits)))
			n, _ := base32Bare.Decode(b, []byte(digits[offset:]))
			all = append(all, string(b[:n]))
		}
	}
	for _, digits := range base64Digits.FindAllString(run, -1) {
		digits = standard.Replace(digits)
		for offset := range 4 {
			b := make([]byte, base64.RawStdEncoding.DecodedLen(len(digits)-offset))
			n, _ := base64.RawStdEncoding.Decode(b, []byte(digits[offset:])) // up to an end that is cut off
			all = append(all, string(b[:n]))
			if text := gunzip(b[:n]); text != "" {
				all = append(all, text)
			}
		}
	}
	return all
}

var (
	decimal      = regexp.MustCompile(`[0-9]+`)
	escape       = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-7]{3}|.)`)
	hexDigits    = regexp.MustCompile(`[0-9a-fA-F]{12,}`)
	base32Digits = regexp.MustCompile(`[A-Za-z2-7]{16,}`)
	base32Bare   = base32.StdEncoding.WithPadding(base32.NoPadding)
	base64Digits = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}`)
	standard     = strings.NewReplacer("-", "+", "_", "/")
)

// maxUnzipped bounds the bytes of a text that was compressed.
const maxUnzipped = 16 << 10

func gunzip(b []byte) string {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(r, maxUnzipped)) // as much as came
	return string(text)
}

// unescape undoes the escapes of JSON and of Go.
func unescape(text string) string {
	return escape.ReplaceAllStringFunc(text, func(e string) string {
		var plain string
		if strings.HasPrefix(e, `\x`) {
			e = `\u00` + e[2:]
		}
		if n, err := strconv.ParseUint(e[1:], 8, 8); err == nil && len(e) == 4 {
			return string(rune(n))
		}
		if json.Unmarshal([]byte(`"`+e+`"`), &plain) != nil {
			return e[1:]
		}
		return plain
	})
}

// bare is a text without all that is no letter or digit of ASCII.
func bare(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, text)
}

func reversed(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}

// codes are the characters whose decimal codes a text lists.
func codes(list string) string {
	var b []byte
	for _, digits := range decimal.FindAllString(list, -1) {
		if n, err := strconv.Atoi(digits); err == nil && n < 128 {
			b = append(b, byte(n))
		}
	}
	return string(b)
}
