//go:build unix && !linux

package builtin_test

import "syscall"

func running(pid int) bool { return syscall.Kill(pid, 0) == nil }

func anyInGroup(group int) bool { return syscall.Kill(-group, 0) == nil }
