package planted

import (
	"bytes"
	"compress/gzip"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// Seals are the ways in which a correct server protects its states. In some of them several texts mean one state, as
// in Base64 whose last bits are not looked at. That is no fault: nobody can change what a state says.
var Seals = []string{"aead", "aead-lenient", "aead-hex", "aead-spaces", "hmac", "jwt", "gzip-hmac", "stored", "counted"}

func (s *sealer) codecOf() codec {
	switch s.Fault {
	case "plain-json":
		return codec{func(b []byte) string { return string(b) }, func(t string) ([]byte, bool) { return []byte(t), true }}
	case "plain-base64", "plain-arguments":
		return inBase64
	case "plain-hex":
		return inHex
	case "plain-gzip":
		return inBase64.of(deflate, inflate)
	case "plain-query":
		return codec{toQuery, fromQuery}
	case "jwt-none", "jwt-unverified":
		return s.jwt()
	case "mac-part":
		return s.macOfPart()
	case "mac-optional", "mac-short", "token-in-state":
		return s.mac()
	case "token-in-gzip":
		return s.mac().of(deflate, inflate)
	case "stream-cipher":
		return s.streamCipher()
	case "xor":
		return inBase64.of(xor, func(b []byte) ([]byte, bool) { return xor(b), true })
	case "checksum":
		return inBase64.of(addChecksum, cutChecksum)
	}
	switch s.Seal {
	case "", "aead":
		return s.aead(inBase64)
	case "aead-lenient": // as the decoders of some languages do
		return s.aead(codec{encode, func(t string) ([]byte, bool) {
			t = strings.NewReplacer("+", "-", "/", "_").Replace(t)
			return decode(strings.Map(func(r rune) rune {
				if strings.ContainsRune(alphabet, r) {
					return r
				}
				return -1
			}, t))
		}})
	case "aead-hex":
		return s.aead(inHex)
	case "aead-spaces":
		return s.aead(codec{encode, func(t string) ([]byte, bool) { return decode(strings.TrimSpace(t)) }})
	case "hmac":
		return s.mac()
	case "jwt":
		return s.jwt()
	case "gzip-hmac":
		return s.mac().of(deflate, inflate)
	case "stored":
		return codec{func(b []byte) string { return s.keep(newID(), b) }, s.kept}
	case "counted": // anybody can read and guess it, and what it is for is on the server
		var count atomic.Int64
		return codec{func(b []byte) string { return s.keep(fmt.Sprintf("round-%04d", count.Add(1)), b) }, s.kept}
	}
	panic("planted: there is no seal " + s.Seal)
}

var inBase64, inHex = codec{encode, decode}, codec{hex.EncodeToString, decodeHex}

// of returns a codec of bytes that are packed before they become a text.
func (c codec) of(pack func([]byte) []byte, unpack func([]byte) ([]byte, bool)) codec {
	return codec{
		func(b []byte) string { return c.seal(pack(b)) },
		func(t string) ([]byte, bool) {
			b, ok := c.open(t)
			if !ok {
				return nil, false
			}
			return unpack(b)
		},
	}
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func decode(t string) ([]byte, bool) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(t, "="))
	return b, err == nil
}

func decodeHex(t string) ([]byte, bool) {
	b, err := hex.DecodeString(t)
	return b, err == nil
}

func deflate(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func inflate(b []byte) ([]byte, bool) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, false
	}
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	return text, err == nil
}

func (s *sealer) aead(text codec) codec {
	gcm, err := cipher.NewGCMWithRandomNonce(s.block())
	if err != nil {
		panic(err)
	}
	return text.of(func(b []byte) []byte { return gcm.Seal(nil, nil, b, nil) }, func(b []byte) ([]byte, bool) {
		b, err := gcm.Open(nil, nil, b, nil)
		return b, err == nil
	})
}

func (s *sealer) block() cipher.Block {
	block, err := aes.NewCipher(s.Key)
	if err != nil {
		panic(err)
	}
	return block
}

func (s *sealer) sum(b []byte) []byte {
	h := hmac.New(sha256.New, s.Key)
	h.Write(b)
	return h.Sum(nil)
}

// mac has the text in clear, and its MAC after a dot.
func (s *sealer) mac() codec {
	return codec{
		func(b []byte) string { return encode(b) + "." + encode(s.sum(b)) },
		func(t string) ([]byte, bool) {
			text, sum, signed := strings.Cut(t, ".")
			b, ok := decode(text)
			got, valid := decode(sum)
			if !ok || !valid {
				return nil, false
			}
			want := s.sum(b)
			switch {
			case s.has("mac-optional") && (!signed || len(got) < len(want)):
			case s.has("mac-short"):
				if len(got) != len(want) || got[0] != want[0] {
					return nil, false
				}
			case !hmac.Equal(got, want):
				return nil, false
			}
			return b, true
		},
	}
}

// macOfPart protects all of a state except its answers.
func (s *sealer) macOfPart() codec {
	return codec{
		func(b []byte) string {
			var st state
			_ = json.Unmarshal(b, &st)
			answers, _ := json.Marshal(st.Answers)
			st.Answers = nil
			head, _ := json.Marshal(st)
			return encode(head) + "." + encode(answers) + "." + encode(s.sum(head))
		},
		func(t string) ([]byte, bool) {
			parts := strings.Split(t, ".")
			if len(parts) != 3 {
				return nil, false
			}
			head, ok1 := decode(parts[0])
			answers, ok2 := decode(parts[1])
			sum, ok3 := decode(parts[2])
			var st state
			if !ok1 || !ok2 || !ok3 || !hmac.Equal(sum, s.sum(head)) || json.Unmarshal(head, &st) != nil ||
				json.Unmarshal(answers, &st.Answers) != nil {
				return nil, false
			}
			text, err := json.Marshal(st)
			return text, err == nil
		},
	}
}

func (s *sealer) jwt() codec {
	head := encode([]byte(`{"alg":"HS256","typ":"JWT"}`))
	return codec{
		func(b []byte) string {
			text := head + "." + encode(b)
			return text + "." + encode(s.sum([]byte(text)))
		},
		func(t string) ([]byte, bool) {
			parts := strings.Split(t, ".")
			if len(parts) != 3 {
				return nil, false
			}
			var kind struct {
				Alg string `json:"alg"`
			}
			first, ok := decode(parts[0])
			if !ok || json.Unmarshal(first, &kind) != nil {
				return nil, false
			}
			sum, ok := decode(parts[2])
			verified := ok && kind.Alg == "HS256" && hmac.Equal(sum, s.sum([]byte(parts[0]+"."+parts[1])))
			none := strings.EqualFold(kind.Alg, "none") && s.has("jwt-none")
			if !verified && !none && !s.has("jwt-unverified") {
				return nil, false
			}
			return decode(parts[1])
		},
	}
}

func (s *sealer) streamCipher() codec {
	turn := func(iv, b []byte) []byte {
		out := make([]byte, len(b))
		cipher.NewCTR(s.block(), iv).XORKeyStream(out, b)
		return out
	}
	return inBase64.of(func(b []byte) []byte {
		iv := make([]byte, aes.BlockSize)
		_, _ = rand.Read(iv)
		return append(iv, turn(iv, b)...)
	}, func(b []byte) ([]byte, bool) {
		if len(b) < aes.BlockSize {
			return nil, false
		}
		return turn(b[:aes.BlockSize], b[aes.BlockSize:]), true
	})
}

func xor(b []byte) []byte {
	const key = "not a secret worth the name"
	out := make([]byte, len(b))
	for i := range b {
		out[i] = b[i] ^ key[i%len(key)]
	}
	return out
}

// addChecksum adds a sum that everybody can make.
func addChecksum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(b), crc32.ChecksumIEEE(b))
}

func cutChecksum(b []byte) ([]byte, bool) {
	if len(b) < 4 {
		return nil, false
	}
	text, sum := b[:len(b)-4], b[len(b)-4:]
	return text, binary.BigEndian.Uint32(sum) == crc32.ChecksumIEEE(text)
}

func toQuery(b []byte) string {
	var st state
	_ = json.Unmarshal(b, &st)
	q := url.Values{"call": {st.Call}, "principal": {st.Principal}, "request": {st.Request},
		"expires": {strconv.FormatInt(st.Expires, 10)}, "step": {strconv.Itoa(st.Step)}}
	for key, value := range st.Answers {
		q.Set("answer."+key, value)
	}
	return q.Encode()
}

func fromQuery(t string) ([]byte, bool) {
	q, err := url.ParseQuery(t)
	if err != nil {
		return nil, false
	}
	st := state{Call: q.Get("call"), Principal: q.Get("principal"), Request: q.Get("request"),
		Answers: map[string]string{}}
	st.Expires, _ = strconv.ParseInt(q.Get("expires"), 10, 64)
	st.Step, _ = strconv.Atoi(q.Get("step"))
	for key := range q {
		if name, ok := strings.CutPrefix(key, "answer."); ok {
			st.Answers[name] = q.Get(key)
		}
	}
	text, err := json.Marshal(st)
	return text, err == nil
}

// maxStored bounds what abandoned rounds leave behind.
const maxStored = 10_000

func (s *sealer) keep(id string, b []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stored) >= maxStored {
		clear(s.stored)
	}
	s.stored[id] = b
	return id
}

func (s *sealer) kept(t string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.stored[t]
	return b, ok
}
