package main

import (
	"errors"
	"io"
	"net/url"
	"os"
	"syscall"
)

// isClosedPipe reports whether err says that the reader of our output is gone.
func isClosedPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed)
}

// bareURLError drops the address from a client's error: it may hold a password.
func bareURLError(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
