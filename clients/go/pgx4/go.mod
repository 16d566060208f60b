module pgq-ext.invalid/go/pgx4

go 1.19

require (
	github.com/jackc/pgconn v1.13.0
	github.com/jackc/pgx/v4 v4.17.2
	pgq-ext.invalid/go v0.2.0
)
