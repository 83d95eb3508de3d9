package form

import (
	"net/mail"
	"net/url"
	"strings"
	"time"
)

// format is one of the four string formats of the restricted schema.
type format struct {
	ok   func(string) bool
	want string
}

var formats = map[string]*format{
	"email":     {isEmail, "must be an email address such as name@example.com"},
	"uri":       {isURI, "must be an absolute URI such as https://example.com/path"},
	"date":      {isDate, "must be a date such as 2006-01-02"},
	"date-time": {isDateTime, "must be a date and time such as 2006-01-02T15:04:05Z"},
}

const (
	maxEmail    = 254  // RFC 5321, section 4.5.3.1.3, without the angle brackets
	maxURI      = 8192 // RFC 9110, section 4.1, wants 8000 at least
	maxDateTime = 64   // room for more fraction digits than anybody has
)

// isEmail accepts a bare address: no display name, no comment, no surrounding space.
func isEmail(s string) bool {
	if len(s) > maxEmail {
		return false
	}
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}

// isURI accepts any scheme, javascript: and data: included; whether to follow the URI is for the tool to decide.
func isURI(s string) bool {
	if len(s) > maxURI {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && u.IsAbs()
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil && hasShape(s, "0000-00-00")
}

// isDateTime accepts what both RFC 3339 and package time accept. It refuses a leap second, which no time.Time holds,
// and three spellings that time.Parse accepts: a comma before the fraction, an hour of one digit, and an offset of 24
// hours.
func isDateTime(s string) bool {
	if len(s) > maxDateTime || !hasShape(s, "0000-00-00T00:00:00") {
		return false
	}
	zone := s[len("0000-00-00T00:00:00"):]
	if fraction, ok := strings.CutPrefix(zone, "."); ok {
		zone = strings.TrimLeft(fraction, "0123456789")
	}
	if zone != "Z" {
		signed := hasShape(zone, "+00:00") || hasShape(zone, "-00:00")
		if !signed || len(zone) != len("+00:00") || zone[1:3] > "23" || zone[4:] > "59" {
			return false
		}
	}
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

// hasShape reports whether s begins with shape, in which 0 stands for any digit.
func hasShape(s, shape string) bool {
	if len(s) < len(shape) {
		return false
	}
	for i := range len(shape) {
		isDigit := '0' <= s[i] && s[i] <= '9'
		if s[i] != shape[i] && !(shape[i] == '0' && isDigit) {
			return false
		}
	}
	return true
}
