module github.com/rouse-run/rouse

go 1.26

require pgregory.net/rapid v1.3.0
