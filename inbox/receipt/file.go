package receipt

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-jose/go-jose/v4"

	"github.com/askback-mcp/askback/internal/durable"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// mediaType is the typ of a receipt.
const mediaType = "askback-receipt"

// The bounds of keys.
const (
	mostKeyBytes = 1 << 20
	mostKeys     = 1000
)

// File is the path of a file with the keys of receipts: a JWK set whose first key is private and signs. The others are
// the public keys of the ones that signed before. None is ever removed, because receipts last. It is read for each
// receipt, so that a process need not start again after [File.Rotate]. It is safe for concurrent use.
type File string

// Create makes the file with a new key. Only its owner can read it. It is an error if the file exists.
func (f File) Create() error {
	set, err := withNewKey(new(jose.JSONWebKeySet))
	if err != nil {
		return err
	}
	if err := durable.Create(string(f), string(set)); err != nil {
		return fmt.Errorf("receipt: making a key file: %w", err)
	}
	return nil
}

// Rotate makes a new key, which signs from now on. The file is replaced at once, and keeps its mode and owner; the key
// before it is kept without its secret. Every instance needs the new file before people look for its public key. A
// second rotation at the same time is an error that wraps [fs.ErrExist], because one would forget the key of the other.
func (f File) Rotate() error {
	path := string(f) + ".next"
	next, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("receipt: another rotation is under way, or was cut off: then remove its file: %w", err)
	}
	if err != nil {
		return fmt.Errorf("receipt: replacing the key file: %w", err)
	}
	// It is read behind the file that keeps others out.
	set, err := f.read()
	var data []byte
	if err == nil {
		data, err = withNewKey(set)
	}
	if err == nil {
		err = durable.Replace(string(f), string(data))
	}
	if err = errors.Join(err, next.Close(), os.Remove(path)); err != nil {
		return fmt.Errorf("receipt: replacing the key file: %w", err)
	}
	return nil
}

// withNewKey returns a set with a new private key before the public ones of another.
func withNewKey(set *jose.JSONWebKeySet) ([]byte, error) {
	if len(set.Keys) >= mostKeys {
		return nil, fmt.Errorf("receipt: a file has at most %d keys", mostKeys)
	}
	_, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	next := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{newKey(secret)}}
	for _, k := range set.Keys {
		next.Keys = append(next.Keys, k.Public())
	}
	data, err := json.MarshalIndent(next, "", "  ")
	return append(data, '\n'), err
}

// newKey is a JWK under the name that its public key has by RFC 7638.
func newKey(key any) jose.JSONWebKey {
	k := jose.JSONWebKey{Key: key, Algorithm: string(jose.EdDSA), Use: "sig"}
	k.KeyID = thumbprint(k)
	return k
}

func thumbprint(k jose.JSONWebKey) string {
	sum, err := k.Thumbprint(crypto.SHA256)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(sum)
}

func (f File) read() (*jose.JSONWebKeySet, error) {
	info, err := os.Stat(string(f))
	if err == nil && info.Size() > mostKeyBytes {
		err = fmt.Errorf("it has %d bytes", info.Size())
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(string(f))
	}
	var set *jose.JSONWebKeySet
	if err == nil {
		set, err = parseKeys(data)
	}
	if err != nil {
		return nil, fmt.Errorf("receipt: the key file %s: %w", f, err)
	}
	return set, nil
}

// parseKeys reads a JWK set of Ed25519 keys. Its errors repeat nothing of a key.
func parseKeys(data []byte) (*jose.JSONWebKeySet, error) {
	if len(data) > mostKeyBytes {
		return nil, fmt.Errorf("a JWK set has at most %d bytes", mostKeyBytes)
	}
	set := new(jose.JSONWebKeySet)
	if strictjson.Check(data, 8) != nil || json.Unmarshal(data, set) != nil {
		return nil, errors.New("it is no JWK set")
	}
	if n := len(set.Keys); n == 0 || n > mostKeys {
		return nil, fmt.Errorf("it has %d keys: want 1 to %d", n, mostKeys)
	}
	for i, k := range set.Keys {
		if key, ok := k.Public().Key.(ed25519.PublicKey); !ok || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("key %d is not for Ed25519", i+1)
		}
		if k.KeyID != thumbprint(k) {
			return nil, fmt.Errorf("key %d has another kid than its thumbprint (RFC 7638)", i+1)
		}
	}
	return set, nil
}

// Sign returns the receipt with a statement. It implements askback.ReceiptSigner.
func (f File) Sign(_ context.Context, statement []byte) (string, error) {
	set, err := f.read()
	if err != nil {
		return "", err
	}
	key := set.Keys[0]
	if key.IsPublic() {
		return "", fmt.Errorf("receipt: the key file %s has public keys only: they cannot sign", f)
	}
	opts := (&jose.SignerOptions{}).WithType(mediaType)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, opts)
	if err != nil {
		return "", fmt.Errorf("receipt: %w", err)
	}
	signed, err := signer.Sign(statement)
	if err != nil {
		return "", fmt.Errorf("receipt: %w", err)
	}
	return signed.CompactSerialize()
}

// Public returns the JWK set of all public keys, for those who verify.
func (f File) Public() ([]byte, error) {
	set, err := f.read()
	if err != nil {
		return nil, err
	}
	var public jose.JSONWebKeySet
	for _, k := range set.Keys {
		public.Keys = append(public.Keys, k.Public())
	}
	return json.Marshal(public)
}
