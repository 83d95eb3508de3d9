package form

import "regexp"

// AsksForSecret reports whether a field of a form with these texts asks for a secret, such as a password. Forms must
// not ask for one. It is for fields that are typed: a box or a choice can be about a secret without being one.
// (client/elicitation, "Security Considerations")
func AsksForSecret(name, title, format string) bool {
	return NamesSecret(name) || NamesSecret(title) || NamesSecret(format)
}

// NamesSecret reports whether a name, such as one of a field or a parameter, has the name of a secret in it.
func NamesSecret(name string) bool {
	return secretName.MatchString(camel.ReplaceAllString(name, "$1 $2"))
}

// The names of secrets, as whole words.
var (
	secretName = regexp.MustCompile(`(?i)\b(pass ?word|passwd|passphrase|secret|client secret|api ?key|access ?key|` +
		`private ?key|access token|auth token|bearer|card number|credit card|cvv|cvc|ssn)\b`)
	camel = regexp.MustCompile(`([a-z])([A-Z])|[_\-.]`)
)
