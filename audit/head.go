package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// head names a line. Signed, it is a head of the chain.
type head struct {
	Chain  string    `json:"chain"`
	Seq    int64     `json:"seq"`
	Digest string    `json:"digest"` // of the line
	Time   time.Time `json:"time"`   // of the signature
}

// signer writes heads.
type signer struct {
	to     io.Writer
	key    ed25519.PrivateKey
	signed string // the digest in the last head
	whole  bool   // the last head was written whole, by this process
	err    error  // of the last head
}

// sign writes a head for a line, unless there is one.
func (s *signer) sign(h head) error {
	if h.Digest == s.signed {
		return nil
	}
	h.Time = time.Now().UTC()
	text, _ := json.Marshal(h)
	signature := ed25519.Sign(s.key, append(text, '\n'))
	out := fmt.Appendf(nil, "%s\t%s\n", text, base64.StdEncoding.EncodeToString(signature))
	if !s.whole {
		out = append([]byte{'\n'}, out...) // the head before it may be cut off
	}
	if _, s.err = s.to.Write(out); s.err != nil {
		s.whole = false
		return s.err
	}
	s.signed, s.whole = h.Digest, true
	return nil
}

// parseHead reads a line of heads, and checks its signature.
func parseHead(text []byte, key ed25519.PublicKey) (h head, err error) {
	signed, encoded, ok := bytes.Cut(text, []byte{'\t'})
	signature, err := base64.StdEncoding.DecodeString(string(encoded))
	if !ok || err != nil || json.Unmarshal(signed, &h) != nil {
		return head{}, fmt.Errorf("not a head; if a crash has cut it off, remove the line")
	}
	if !ed25519.Verify(key, append(bytes.Clone(signed), '\n'), signature) {
		return head{}, fmt.Errorf("the signature is wrong: the head was changed, or signed with another key")
	}
	return h, nil
}

// ReadKey reads the private key for [Options.Key] from a file in PEM (PKCS #8), as openssl genpkey -algorithm ed25519
// writes it. It refuses a file that every user of the machine can read.
func ReadKey(file string) (ed25519.PrivateKey, error) {
	return readPEM[ed25519.PrivateKey](file, "PRIVATE KEY", 0o007, x509.ParsePKCS8PrivateKey)
}

// ReadPublicKey reads the public key for [VerifyOptions.Key] from a file in PEM, as openssl pkey -pubout writes it.
func ReadPublicKey(file string) (ed25519.PublicKey, error) {
	return readPEM[ed25519.PublicKey](file, "PUBLIC KEY", 0, x509.ParsePKIXPublicKey)
}

func readPEM[K any](file, kind string, refused os.FileMode, parse func([]byte) (any, error)) (none K, err error) {
	f, err := os.Open(file)
	if err != nil {
		return none, fmt.Errorf("audit: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return none, fmt.Errorf("audit: %w", err)
	}
	if info.Mode()&refused != 0 && runtime.GOOS != "windows" {
		return none, fmt.Errorf("audit: %s is open to every user of this machine (mode %04o), who could sign heads: "+
			"chmod 600 it", file, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return none, fmt.Errorf("audit: %w", err)
	}
	if block, _ := pem.Decode(text); block != nil && block.Type == kind {
		if parsed, err := parse(block.Bytes); err == nil {
			if key, ok := parsed.(K); ok {
				return key, nil
			}
		}
	}
	return none, fmt.Errorf("audit: %s has no %s of Ed25519 in PEM", file, kind)
}
