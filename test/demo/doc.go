// Package demo tests the scripts of `make demo`.
package demo
