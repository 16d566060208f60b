module pgq-ext.invalid/go/pgx5

go 1.19

require (
	github.com/jackc/pgx/v5 v5.3.1
	pgq-ext.invalid/go v0.2.0
)
