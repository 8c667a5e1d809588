module github.com/rouse-run/rouse

go 1.26

require (
	github.com/google/jsonschema-go v0.4.3
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	go.uber.org/goleak v1.3.0
	golang.org/x/text v0.14.0
)

require pgregory.net/rapid v1.3.0
