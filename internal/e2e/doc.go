// Package e2e holds no code, only tests of the parts together: the agent, a wire,
// a scripted provider over TCP, and the store, as a program wires them.
package e2e
