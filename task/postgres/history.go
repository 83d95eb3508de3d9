package postgres

// Conditions of indexes, as in sql.go.
const (
	changedQuestion = `changed > '-infinity' AND who <> '{}'`
	listedAsked     = `asked > '-infinity'`
	listedDeadline  = `deadline > '-infinity'`
)
