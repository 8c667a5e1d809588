//go:build unix

package main

import (
	"fmt"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rouse-run/rouse/model/mock"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// servers are the models that scripts have started.
var servers modelServers

type modelServers struct {
	mu sync.Mutex
	of map[*testscript.TestScript]*mock.GPT
}

func (m *modelServers) put(ts *testscript.TestScript, g *mock.GPT) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[*testscript.TestScript]*mock.GPT{}
	}
	m.of[ts] = g
}

func (m *modelServers) get(ts *testscript.TestScript) *mock.GPT {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[ts] == nil {
		ts.Fatalf("no model was started")
	}
	return m.of[ts]
}
