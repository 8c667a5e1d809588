//go:build !linux

package measure

import (
	"errors"
	"time"
)

var errSystem = errors.New("measuring needs Linux")

func cpuTime() (time.Duration, error) { return 0, errSystem }

func residentKiB() (float64, error) { return 0, errSystem }
