// Package inflight follows a victim from its request to the memory or disk space that its end
// frees.
package inflight
