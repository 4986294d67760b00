// Package table tests table.awk, by which `make bench` shows the benchmarks that have a budget.
package table
