// Package wording holds what messages about other people's text need, wherever they are
// written: to show it on one line, and to guess which word was meant. And it has the one way
// to write an amount of a signal.
package wording
