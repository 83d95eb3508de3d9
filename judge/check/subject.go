package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/check/planted/correct"
)

// A subject is a server that is checked.
type subject struct {
	correct.Server
	fault *planted.Fault // nil for a correct server
}

// faultTTL is the time of the states of servers whose fault shows when it is over.
const faultTTL = 3 * time.Second

func subjects() (all []subject) {
	for _, f := range planted.Faults {
		o := planted.Options{Fault: f.Name}
		if f.Probe == "state-expired" {
			o.TTL = faultTTL
		}
		all = append(all, subject{fault: &f, Server: correct.Server{Name: f.Name, TTL: o.TTL, Once: []string{"redeem"},
			Start: func(context.Context, *sync.WaitGroup) (first, replica, elsewhere http.Handler, err error) {
				first, replica = planted.Replicas(o)
				return first, replica, planted.New(o), nil
			}}})
	}
	for _, s := range correct.Servers() {
		all = append(all, subject{Server: s})
	}
	return all
}
