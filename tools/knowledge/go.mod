module knowledge

go 1.26.0
