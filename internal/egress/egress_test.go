package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// inside are addresses that no stranger may reach.
var inside = []string{
	"0.0.0.0", "0.1.2.3", "0.255.255.255", "10.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.0", "100.64.0.1",
	"100.100.100.200", "100.127.255.255", "127.0.0.0", "127.0.0.1", "127.0.1.1", "127.1.2.3", "127.255.255.255",
	"168.63.129.16", "169.254.0.1", "169.254.169.254", "169.254.170.2", "169.254.255.255", "172.16.0.1",
	"172.17.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.8", "192.0.0.170", "192.0.0.192", "192.0.2.1",
	"192.88.99.1", "192.168.0.1", "192.168.1.1", "192.168.255.255", "198.18.0.1", "198.19.255.255", "198.51.100.7",
	"203.0.113.9", "224.0.0.1", "224.0.0.251", "239.255.255.250", "240.0.0.1", "250.1.2.3", "255.255.255.254",
	"255.255.255.255",
	"::", "::1", "::2", "::7f00:1", "::127.0.0.1", "::10.0.0.1", "::169.254.169.254", "::8.8.8.8",
	"::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
	"::ffff:192.168.1.1", "::ffff:0.0.0.0", "::ffff:100.64.0.1", "64:ff9b::7f00:1", "64:ff9b::127.0.0.1",
	"64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::7f00:1", "64:ff9b:1::a00:1", "64:ff9b:1:ffff::1",
	"100::1", "100:0:0:1::1", "1::1", "2001::1", "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
	"2001:1::1", "2001:2::1", "2001:3::1", "2001:4:112::1", "2001:10::1", "2001:20::1", "2001:30::1",
	"2001:1ff:ffff::1", "2001:db8::1", "2001:db8:ffff::1", "2002:7f00:1::1", "2002:a00:1::", "2002:a9fe:a9fe::1",
	"2002:808:808::1", "3fff::1", "3fff:fff::1", "4000::1", "5f00::1", "8000::1", "fc00::1", "fd00::1",
	"fd00:ec2::254", "fd20:ce::254", "fdff:ffff::1", "fe80::1", "fe80::a9fe:a9fe", "febf::1", "fec0::1", "ff00::1",
	"ff01::1", "ff02::1", "ff02::fb", "ff05::1:3", "ff0e::1", "ffff::1",
}

// hostile are URLs that mean an address inside, or that a parser could take for one, with the port %d.
func hostile() []string {
	var all []string
	for _, a := range inside {
		if strings.Contains(a, ":") {
			a = "[" + a + "]"
		}
		all = append(all, "https://"+a+":%d/hook")
	}
	for _, host := range []string{
		// Spellings of addresses that some parsers understand.
		"0x7f.1", "0x7f.0.0.1", "0x7f000001", "0X7F000001", "017700000001", "0177.0.0.1", "0177.0.0.01", "0177.1",
		"00000177.1", "2130706433", "127.1", "127.0.1", "127.0.0.1.", "127.000.000.001", "0", "0.0", "0x0", "0.0.0.0.",
		"3232235777", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518", "169.16689662", "0xa.0.0.1",
		"012.0.0.1", "10.1", "192.168.257", "4294967295", "127.0.0.1%%00.example.com", "①②⑦.⓪.⓪.①", "127。0。0。1",
		"127．0．0．1", "[::ffff:7f00:0001]", "[0:0:0:0:0:0:0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]",
		"[0:0:0:0:0:ffff:127.0.0.1]", "[::1%%25lo]", "[::1%%25eth0]", "[fe80::1%%25lo]", "[fe80::1%%25eth0]",
		"[::ffff:127.0.0.1%%25lo]", "[::%%25lo]", "[ff02::1%%25lo]", "[v1.127.0.0.1]", "[127.0.0.1]",
		// Names of hosts inside, and names that lead inside.
		"localhost", "LOCALHOST", "localhost.", "LocalHost.", "localhost.localdomain", "ip6-localhost", "ip6-loopback",
		"foo.localhost", "metadata.google.internal", "metadata", "instance-data.ec2.internal",
		"kubernetes.default.svc.cluster.local", "host.docker.internal", "inside.example", "inside.example.",
		"127.0.0.1.nip.io", "www.127-0-0-1.example", "both.example", "later.example", "loop.example", "xn--n3h.example",
		"mapped.example", "nat64.example", "sixtofour.example", "teredo.example", "ula.example", "linklocal.example",
		"zero.example", "metadata.example", "cgnat.example", "multicast.example", "compatible.example",
		// Where the host is looked for in the wrong place.
		"public.example@127.0.0.1", "public.example:443@127.0.0.1", "public.example%%40127.0.0.1", "user:pass@localhost",
		"public.example%%2f@127.0.0.1", "127.0.0.1\\@public.example", "127.0.0.1%%23@inside.example", "@127.0.0.1",
		"public.example%%0d%%0ahost:127.0.0.1", "public.example %%20127.0.0.1", "127.0.0.1%%09", "127.0.0.1%%2f",
	} {
		all = append(all, "https://"+host+":%d/hook")
	}
	return append(all, "https://127.0.0.1:%d", "https://localhost:0%d/", "http://127.0.0.1:%d/", "https:127.0.0.1:%d/",
		"https:///127.0.0.1:%d/", "https:/\\127.0.0.1:%d/", "//127.0.0.1:%d/",
		"https://inside.example:%d/#@public.example", "https://inside.example:%d?@public.example", "file://127.0.0.1:%d/",
		"gopher://127.0.0.1:%d/", "unix:///tmp/%d")
}

// names are what the resolver says, in turn: a name may be outside when somebody looks, and inside when it connects.
var names = map[string][]string{
	"public.example.": {"192.0.2.1"}, "both.example.": {"198.51.100.1 127.0.0.1"},
	"later.example.":  {"8.8.8.8", "127.0.0.1"},
	"mapped.example.": {"::ffff:127.0.0.1"}, "nat64.example.": {"64:ff9b::7f00:1"},
	"sixtofour.example.": {"2002:7f00:1::"},
	"teredo.example.":    {"2001:0:7f00:1::"}, "ula.example.": {"fd00:ec2::254"}, "linklocal.example.": {"fe80::1"},
	"zero.example.": {"0.0.0.0", "::"}, "metadata.example.": {"169.254.169.254"}, "cgnat.example.": {"100.64.0.1"},
	"multicast.example.": {"224.0.0.1"}, "compatible.example.": {"::127.0.0.1"},
}

// Of two hundred addresses that strangers could give, none leads to a listener on this machine, and no connection is
// made that the check of the address has not seen.
func TestNoAddressLeadsInside(t *testing.T) {
	if n := len(hostile()); n < 200 {
		t.Errorf("there are %d addresses, want 200", n)
	}
	var connections atomic.Int32
	ports := map[string]int{}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("without %s: %v", address, err)
			continue
		}
		defer l.Close()
		ports[address] = l.Addr().(*net.TCPAddr).Port
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				connections.Add(1)
				conn.Close()
			}
		}()
	}
	resolver, asked := fakeDNS(t)
	d := &net.Dialer{Resolver: resolver}
	client := New(guarded(d))
	check := d.Control
	var mu sync.Mutex
	var reached []string
	d.Control = func(network, address string, c syscall.RawConn) error {
		err := check(network, address, c)
		if at, _ := netip.ParseAddrPort(address); err == nil && at.IsValid() && !at.Addr().IsLoopback() {
			mu.Lock()
			defer mu.Unlock()
			reached = append(reached, address)
			err = errors.New("the test makes no connection to other machines")
		}
		return err
	}
	try := func(address string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("{}"))
		if err != nil {
			return err
		}
		_, _, err = client.Do(req)
		return err
	}
	for _, port := range ports {
		for _, address := range hostile() {
			if address = fmt.Sprintf(address, port); try(address) == nil {
				t.Errorf("%s was reached", address)
			}
		}
		_ = try(fmt.Sprintf("https://later.example:%d/hook", port)) // the first time it was outside
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
	// The name that led outside once was let through that once. So the test sees a connection that is made.
	for _, address := range reached {
		if host, _, _ := net.SplitHostPort(address); host != "8.8.8.8" {
			t.Errorf("a connection to %s was about to be made", address)
		}
	}
	if len(reached) == 0 || asked.Load() == 0 {
		t.Errorf("%d connections were about to be made, after %d names were asked for", len(reached), asked.Load())
	}
	expect.Is(t, "the error", try(fmt.Sprintf("https://127.0.0.1:%d/", ports["127.0.0.1:0"])), ErrAddress)
}

// What is beside the special blocks is reached.
func TestAddressesOutside(t *testing.T) {
	for _, text := range inside {
		if routable(netip.MustParseAddr(text)) {
			t.Errorf("%s is routable", text)
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
		"126.255.255.255", "128.0.0.0", "168.63.129.15", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
		"192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"::ffff:8.8.8.8", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111", "2a00:1450::1", "3ffe::1"} {
		if !routable(netip.MustParseAddr(text)) {
			t.Errorf("%s is not routable", text)
		}
	}
	if routable(netip.Addr{}) || routable(netip.MustParseAddr("2606:4700::1111%eth0")) {
		t.Error("no address, or one with a zone, is routable")
	}
}

// No proxy of the environment, which may be inside, is asked in place of an address.
func TestNoProxy(t *testing.T) {
	if transport := guarded(new(net.Dialer)); transport.Proxy != nil {
		t.Error("the transport has a proxy")
	}
}

// A redirect is the answer, and nobody follows it, also on a transport of the operator.
func TestNoRedirect(t *testing.T) {
	var followed atomic.Bool
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/inside" {
			followed.Store(true)
		}
		http.Redirect(w, r, "/inside", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("{}"))
	status, _, err := New(server.Client().Transport).Do(req)
	if status != http.StatusTemporaryRedirect || err != nil || followed.Load() {
		t.Errorf("the answer is %d, %v; followed: %v", status, err, followed.Load())
	}
}

// Of a response that never ends, or is huge, the status and the beginning are read.
func TestALongResponse(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/huge" {
			_, _ = io.Copy(w, io.LimitReader(zeros{}, 1<<20))
			return
		}
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	for path, want := range map[string]int{"/huge": longestBody, "/endless": len("begun")} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, nil)
		status, body, err := New(server.Client().Transport).Do(req)
		if status != http.StatusOK || err != nil || len(body) != want {
			t.Errorf("%s: %d with %d bytes, %v", path, status, len(body), err)
		}
	}
}

// A certificate that the system does not trust is refused.
func TestTLSIsVerified(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	transport := guarded(new(net.Dialer))
	transport.DialContext = new(net.Dialer).DialContext
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, nil)
	_, _, err := New(transport).Do(req)
	if failed, ok := errors.AsType[*url.Error](err); !ok || !strings.Contains(failed.Error(), "certificate") {
		t.Errorf("the error is %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// fakeDNS returns a resolver whose server knows only names, and says 127.0.0.1 for all others.
func fakeDNS(t *testing.T) (_ *net.Resolver, asked *atomic.Int32) {
	t.Helper()
	conn := expect.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { conn.Close() })
	asked = new(atomic.Int32)
	go func() {
		turns := make(map[string]int)
		for buf := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			asked.Add(1)
			_, _ = conn.WriteTo(answer(buf[:n], turns), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}, asked
}

// answer answers one question of DNS for addresses.
func answer(query []byte, turns map[string]int) []byte {
	var name strings.Builder
	at := 12
	for query[at] != 0 {
		name.Write(query[at+1 : at+1+int(query[at])])
		name.WriteByte('.')
		at += 1 + int(query[at])
	}
	kind := binary.BigEndian.Uint16(query[at+1:])
	question := query[12 : at+5]
	said, known := names[strings.ToLower(name.String())]
	if !known {
		said = []string{"127.0.0.1 ::1"}
	}
	turn := min(turns[name.String()]/2, len(said)-1) // two questions at a time: A and AAAA
	turns[name.String()]++
	var records [][]byte
	for text := range strings.FieldsSeq(said[turn]) {
		a := netip.MustParseAddr(text)
		if a.Is4() == (kind == 1) {
			data := a.AsSlice()
			record := append([]byte{0xc0, 12}, question[len(question)-4:]...)
			record = append(record, 0, 0, 0, 0, 0, byte(len(data)))
			records = append(records, append(record, data...))
		}
	}
	header := slices.Concat(query[:2], []byte{0x81, 0x80, 0, 1, 0, byte(len(records)), 0, 0, 0, 0})
	return slices.Concat(header, question, slices.Concat(records...))
}
