// Package wording holds what messages need wherever they are written: other people's text on one
// line, the one way to write an amount of a signal, and tables.
package wording
