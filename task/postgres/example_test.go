package postgres_test

import (
	"context"
	"log"
	"os"

	"github.com/askback-mcp/askback/task/postgres"
)

func ExampleOpen() {
	// postgres://askback:password@db.example:5432/askback?sslmode=verify-full&pool_max_conns=20
	store, err := postgres.Open(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	n, err := store.Purge(context.Background(), 0, 1000)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%d old tasks are gone", n)
}
