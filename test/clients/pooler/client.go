package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
)

func main() {
	setting, word, url := os.Args[1], os.Args[2], os.Args[3]
	if setting == "set" {
		url += "&statement_cache_mode=describe"
	}
	ctx := context.Background()
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		var answer string
		for i := 0; i < 10 && err == nil; i++ {
			err = db.QueryRow(ctx, "SELECT '"+word+" ' || count(*) FROM pgq_claim($1, 1)", "mail").Scan(&answer)
		}
		var pg *pgconn.PgError
		if errors.As(err, &pg) {
			answer = pg.Code + " " + pg.Message
		} else if err != nil {
			answer = err.Error()
		}
		fmt.Println(answer)
		err = nil
	}
}
