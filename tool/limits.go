package tool

import (
	"cmp"
	"time"
)

// Limits bound what goes into and comes out of a call. A zero field means its
// default; New refuses a negative one.
type Limits struct {
	// Args is the largest argument text, in bytes (max_args). Default DefaultMaxArgs.
	Args int
	// Depth is how deeply objects and arrays may be nested in arguments
	// (max_depth). Default DefaultMaxDepth.
	Depth int
	// Number is the most characters of a number in arguments, and the largest
	// value of its exponent (max_number). Default DefaultMaxNumber.
	Number int
	// Result is the largest output that a tool may return, in bytes; more is a
	// failed call (max_result). Default DefaultMaxResult.
	Result int
}

// The defaults of Limits.
const (
	DefaultMaxArgs   = 1 << 20
	DefaultMaxDepth  = 64
	DefaultMaxNumber = 1024
	DefaultMaxResult = 64 << 20
)

// Fixed bounds.
const (
	// MaxSchema is the largest schema of a tool, in bytes.
	MaxSchema = 256 << 10
	// MaxErrorText is the most that a model is shown of a failed call, in bytes.
	MaxErrorText = 8 << 10
	// MaxProgress is the most that one progress report passes on, in bytes.
	MaxProgress = 4 << 10
	// MaxRetryWait is the longest wait before a retry. A tool whose error asks for
	// more (RetryAfter) is not retried.
	MaxRetryWait = 30 * time.Second
	// KeepTimeout bounds the storing of a result that was too long to show.
	KeepTimeout = 30 * time.Second

	maxSchemaShown     = 3 << 10
	maxNamesShown      = 2 << 10
	maxViolationsShown = 10
	maxValueShown      = 60
)

func (l Limits) withDefaults() Limits {
	l.Args = cmp.Or(l.Args, DefaultMaxArgs)
	l.Depth = cmp.Or(l.Depth, DefaultMaxDepth)
	l.Number = cmp.Or(l.Number, DefaultMaxNumber)
	l.Result = cmp.Or(l.Result, DefaultMaxResult)
	return l
}
