package form

import (
	"bytes"
	"cmp"
	"strconv"
)

// decimal is the exact value of a JSON number: 0.DIGITS × 10^exp. Digits neither begin nor end with a zero, so equal
// numbers have equal decimals, and zero has no digits. The exponent is never written out, so that 1e999999999 costs
// no more than its eleven characters.
type decimal struct {
	negative bool
	digits   []byte
	exp      int64
}

// parseDecimal reads a valid JSON number. The result may share its bytes.
func parseDecimal(token []byte) decimal {
	var d decimal
	if token[0] == '-' {
		d.negative, token = true, token[1:]
	}
	if e := bytes.IndexAny(token, "eE"); e >= 0 {
		// Out of range, ParseInt returns the nearest int32: far beyond any limit a schema can have.
		d.exp, _ = strconv.ParseInt(string(token[e+1:]), 10, 32)
		token = token[:e]
	}
	whole, fraction, _ := bytes.Cut(token, []byte("."))
	d.exp += int64(len(whole))
	d.digits = whole
	if len(fraction) > 0 {
		d.digits = append(whole[:len(whole):len(whole)], fraction...)
	}
	significant := bytes.TrimLeft(d.digits, "0")
	d.exp -= int64(len(d.digits) - len(significant))
	d.digits = bytes.TrimRight(significant, "0")
	if len(d.digits) == 0 {
		return decimal{}
	}
	return d
}

func (d decimal) isZero() bool { return len(d.digits) == 0 }

// isWhole reports whether the number has no fraction.
func (d decimal) isWhole() bool { return d.isZero() || d.exp >= int64(len(d.digits)) }

// appendWhole appends a whole number as plain digits. The caller has bounded its length.
func (d decimal) appendWhole(dst []byte) []byte {
	if d.isZero() {
		return append(dst, '0')
	}
	if d.negative {
		dst = append(dst, '-')
	}
	dst = append(dst, d.digits...)
	for range d.exp - int64(len(d.digits)) {
		dst = append(dst, '0')
	}
	return dst
}

func (d decimal) sign() int {
	switch {
	case d.isZero():
		return 0
	case d.negative:
		return -1
	}
	return 1
}

func (d decimal) compare(other decimal) int {
	sign := d.sign()
	if sign != other.sign() {
		return sign - other.sign()
	}
	return sign * cmp.Or(cmp.Compare(d.exp, other.exp), bytes.Compare(d.digits, other.digits))
}
