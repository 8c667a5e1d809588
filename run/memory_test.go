package run_test

import (
	"testing"

	"github.com/rouse-run/rouse/run"
	"github.com/rouse-run/rouse/store/storetest"
)

func TestMemoryIsAJournal(t *testing.T) {
	t.Parallel()
	storetest.RunJournal(t, storetest.JournalConfig{New: func(*testing.T) run.Journal { return run.NewMemory() }})
}
