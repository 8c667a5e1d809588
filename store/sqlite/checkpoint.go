package sqlite

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// checkpointer moves the write-ahead log into the database while commits go on.
// It cannot catch up with them, so in the end it takes the turn and moves the
// little that has come meanwhile; then the log begins anew and stays bounded.
type checkpointer struct {
	open   func() (*sqlite3.Conn, error)
	finish func() // takes the turn and has the writer move the rest
	log    *slog.Logger
	every  int

	next  int // pages at which the writer calls for the next one; the writer's
	busy  atomic.Bool
	start chan struct{}
	ended chan struct{}
}

func newCheckpointer(s *Store, finish func()) *checkpointer {
	c := &checkpointer{
		open: s.openCheckpointer, finish: finish, log: s.cfg.Log, every: s.cfg.CheckpointPages, next: s.cfg.CheckpointPages,
		start: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go c.loop()
	return c
}

// grown tells the size of the log after a transaction. It is called by whoever has the turn.
func (c *checkpointer) grown(pages int) {
	if pages >= c.next && c.busy.CompareAndSwap(false, true) {
		c.start <- struct{}{}
	}
}

func (c *checkpointer) loop() {
	defer close(c.ended)
	var conn *sqlite3.Conn
	for range c.start {
		var err error
		if conn == nil {
			conn, err = c.open()
		}
		if err == nil {
			_, _, err = conn.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
		}
		c.report(err)
		c.finish()
	}
	if conn != nil {
		c.report(closeConn(conn))
	}
}

// finished tells how the writer's part went. It is called by whoever has the turn.
func (c *checkpointer) finished(size, moved int, took time.Duration, err error) {
	c.report(err)
	c.log.Debug("checkpoint finished", "pages", size, "moved", moved, "took", took)
	c.next = c.every
	if moved < size {
		// A reader, or another process, holds the log; it is not tried at every commit.
		c.next = size + c.every
	}
	c.busy.Store(false)
}

// report logs a failure, which nobody waits for: what was committed is in the log
// of the database and the next checkpoint tries again.
func (c *checkpointer) report(err error) {
	if err != nil && !errors.Is(err, sqlite3.BUSY) {
		c.log.Error("checkpoint failed", "err", err)
	}
}

// stop waits for the end of the goroutine.
func (c *checkpointer) stop() {
	close(c.start)
	<-c.ended
}
