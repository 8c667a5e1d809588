//go:build unix && !race

package main

const (
	killMoments = 50 // in each batch
	killStep    = 1  // every passage of a fault point
)
