module github.com/pgq-ext/pgq_ext/clients/go

go 1.19
