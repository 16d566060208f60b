module pgq-ext.invalid/go

go 1.19
