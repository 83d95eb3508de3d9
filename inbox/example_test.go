package inbox_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/task"
)

type userKey struct{}

// The inbox is mounted below a prefix of a program whose own middleware signs people in.
func ExampleNew() {
	d, err := desk.Open(new(task.MemoryStore), nil) // the store of the server whose tasks ask people
	if err != nil {
		log.Fatal(err)
	}
	page, err := inbox.New(d, &inbox.Options{
		Title: "shop",
		Identity: inbox.IdentityFunc(func(r *http.Request) (desk.Person, error) {
			name, _ := r.Context().Value(userKey{}).(string) // which the middleware has put there
			return desk.Person{Name: name, Groups: []string{"release"}}, nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/inbox/", http.StripPrefix("/inbox", page))
	signedIn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, "ada")))
	})

	web := httptest.NewServer(signedIn)
	defer web.Close()
	res, err := http.Get(web.URL + "/inbox/")
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Status, strings.Contains(string(text), "Nothing waits for you."))
	// Output: 200 OK true
}
