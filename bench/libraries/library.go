// A worker with clients/go and pgx 4.  library noop|update CONCURRENCY
// bench/libraries.sh puts the path of the module in place of MODULE.
package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"time"

	pgqext "MODULE"
	"MODULE/pgx4"
)

func noop(ctx context.Context, job *pgqext.Job) (any, error) { return nil, nil }

func update(ctx context.Context, job *pgqext.Job) (any, error) {
	var mail struct{ Template int }
	if err := json.Unmarshal(job.Payload, &mail); err != nil {
		return nil, err
	}
	_, err := pgx4.Tx(job).Exec(ctx, "UPDATE account SET n = n + 1 WHERE id = $1", mail.Template)
	return nil, err
}

func main() {
	handlers := map[string]pgqext.Handler{"noop": noop, "update": update}
	concurrency, _ := strconv.Atoi(os.Args[2])
	pgqext.Worker{
		Connect: pgx4.Connect(""), Queues: []string{"mail"}, Handler: handlers[os.Args[1]], Tx: os.Args[1] == "update",
		Concurrency: concurrency, Wait: time.Second,
	}.Main()
}
