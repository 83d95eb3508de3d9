// The command planted serves a server that asks, with one fault if a name is given:
//
//	go run ./check/planted -fault plain-base64
//	askback check --header 'Authorization: Bearer planted-token-of-alice-5e1c' http://127.0.0.1:7800/
//
// With -list it lists the faults, and the probe that finds each.
package main

import (
	"encoding/hex"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/askback-mcp/askback/check/planted"
)

func main() {
	address := flag.String("addr", "127.0.0.1:7800", "address to listen on; the port 0 is a free one")
	fault := flag.String("fault", "", "the planted fault")
	hostile := flag.String("hostile", "", "serve a hostile server instead: one of the names that -list shows")
	elsewhere := flag.String("elsewhere", "http://127.0.0.2:7801/", "where the hostile server \"redirect\" leads")
	seal := flag.String("seal", "", "how states are protected: one of the names that -list shows")
	key := flag.String("key", "", "64 hexadecimal digits that replicas share")
	ttl := flag.Duration("ttl", 0, "time of states")
	stream := flag.Bool("stream", false, "send responses as streams of events")
	list := flag.Bool("list", false, "list the faults, seals and hostile servers")
	flag.Parse()
	if *list {
		printList()
		return
	}
	shared, err := hex.DecodeString(*key)
	if err != nil || len(shared) != 0 && len(shared) != 32 {
		log.Fatalf("-key %q is not 64 hexadecimal digits", *key)
	}
	if len(shared) == 0 {
		shared = nil
	}
	if *hostile != "" && !slices.Contains(planted.Hostiles, *hostile) {
		log.Fatalf("there is no hostile server %q; -list shows their names", *hostile)
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	handler := planted.New(planted.Options{Fault: *fault, Seal: *seal, Key: shared, TTL: *ttl, Stream: *stream})
	if *hostile != "" {
		handler = planted.Hostile(*hostile, *elsewhere)
	}
	log.Fatal((&http.Server{Handler: handler}).Serve(listener))
}

func printList() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, f := range planted.Faults {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Name, f.Probe, f.Level, f.Wrong)
	}
	_ = w.Flush()
	fmt.Println("seals:", planted.Seals)
	fmt.Println("hostile servers:", planted.Hostiles)
}
