package seal

import (
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
)

// A token is version.keyID.body: the first two in clear and authenticated as additional data, the body base64url of
// nonce, ciphertext and tag. FORMAT.md has the details.
const (
	version   = "ab1"
	aadLabel  = "askback requestState\n"
	nonceSize = chacha20poly1305.NonceSizeX
	tagSize   = chacha20poly1305.Overhead

	// idSize is the length of the nonce in base64url. It divides evenly, so the text of the nonce ends where the
	// text of the ciphertext begins.
	idSize = nonceSize / 3 * 4

	argumentsSize = 32
	fixedSize     = 8 + 8 + argumentsSize
	// minPlaintext is four empty strings and no payload.
	minPlaintext = fixedSize + 4
	// maxMillis is the last millisecond of the year 9999.
	maxMillis = 253402300799999
)

var bodyEncoding = base64.RawURLEncoding.Strict()

// Visible holds the parts of a token that everybody can read who sees it.
type Visible struct {
	Version string // The version of the format: "ab1".
	KeyID   string // See [Key.ID].
	ID      string // See [State.ID].
	Size    int    // bytes of payload and binding together
}

// Peek reads what a token shows without any key. None of it is authenticated: use it for diagnosis only.
// The error is an [*OpenError] as from [Ring.Open].
func Peek(token string) (Visible, error) {
	keyID, body, err := split(token)
	if err != nil {
		return Visible{}, err
	}
	sealed, err := decodeBody(body)
	if err != nil {
		return Visible{}, err
	}
	return Visible{
		Version: version,
		KeyID:   strings.Clone(keyID),
		ID:      strings.Clone(tokenID(body)),
		Size:    len(sealed) - nonceSize - tagSize,
	}, nil
}

// split takes a token apart without decoding anything.
func split(token string) (keyID, body string, err error) {
	if len(token) > MaxTokenSize {
		return "", "", refuse(ReasonTooLarge, "is %d bytes long, at most %d (MaxTokenSize) are accepted: no token is "+
			"sealed longer than that", len(token), MaxTokenSize)
	}
	if token == "" {
		return "", "", refuse(ReasonMalformed, "is empty: the client must send back what it received, or leave it out")
	}
	rest, ok := strings.CutPrefix(token, version+".")
	if !ok {
		if v := otherVersion(token); v != "" {
			return "", "",
				refuse(ReasonVersion, "is of format %s, this program knows %s: run the same release on every instance", v, version)
		}
		return "", "", malformed("does not begin with " + version)
	}
	keyID, body, ok = strings.Cut(rest, ".")
	if !ok || !isKeyID(keyID) {
		return "", "", malformed("has no key id")
	}
	return keyID, body, nil
}

// otherVersion returns the format version that a token claims, if it looks like one of ours at all.
func otherVersion(token string) string {
	v, _, ok := strings.Cut(token[:min(len(token), 6)], ".")
	digits, ours := strings.CutPrefix(v, "ab")
	if !ok || !ours || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return ""
	}
	return v
}

// decodeBody returns nonce, ciphertext and tag in a slice of their own. Only one text decodes to given bytes: a second
// spelling of a token would pass for a second token where tokens are compared.
func decodeBody(body string) ([]byte, error) {
	// The decoder skips line breaks, even in strict mode.
	if strings.ContainsRune(body, '\n') || strings.ContainsRune(body, '\r') {
		return nil, malformed("contains a line break")
	}
	sealed, err := bodyEncoding.DecodeString(body)
	if err != nil {
		return nil, malformed("is not canonical unpadded base64url after its key id")
	}
	if len(sealed) < nonceSize+minPlaintext+tagSize {
		return nil, malformed("is shorter than any token can be")
	}
	return sealed, nil
}

// tokenID is the text of the nonce, which does not repeat and cannot be changed without breaking the token.
func tokenID(body string) string { return body[:idSize] }

// sealer is a key made ready for use.
type sealer struct {
	key        Key
	aead       cipher.AEAD
	prefix     string // Every token that the key seals begins with it.
	associated []byte
}

func newSealer(k Key) (*sealer, error) {
	secret := k.secret()
	aead, err := chacha20poly1305.NewX(secret[:])
	if err != nil {
		return nil, fmt.Errorf("seal: use key %s: %w", k.ID(), err)
	}
	prefix := version + "." + k.ID() + "."
	return &sealer{key: k, aead: aead, prefix: prefix, associated: []byte(aadLabel + prefix)}, nil
}

// seal is deterministic: the caller vouches that the nonce was never used before.
func (s *sealer) seal(nonce [nonceSize]byte, b *Binding, payload []byte, issued, expires time.Time) (string, error) {
	if issued.Before(time.UnixMilli(0)) || expires.After(time.UnixMilli(maxMillis)) ||
		issued.UnixMilli() >= expires.UnixMilli() {
		return "", fmt.Errorf("seal: issued %s, expires %s: want the expiry at least a millisecond later, and both between "+
			"1970 and 9999",
			issued.Format(time.RFC3339Nano), expires.Format(time.RFC3339Nano))
	}
	size := plaintextSize(b, payload)
	if n := len(s.prefix) + bodyEncoding.EncodedLen(nonceSize+size+tagSize); n > MaxTokenSize {
		return "", fmt.Errorf("seal: a payload of %d bytes makes a token of %d bytes, at most %d (MaxTokenSize) are "+
			"allowed: put less into the state",
			len(payload), n, MaxTokenSize)
	}
	buf := make([]byte, 0, nonceSize+size+tagSize)
	buf = append(buf, nonce[:]...)
	buf = appendPlaintext(buf, b, payload, issued, expires)
	return s.encrypt(buf), nil
}

// encrypt seals the plaintext that follows the nonce in buf, in place.
func (s *sealer) encrypt(buf []byte) string {
	buf = s.aead.Seal(buf[:nonceSize], buf[:nonceSize], buf[nonceSize:], s.associated)

	// Encoded in pieces, because encoding into a slice would cost one more copy of the token.
	var token strings.Builder
	token.Grow(len(s.prefix) + bodyEncoding.EncodedLen(len(buf)))
	token.WriteString(s.prefix)
	var piece [1024]byte
	const raw = len(piece) / 4 * 3
	for len(buf) > 0 {
		n := min(len(buf), raw)
		bodyEncoding.Encode(piece[:], buf[:n])
		token.Write(piece[:bodyEncoding.EncodedLen(n)])
		buf = buf[n:]
	}
	return token.String()
}

// plaintext holds the parts of an opened token; the slices point into it.
type plaintext struct {
	issued, expires                     int64 // Unix milliseconds
	arguments                           []byte
	audience, principal, method, target []byte
	payload                             []byte
}

func plaintextSize(b *Binding, payload []byte) int {
	n := fixedSize + len(payload)
	for _, s := range [...]string{b.Audience, b.Principal, b.Method, b.Target} {
		n += uvarintSize(len(s)) + len(s)
	}
	return n
}

func appendPlaintext(buf []byte, b *Binding, payload []byte, issued, expires time.Time) []byte {
	buf = binary.BigEndian.AppendUint64(buf, uint64(issued.UnixMilli()))
	buf = binary.BigEndian.AppendUint64(buf, uint64(expires.UnixMilli()))
	buf = append(buf, b.Arguments[:]...)
	for _, s := range [...]string{b.Audience, b.Principal, b.Method, b.Target} {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	return append(buf, payload...)
}

// parsePlaintext accepts exactly what appendPlaintext writes.
func parsePlaintext(buf []byte) (plaintext, bool) {
	if len(buf) < minPlaintext {
		return plaintext{}, false
	}
	issued, expires := binary.BigEndian.Uint64(buf), binary.BigEndian.Uint64(buf[8:])
	if issued >= expires || expires > maxMillis {
		return plaintext{}, false
	}
	p := plaintext{issued: int64(issued), expires: int64(expires), arguments: buf[16:fixedSize]}
	rest := buf[fixedSize:]
	for _, field := range [...]*[]byte{&p.audience, &p.principal, &p.method, &p.target} {
		n, width := binary.Uvarint(rest)
		if width <= 0 || n > uint64(len(rest)-width) || width != uvarintSize(int(n)) {
			return plaintext{}, false
		}
		*field, rest = rest[width:width+int(n)], rest[width+int(n):]
	}
	p.payload = rest
	return p, true
}

func uvarintSize(n int) int {
	return max(1, (bits.Len(uint(n))+6)/7)
}
