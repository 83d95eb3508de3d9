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

// appendJCSNumber appends a number as RFC 8785 does, which is as ECMAScript does, with all of its digits.
func appendJCSNumber(dst, token []byte) []byte {
	const mostWhole, mostZeros = 21, 6 // digits before the point, and zeros with the one in front of it
	var room [32]byte
	number := appendNumber(room[:0], token)
	digits, exponent, _ := bytes.Cut(number, []byte("e"))
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	if len(exponent) == 0 {
		return append(dst, '0')
	}
	if e, err := strconv.Atoi(string(exponent)); err == nil {
		switch point := len(digits) + e; {
		case e >= 0 && point <= mostWhole:
			return append(append(dst, digits...), bytes.Repeat([]byte("0"), e)...)
		case 0 < point && point <= mostWhole:
			return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
		case -mostZeros < point && point <= 0:
			return append(append(append(dst, "0."...), bytes.Repeat([]byte("0"), -point)...), digits...)
		}
	}
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	scale := appendExponent(nil, exponent, len(digits)-1)
	if scale[0] != '-' {
		dst = append(append(dst, 'e'), '+')
		return append(dst, scale...)
	}
	return append(append(dst, 'e'), scale...)
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
