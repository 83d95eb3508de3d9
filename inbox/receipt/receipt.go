// Package receipt signs and verifies receipts: statements of how people have decided a question of a call.
//
// A server signs them with a key file, and its inbox publishes the public keys:
//
//	keys := receipt.File("receipts.jwks") // made by File.Create or 'askback keys new --receipts'
//	… askback.Options{Desk: &askback.DeskOptions{Receipts: keys}, …}
//	… inbox.Options{ReceiptKeys: keys.Public, …}
//
// A receipt is a JWS (RFC 7515) in compact form, signed with Ed25519 (RFC 8037), so that any library for JOSE can
// verify it. It proves that somebody with the server's key has stated this; it does not prove that the server says the
// truth, or that the tool did what was decided.
package receipt

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Statement is what a receipt states. Digests are SHA-256 in hexadecimal digits.
type Statement struct {
	Version int    `json:"version"` // 1
	Server  string `json:"server"`  // Options.Audience of package askback
	Tool    string `json:"tool"`
	Caller  string `json:"caller"` // whose call it was; "" is the anonymous one
	Task    string `json:"task"`   // the name of the task: see task.Name
	Call    string `json:"call"`   // the call's ID, as logs have it
	Key     string `json:"key"`    // of the question in the handler
	// Shown is the digest of what people were shown: see Question.Shown of package desk. It is empty if an older release
	// has put the question.
	Shown string `json:"shown"`
	// Arguments is the digest of the call's arguments in the form of RFC 8785: see [Statement.HasArguments].
	Arguments string    `json:"arguments"`
	For       []string  `json:"for"`   // who could answer, such as "user:alice" and "group:release"
	Votes     int       `json:"votes"` // how many had to accept with equal contents
	Asked     time.Time `json:"asked"`
	Deadline  time.Time `json:"deadline,omitzero"` // zero means none
	Action    string    `json:"action"`            // "accept", "decline" or "cancel", which dismisses the question
	// Content is the salted digest of the accepted content, or empty: see [Statement.HasContent].
	Content string    `json:"content,omitempty"`
	Decided time.Time `json:"decided"`
	Voters  []Voter   `json:"voters"` // those whose votes made the decision, in the order of these

	// KeyID is the kid of the key whose signature [Verify] has found. It is not part of what is signed.
	KeyID string `json:"-"`
}

// Voter is somebody whose vote made a decision.
type Voter struct {
	Who     string    `json:"who"`
	Groups  []string  `json:"groups,omitempty"` // those that allowed the person to vote
	When    time.Time `json:"when"`
	Channel string    `json:"channel"`
	Reason  string    `json:"reason,omitempty"` // the salted digest of the reason: see [Statement.HasReason]
}

// InvalidError says that something is no receipt of these keys. It repeats nothing of the receipt.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return "the receipt is not valid: " + e.Reason }

// Verify returns what a receipt states, if one of the public keys of a JWK set has signed it. The error is an
// [*InvalidError] unless the set cannot be read. Keys that a receipt names or has in itself are not used.
func Verify(receipt string, keys []byte) (*Statement, error) {
	set, err := parseKeys(keys)
	if err != nil {
		return nil, fmt.Errorf("receipt: the keys: %w", err)
	}
	receipt = strings.TrimSpace(receipt)
	if len(receipt) > stored.MostReceipt {
		return nil, &InvalidError{fmt.Sprintf("it has more than %d bytes", stored.MostReceipt)}
	}
	signed, err := jose.ParseSignedCompact(receipt, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return nil, &InvalidError{"it is no JWS in compact form, signed with Ed25519"}
	}
	head := signed.Signatures[0].Protected
	if typ, _ := head.ExtraHeaders[jose.HeaderType].(string); typ != mediaType {
		return nil, &InvalidError{"it has another type: want " + mediaType}
	}
	known := set.Key(head.KeyID)
	if len(known) != 1 {
		return nil, &InvalidError{"none of these keys has signed it: get the keys of its server again"}
	}
	payload, err := signed.Verify(known[0].Public())
	if err != nil {
		return nil, &InvalidError{"its signature does not fit: it was altered"}
	}
	s, err := parse(payload)
	if err != nil {
		return nil, err
	}
	s.KeyID = head.KeyID
	return s, nil
}

// parse reads a statement.
func parse(payload []byte) (*Statement, error) {
	s := new(Statement)
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if strictjson.Check(payload, 8) != nil || d.Decode(s) != nil {
		return nil, &InvalidError{"it states what this release does not know"}
	}
	if s.Version != 1 {
		return nil, &InvalidError{fmt.Sprintf("it has the version %d, and this release knows version 1", s.Version)}
	}
	return s, nil
}

// errNotJSON is the reason why a value is no content.
var errNotJSON = errors.New("it is not strict JSON")

// canonical is a value in the form of RFC 8785.
func canonical(value json.RawMessage) ([]byte, error) {
	if strictjson.Check(value, strictjson.MaxDepth) != nil {
		return nil, errNotJSON
	}
	return strictjson.AppendJCS(nil, value), nil
}

// HasArguments reports whether these were the arguments of the call. Nil stands for {}.
func (s *Statement) HasArguments(arguments json.RawMessage) bool {
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	form, err := canonical(arguments)
	sum := sha256.Sum256(form)
	return err == nil && equal(s.Arguments, hex.EncodeToString(sum[:]))
}

// HasContent reports whether this content was accepted, with the salt of the receipt.
func (s *Statement) HasContent(salt string, content json.RawMessage) bool {
	if content == nil {
		return s.Content == ""
	}
	form, err := canonical(content)
	return err == nil && equal(s.Content, stored.Salted(salt, "content", form))
}

// HasReason reports whether somebody gave this reason with their vote, with the salt of the receipt.
func (s *Statement) HasReason(salt, who, reason string) bool {
	for _, v := range s.Voters {
		if v.Who == who {
			return reason == "" && v.Reason == "" || equal(v.Reason, stored.Salted(salt, "reason of "+who, []byte(reason)))
		}
	}
	return false
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
