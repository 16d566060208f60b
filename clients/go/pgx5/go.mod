module github.com/pgq-ext/pgq_ext/clients/go/pgx5

go 1.19

require (
	github.com/jackc/pgx/v5 v5.3.1
	github.com/pgq-ext/pgq_ext/clients/go v0.2.0
)
