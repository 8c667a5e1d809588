module github.com/rouse-run/rouse

go 1.26
