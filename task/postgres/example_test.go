package postgres_test

import (
	"context"
	"log"
	"os"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task/postgres"
)

// One of the instances that share a database.
func ExampleOpen() {
	// postgres://askback:password@db.example:5432/askback?sslmode=verify-full&pool_max_conns=20
	store, err := postgres.Open(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	// Make the server with these options. Its RunTasks runs the tasks of all instances.
	_ = &askback.Options{Tasks: &askback.Tasks{Store: store}}
}
