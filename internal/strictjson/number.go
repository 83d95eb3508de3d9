package strictjson

import (
	"bytes"
	"strconv"
)

// appendNumber appends a number in canonical form. It copies digits instead of computing with them, so that a long
// coefficient or a huge exponent costs no more than its own length.
func appendNumber(dst, token []byte) []byte {
	start := 0
	if token[0] == '-' {
		start = 1
	}
	end := skipDigits(token, start)
	whole := token[start:end]
	var fraction, exponent []byte
	if at(token, end) == '.' {
		start = end + 1
		end = skipDigits(token, start)
		fraction = trimZerosRight(token[start:end])
	}
	if end < len(token) {
		exponent = bytes.TrimPrefix(token[end+1:], []byte("+"))
	}

	// The exponent grows by shift when the coefficient becomes an integer without trailing zeros.
	whole = trimZerosLeft(whole)
	shift := -len(fraction)
	if len(fraction) == 0 {
		shift = len(whole)
		whole = trimZerosRight(whole)
		shift -= len(whole)
	}
	if len(whole) == 0 {
		if fraction = trimZerosLeft(fraction); len(fraction) == 0 {
			return append(dst, '0')
		}
	}
	if token[0] == '-' {
		dst = append(dst, '-')
	}
	dst = append(append(append(dst, whole...), fraction...), 'e')
	if len(exponent) == 0 {
		return strconv.AppendInt(dst, int64(shift), 10)
	}
	return appendExponent(dst, exponent, shift)
}

func trimZerosLeft(digits []byte) []byte {
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	return digits
}

func trimZerosRight(digits []byte) []byte {
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	return digits
}

// appendExponent appends the sum of exponent and shift. The exponent may have any length.
func appendExponent(dst, exponent []byte, shift int) []byte {
	digits, negative := bytes.CutPrefix(exponent, []byte("-"))
	digits = trimZerosLeft(digits)
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
	return append(dst[:start], trimZerosLeft(dst[start:])...)
}
