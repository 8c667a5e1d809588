package main

import (
	"os"
	"syscall"
)

// leaves reports whether sig asks the program to end and to leave its run as it is.
func leaves(sig os.Signal) bool { return sig == syscall.SIGTERM || sig == syscall.SIGHUP }
