package form

import (
	"net/mail"
	"net/url"
	"regexp"
	"time"
)

// format is one of the four string formats of the restricted schema.
type format struct {
	longest int // in bytes
	ok      func(string) bool
	want    string
}

var formats = map[string]*format{
	// RFC 5321, section 4.5.3.1.3, without the angle brackets.
	"email": {254, isEmail, "must be an email address such as name@example.com"},
	// RFC 9110, section 4.1, wants 8000 at least.
	"uri":  {8192, isURI, "must be an absolute URI such as https://example.com/path"},
	"date": {len(time.DateOnly), isDate, "must be a date such as 2026-01-31"},
	// Room for more fraction digits than anybody has.
	"date-time": {64, isDateTime, "must be a date and time such as 2026-01-31T14:30:00Z"},
}

// isEmail accepts a bare address: no display name, no comment, no surrounding space.
func isEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}

// isURI accepts any scheme, javascript: and data: included; whether to follow the URI is for the tool to decide.
func isURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs()
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

var dateTime = regexp.MustCompile(`^[0-9-]{10}T[0-9:]{8}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// isDateTime accepts what both RFC 3339 and package time accept. It refuses a leap second, which no time.Time holds,
// and three spellings that time.Parse accepts: a comma before the fraction, an hour of one digit, and an offset of 24
// hours.
func isDateTime(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil && dateTime.MatchString(s)
}
