package main

import (
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/askback-mcp/askback/slack/slacktest"
)

// demo stands in for Slack on the server itself. Messages go to the log, and somebody presses a button of the last one:
//
//	curl '127.0.0.1:8080/press?user=U0ADA&button=Accept'
func demo(mux *http.ServeMux, base string) config {
	c := config{token: "xoxb-demo", secret: "a secret for this demo", channel: "C0DEMO", inbox: "http://127.0.0.1:8081",
		api: base + "/api/"}
	slack := slacktest.New(slacktest.Options{Token: c.token, SigningSecret: c.secret, Channels: []string{c.channel},
		Posted: func(m slacktest.Message) { log.Printf("Slack: %q", m.Words()) }})
	mux.Handle("/api/", slack)
	mux.Handle("/response/", slack)
	mux.HandleFunc("/press", func(w http.ResponseWriter, r *http.Request) {
		if err := press(w, r, slack, base); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	return c
}

func press(w http.ResponseWriter, r *http.Request, slack *slacktest.Server, base string) error {
	by := slacktest.User{ID: r.FormValue("user"), Team: "T0EXAMPLE"}
	all := slack.Messages()
	if len(all) == 0 {
		return errors.New("the channel has no message yet")
	}
	m := all[len(all)-1]
	for _, b := range m.Buttons() {
		if b.Text != r.FormValue("button") {
			continue
		}
		p, err := slack.Press(r.Context(), base+"/slack", base, by, m, b)
		if err == nil && p.View != nil { // with a place for a reason
			p, err = slack.Submit(r.Context(), base+"/slack", by, p.View, map[string]any{
				"reason": map[string]any{"type": "plain_text_input", "value": r.FormValue("reason")},
			})
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "Slack got %d from the app. %s\n", p.Status, slack.Told(p))
		return nil
	}
	return fmt.Errorf("the last message has no button %q", r.FormValue("button"))
}
