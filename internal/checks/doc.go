// Package checks holds no code, only tests about the module itself: which
// package may import which, how large things may grow, what must be documented.
// The rules are data, in tables_test.go; the other files apply them.
package checks
