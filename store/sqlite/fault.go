package sqlite

// The points at which Config.Fault is called, in the order in which they are passed.
const (
	PointOpenBegin  = "open.begin"  // Open has the lock and has not touched the database
	PointOpenSchema = "open.schema" // the tables are there, the node is not registered
	PointOpenNode   = "open.node"   // the node is registered

	PointCommitBegin  = "commit.begin"  // a transaction is about to begin
	PointCommitRun    = "commit.run"    // within it: the rows of a run and its thread are written
	PointCommitEvents = "commit.events" // within it: the run's events are written
	PointCommitLast   = "commit.last"   // everything is written, COMMIT comes next
	PointCommitDone   = "commit.done"   // it is on the disk, nobody has been told

	PointBlobBegin = "blob.begin" // the transaction has begun, a blob comes next
	PointBlobDone  = "blob.done"  // within it: the blob is written

	PointCloseNode       = "close.node"       // the node's row is about to be deleted
	PointCheckpointBegin = "checkpoint.begin" // the writer is about to move the log into the database
	PointCheckpointDone  = "checkpoint.done"  // it has moved it
)

// FaultPoints returns every point at which Config.Fault is called.
func FaultPoints() []string {
	return []string{
		PointOpenBegin, PointOpenSchema, PointOpenNode,
		PointCommitBegin, PointCommitRun, PointCommitEvents, PointCommitLast, PointCommitDone,
		PointBlobBegin, PointBlobDone,
		PointCloseNode, PointCheckpointBegin, PointCheckpointDone,
	}
}
