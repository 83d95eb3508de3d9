package strictjson

import (
	"bytes"
	"strconv"
)

// appendScalar appends a number in canonical form, and anything else as it is. It copies digits instead of computing
// with them, so that a long coefficient or a huge exponent costs no more than its own length.
func appendScalar(dst, token []byte) []byte {
	if TypeOf(token) != TypeNumber {
		return append(dst, token...) // a literal
	}
	digits, negative := bytes.CutPrefix(token, []byte("-"))
	var exponent []byte
	if e := bytes.IndexAny(digits, "eE"); e >= 0 {
		digits, exponent = digits[:e], bytes.TrimPrefix(digits[e+1:], []byte("+"))
	}
	whole, fraction, _ := bytes.Cut(digits, []byte("."))

	// shift is what the exponent grows by when the coefficient becomes an integer without trailing zeros.
	whole = bytes.TrimLeft(whole, "0")
	fraction = bytes.TrimRight(fraction, "0")
	shift := -len(fraction)
	if len(fraction) == 0 {
		shift = len(whole)
		whole = bytes.TrimRight(whole, "0")
		shift -= len(whole)
	}
	if len(whole) == 0 {
		if fraction = bytes.TrimLeft(fraction, "0"); len(fraction) == 0 {
			return append(dst, '0')
		}
	}
	if negative {
		dst = append(dst, '-')
	}
	dst = append(append(append(dst, whole...), fraction...), 'e')
	return appendExponent(dst, exponent, shift)
}

// appendExponent appends the sum of exponent and shift. The exponent may have any length.
func appendExponent(dst, exponent []byte, shift int) []byte {
	digits, negative := bytes.CutPrefix(exponent, []byte("-"))
	digits = bytes.TrimLeft(digits, "0")
	const maxInt64Digits = 18 // leaves room to add the shift
	if len(digits) <= maxInt64Digits {
		n, _ := strconv.ParseInt("0"+string(digits), 10, 64)
		if negative {
			n = -n
		}
		return strconv.AppendInt(dst, n+int64(shift), 10)
	}

	// At 10^18 and more the digits outweigh any shift, so the sign stays. Add in decimal: math/big would take the
	// square of the number of digits.
	if negative {
		dst = append(dst, '-')
		shift = -shift
	}
	start := len(dst)
	dst = append(append(dst, '0'), digits...) // the 0 is room for a carry
	for i := len(dst) - 1; shift != 0; i-- {
		shift += int(dst[i] - '0')
		digit := shift % 10
		if digit < 0 {
			digit += 10
		}
		dst[i] = '0' + byte(digit)
		shift = (shift - digit) / 10
	}
	return append(dst[:start], bytes.TrimLeft(dst[start:], "0")...)
}
