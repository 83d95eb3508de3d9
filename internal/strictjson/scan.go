package strictjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// at returns the byte at p, and past the end 0, with which no token starts.
func at(data []byte, p int) byte {
	if p < len(data) {
		return data[p]
	}
	return 0
}

func skipSpace(data []byte, p int) int {
	if p < len(data) && data[p] > ' ' {
		return p
	}
	return skipSpaces(data, p)
}

func skipSpaces(data []byte, p int) int {
	for p < len(data) && (data[p] == ' ' || data[p] == '\n' || data[p] == '\r' || data[p] == '\t') {
		p++
	}
	return p
}

func skipDigits(data []byte, p int) int {
	for p < len(data) && data[p]-'0' <= 9 {
		p++
	}
	return p
}

// skipPlain returns where the run of printable ASCII from p ends: the first quote, backslash, control character or
// byte from 0x80, or the end.
func skipPlain(data []byte, p int) int {
	// Eight bytes at a time: a byte of m has its top bit set if it must stop the run. Borrows may set it wrongly, but
	// only above the lowest that is right.
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for p+8 <= len(data) {
		x := binary.LittleEndian.Uint64(data[p:])
		quote, slash := x^(ones*'"'), x^(ones*'\\')
		m := ((quote - ones) | (slash - ones) | (x - ones*' ') | x) & tops
		if m != 0 {
			return p + bits.TrailingZeros64(m)/8
		}
		p += 8
	}
	for p < len(data) && data[p] >= ' ' && data[p] < utf8.RuneSelf && data[p] != '"' && data[p] != '\\' {
		p++
	}
	return p
}

// skipString returns the end of the string that starts at p, with its quotes, or -1 if it has no end.
func skipString(data []byte, p int) int {
	for p++; ; {
		p = skipPlain(data, p)
		if p >= len(data) {
			return -1
		}
		switch data[p] {
		case '"':
			return p + 1
		case '\\':
			p += 2
		default:
			p++
		}
	}
}

// skipScalar returns the end of the number or literal at p, which is p if there is none.
func skipScalar(data []byte, p int) int {
	for p < len(data) {
		switch data[p] {
		case ',', ':', '"', '{', '}', '[', ']', ' ', '\n', '\r', '\t':
			return p
		}
		p++
	}
	return p
}

// skipValue returns the end of the value that starts at p, or -1 if there is none.
func skipValue(data []byte, p int) int {
	switch at(data, p) {
	case '"':
		return skipString(data, p)
	case '{', '[':
	default:
		if end := skipScalar(data, p); end > p {
			return end
		}
		return -1
	}
	depth := 0
	for p < len(data) {
		turn := turns[data[p]]
		if turn == 0 {
			p++
			continue
		}
		if turn == quote {
			if p = skipString(data, p); p < 0 {
				return -1
			}
			continue
		}
		p++
		if depth += int(turn); depth == 0 {
			return p
		}
	}
	return -1
}

// turns holds the effect of each byte outside of strings: brackets change the depth, and a quote begins a string.
var turns = [256]int8{'{': 1, '[': 1, '}': -1, ']': -1, '"': quote}

const quote = 2

// After a backslash, a character of letters means the one of meanings in the same place.
const (
	letters  = `"\/bfnrt`
	meanings = "\"\\/\b\f\n\r\t"
)

// unescape appends the text between the quotes of a string. An invalid escape, which Check refuses, becomes U+FFFD.
func unescape(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		raw = raw[i:]
		if i := strings.IndexByte(letters, at(raw, 1)); i >= 0 {
			dst, raw = append(dst, meanings[i]), raw[2:]
			continue
		}
		r, size := hexEscape(raw), 6
		switch {
		case r < 0:
			r, size = utf8.RuneError, 1
		case utf16.IsSurrogate(r):
			if r = utf16.DecodeRune(r, hexEscape(raw[6:])); r != utf8.RuneError {
				size = 12
			}
		}
		dst, raw = utf8.AppendRune(dst, r), raw[size:]
	}
}

// hexEscape returns the code unit that \uXXXX at the start of raw stands for, or
// -1 if it is not there.
func hexEscape(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}
